//! The normal form of domains, and sets against a scan of all members.

use proptest::prelude::*;

use super::*;

#[test]
fn all_spellings_have_one_form() {
    for (text, want) in [
        ("ford.com", "ford.com"),
        ("FORD.com", "ford.com"),
        ("ford.com.", "ford.com"),
        ("ford.com...", "ford.com"),
        (" ford.com\t", "ford.com"),
        ("\u{a0}ford.com\u{a0}", "ford.com"),
        ("https://ford.com/", "ford.com"),
        ("HTTPS://user:pw@Ford.com.:443/a?b#c", "ford.com"),
        ("//ford.com", "ford.com"),
        ("ford.com/path", "ford.com"),
        ("ford.com//path", "ford.com"),
        ("ford.com?x=//y", "ford.com"),
        ("ford.com:8080", "ford.com"),
        ("www.ford.com", "ford.com"),
        ("https://WWW.ford.com", "ford.com"),
        ("www.com", "www.com"),
        ("wwww.ford.com", "wwww.ford.com"),
        ("a.www.ford.com", "a.www.ford.com"),
        ("a_b.ford.com", "a_b.ford.com"),
        (".ford.com", "ford.com"),
        ("*.ford.com", "ford.com"),
        ("https://*.Ford.com/", "ford.com"),
        ("*.www.ford.com", "ford.com"),
        (".müller.example", "xn--mller-kva.example"),
        ("*.müller.example", "xn--mller-kva.example"),
        ("android-app://com.ford.app/x", "com.ford.app"),
        ("a+b.c://ford.com", "ford.com"),
        ("*", ""),
        ("müller.example", "xn--mller-kva.example"),
        ("https://WWW.MÜLLER.example./", "xn--mller-kva.example"),
        ("xn--mller-kva.example", "xn--mller-kva.example"),
        ("ｆｏｒｄ。ｃｏｍ", "ford.com"),
        ("ford\u{200b}.com", "ford.com"),
        ("[::1]:80", "[::1]"),
        ("", ""),
        ("...", ""),
        ("https://", ""),
        // No domains, and no panic.
        ("a b", "a b"),
        ("\u{301}.example", "\u{301}.example"),
    ] {
        assert_eq!(normal_domain(text), want, "{text}");
    }
    for text in ["ads.ford.com", "www.ford.com", "ford.com."] {
        assert!(matches!(normal_domain(text), Cow::Borrowed(_)), "{text}");
    }
    // Long names beyond ASCII are not converted.
    let long = "é".repeat(TEXT_BYTES_MAX);
    assert_eq!(normal_domain(&long), long);
}

#[test]
fn what_is_too_long_for_a_name_is_no_domain() {
    let long = format!("{}news.example", "a.".repeat(100_000));
    let found: Vec<_> = suffixes(&long).collect();
    assert!(found.iter().all(|suffix| suffix.len() <= DOMAIN_BYTES_MAX));
    assert_eq!((found.len(), found.last()), (122, Some(&"example")));
    assert_eq!(suffixes(".a..b").collect::<Vec<_>>(), [".a..b", "a..b", ".b", "b"]);
    let steps = Steps::default();
    let set = DomainSet::new(["news.example", &long].into_iter(), &steps);
    assert!(set.has(&long, &steps) && !set.has(&long[1..long.len() - 1], &steps));
}

fn domain() -> impl Strategy<Value = String> {
    let label = prop::sample::select(vec!["a", "b", "ab", "a-b", "b-a", "com"]);
    prop::collection::vec(label, 1..5).prop_map(|labels| labels.join("."))
}

proptest! {
    #[test]
    fn a_set_has_what_is_within_any_of_its_members(
        listed in prop::collection::vec(domain(), 0..12),
        asked in prop::collection::vec(domain(), 1..8),
    ) {
        let steps = Steps::default();
        let set = DomainSet::new(listed.iter().map(String::as_str), &steps);
        for domain in asked {
            let want = listed.iter().any(|own| is_within(&domain, own));
            prop_assert_eq!(set.has(&domain, &steps), want, "{} in {:?}", domain, listed);
        }
    }
}
