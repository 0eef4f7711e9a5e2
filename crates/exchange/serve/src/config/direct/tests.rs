//! Every problem of a campaign's keys, word for word, and the effect of their values.

use runtime::config::{default_toml, describe, parse};

use super::*;
use exchange_core::AdSize;

const CREATIVE: &str = "[[creative]]\nid = \"c\"\nformat = \"banner\"\nmarkup = \"<p>\"\n";

fn read(s: &mut Section<'_>) -> Option<DirectRules> {
    DirectRules::read(s, Currency::USD)
}

#[track_caller]
fn check(text: &str, want: &[&str]) {
    let problems = parse("campaign.toml", text, read).err();
    let lines: Vec<String> =
        problems.iter().flat_map(|problems| problems.iter().map(ToString::to_string)).collect();
    assert_eq!(lines, want, "{text}");
}

/// Keys of `[targeting]`, on the line after it.
#[track_caller]
fn check_targeting(keys: &str, want: &str) {
    let text = format!("[targeting]\n{keys}\n[bid]\nvalue = \"1\"\n{CREATIVE}");
    check(&text, &[&format!("line 2: targeting.{want}")]);
}

/// Keys of the only `[[creative]]`, on the first line after the required ones.
#[track_caller]
fn check_creative(keys: &str, want: &str) {
    let text = format!("[bid]\nvalue = \"1\"\n{CREATIVE}{keys}");
    check(&text, &[&format!("line 7: creative[0].{want}")]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of keys")]
fn all_keys_are_read() {
    let text = r##"
[bid]
price = "2.50"
[targeting]
formats = ["banner", "video"]
sizes = ["300x250", "728x90"]
countries = ["USA"]
countries_blocked = ["DEU"]
regions = ["USA/CA"]
regions_blocked = ["USA/NY"]
publishers = ["p1"]
publishers_blocked = ["p2"]
domains = ["News.example"]
domains_blocked = ["bad.example"]
app_bundles = ["com.a"]
app_bundles_blocked = ["com.b"]
pages = ["https://news.example/sport/"]
key_values = ["section=sport", "k=v=w", "section=live"]
deals = ["d1"]
device_types = ["pc", "phone"]
[[creative]]
id = "c1"
format = "banner"
size = "300x250"
markup = "<p>${AUCTION_PRICE}</p>"
domains = ["acme.example"]
app_bundle = "com.acme"
categories = ["IAB7-39"]
category_taxonomy = 6
attributes = [3, 16]
language = "pt-BR"
[[creative]]
id = "c2"
format = "video"
markup = "<VAST></VAST>"
duration_s = 15
"##;
    let rules = parse("campaign.toml", text, read).unwrap().unwrap();
    assert!(rules.is_fixed_price());
    let boxed = |text: &str| vec![Box::from(text)];
    let listed = |allowed: &str, blocked: &str| MatchList {
        allowed: boxed(allowed),
        blocked: boxed(blocked),
    };
    let in_usa = |region: &str| vec![Region { country: "USA".into(), region: region.into() }];
    let key_values = |key: &str, values: &[&str]| {
        let values = values.iter().map(|value| Box::from(*value)).collect();
        KeyValues { key: key.into(), values }
    };
    let targeting = CampaignTargeting {
        formats: 0b11,
        sizes: vec![AdSize::new(300, 250), AdSize::new(728, 90)],
        countries: listed("USA", "DEU"),
        regions: in_usa("CA"),
        regions_blocked: in_usa("NY"),
        publishers: listed("p1", "p2"),
        domains: listed("news.example", "bad.example"),
        bundles: listed("com.a", "com.b"),
        pages: PagePrefix::parse("https://news.example/sport/").into_iter().collect(),
        key_values: vec![key_values("section", &["sport", "live"]), key_values("k", &["v=w"])],
        deals: boxed("d1"),
        device_types: 1 << 2 | 1 << 4,
    };
    let banner = CreativeSpec {
        size: Some(AdSize::new(300, 250)),
        domains: boxed("acme.example"),
        bundle: Some("com.acme".into()),
        categories: boxed("IAB7-39"),
        taxonomy: 6,
        attributes: vec![3, 16],
        language: Some("pt-BR".into()),
        ..CreativeSpec::new("c1", MediaType::Banner, "<p>${AUCTION_PRICE}</p>")
    };
    let video = CreativeSpec::new("c2", MediaType::Video, "<VAST></VAST>");
    let video = CreativeSpec { duration_s: Some(15), ..video };
    let creatives = [banner, video].map(|spec| Creative::new(spec).unwrap()).into();
    let price = CampaignPrice::Fixed(Cpm::new(2_500_000).unwrap());
    assert_eq!(*rules.0, BiddingRules { price, targeting: targeting.into(), creatives });
}

#[test]
fn what_is_described_is_read() {
    let text = default_toml(&describe(read));
    for key in ["value", "price", "key_values", "app_bundles_blocked", "markup", "duration_s"] {
        assert!(text.contains(key), "{key}: {text}");
    }
    let least = format!("[bid]\nvalue = \"1\"\n{CREATIVE}");
    check(&least, &[]);
    let rules = parse("campaign.toml", &least, read).unwrap().unwrap();
    assert_eq!(*rules.0.targeting, CampaignTargeting::default());
    assert!(!rules.is_fixed_price());
}

#[test]
fn bids() {
    let with = |keys: &str| format!("[bid]\n{keys}\n{CREATIVE}");
    let absent = "needs an amount as text, for example \"2.50\", or `price` does";
    check(&with(""), &[&format!("line 1: bid.value = absent: {absent}")]);
    check(CREATIVE, &["bid = absent: is needed beside `targeting` and creatives"]);
    let nothing = parse("campaign.toml", "", read).unwrap();
    assert!(nothing.is_none(), "only the pacer's bidders spend it");
    for (keys, want) in [
        ("value = \"0\"", "value = \"0\": is nothing, must be above 0"),
        (
            "value = \"2 USD\"",
            "value = \"2 USD\": needs an amount in USD without its code, for example \"2.50\": it is not a number",
        ),
        (
            "price = \"-1\"",
            "price = \"-1\": needs an amount in USD without its code, for example \"2.50\": it is negative",
        ),
        (
            "price = \"0.0000001\"",
            "price = \"0.0000001\": is finer than a millionth of the currency",
        ),
        (
            "value = \"1000000001\"",
            "value = \"1000000001\": is more than 1000000000 USD, the largest price",
        ),
    ] {
        check(&with(keys), &[&format!("line 2: bid.{want}")]);
    }
    check(
        &with("value = \"1\"\nprice = \"1\""),
        &["line 3: bid.price = \"1\": cannot stand beside `value`, remove one of them"],
    );
}

#[test]
fn targeting() {
    for (keys, want) in [
        (
            "formats = [\"pop\"]",
            "formats[0] = \"pop\": must be one of banner, video, audio, native",
        ),
        (
            "sizes = [\"300\"]",
            "sizes[0] = \"300\": must be width x height, for example \"300x250\"",
        ),
        (
            "countries = [\"US\"]",
            "countries[0] = \"US\": must be three capitals of ISO 3166-1 alpha-3, for example \"DEU\"",
        ),
        (
            "regions = [\"CA\"]",
            "regions[0] = \"CA\": must be a country and a region of ISO 3166, for example \"USA/CA\"",
        ),
        (
            "domains = [\"https://a.example\"]",
            "domains[0] = \"https://a.example\": must be a domain, for example \"acme.example\"",
        ),
        (
            "domains_blocked = [\".example\"]",
            "domains_blocked[0] = \".example\": must be a domain, for example \"acme.example\"",
        ),
        (
            "pages = [\"/sport\"]",
            "pages[0] = \"/sport\": must begin a page's URL, for example \"https://news.example/sport/\" or \"news.example\"",
        ),
        (
            "key_values = [\"sport\"]",
            "key_values[0] = \"sport\": must be a key and a value, for example \"section=sport\"",
        ),
        ("deals = [\"\"]", "deals[0] = \"\": must not be empty"),
        (
            "device_types = [\"fridge\"]",
            "device_types[0] = \"fridge\": must be one of mobile, pc, tv, phone, tablet, connected, set_top_box, ooh",
        ),
        ("country = [\"USA\"]", "country: unknown key, did you mean `countries`?"),
    ] {
        check_targeting(keys, want);
    }
    let text = format!("[bid]\nvalue = \"1\"\n[targeting]\nformats = [\"video\"]\n{CREATIVE}");
    check(
        &text,
        &[
            "line 3: targeting: leaves nothing to show: no creative is of a format and size listed here",
        ],
    );
}

#[test]
fn creatives() {
    check("[bid]\nvalue = \"1\"\n", &["creative = []: needs one at least, under `[[creative]]`"]);
    for (keys, want) in [
        ("size = \"0x250\"", "size = \"0x250\": is for banners alone, and both sides are above 0"),
        ("duration_s = 15", "duration_s = 15: is for video and audio alone, and above 0"),
        ("attributes = [19]", "attributes[0] = 19: must be from 1 to 18"),
        (
            "language = \"german\"",
            "language = \"german\": must be a language of BCP 47, for example \"de\" or \"pt-BR\"",
        ),
        (
            "domains = [\"a b\"]",
            "domains[0] = \"a b\": must be a domain, for example \"acme.example\"",
        ),
        ("width = 300", "width = 300: unknown key, remove it"),
    ] {
        check_creative(keys, want);
    }
    let bid = "[bid]\nvalue = \"1\"\n";
    for (format, markup, want) in [
        ("video", "<p>", "markup = \"<p>\": must be VAST: an XML document with a <VAST> element"),
        ("native", "<p>", "markup = \"<p>\": must be a JSON object of the Native Ads API"),
        ("banner", " ", "markup = \" \": must not be empty"),
        ("banner", "", "markup = \"\": must not be empty"),
    ] {
        let text = format!(
            "{bid}[[creative]]\nid = \"c\"\nformat = \"{format}\"\nmarkup = \"{markup}\"\n"
        );
        check(&text, &[&format!("line 6: creative[0].{want}")]);
    }
    let text = format!("{bid}{CREATIVE}{CREATIVE}");
    check(&text, &["line 3: creative: has two with the id `c`"]);
    let many = format!("{bid}{CREATIVE}domains = [{}]", vec!["\"a.example\""; 33].join(", "));
    let lines = parse("campaign.toml", &many, read).unwrap_err();
    assert!(lines.iter().any(|line| line.to_string().contains("has more than 32 entries")));
}

#[test]
fn every_problem_is_told() {
    let text = "[bid]\nvalue = \"0\"\n[targeting]\ndeals = [\"\"]\n[[creative]]\nid = \"c\"\n";
    check(
        text,
        &[
            "line 2: bid.value = \"0\": is nothing, must be above 0",
            "line 4: targeting.deals[0] = \"\": must not be empty",
            "line 5: creative[0].format: is missing, expected \"banner\", \"video\", \"audio\" or \"native\", for example \"banner\"",
            "line 5: creative[0].markup: is missing, expected text, for example \"<a href=\\\"https://acme.example\\\">…</a>\"",
        ],
    );
}
