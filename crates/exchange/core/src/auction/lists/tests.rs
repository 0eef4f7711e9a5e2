//! Short and long lists, against a scan of all entries.

use openrtb::parse_request;
use serde_json::json;

use super::*;
use crate::fixtures::request;

fn check(filler: usize) {
    let fill = |own: &[&str], form: &dyn Fn(usize) -> String| -> Vec<String> {
        let filler = (0..filler).map(form);
        own.iter().map(|text| (*text).to_owned()).chain(filler).collect()
    };
    let body = request(json!({
        "badv": fill(&["ford.example", "www.opel.example"], &|at| format!("adv-{at}.example")),
        "bapp": fill(&[" com.bad"], &|at| format!("app.{at}")),
        "bcat": fill(&["IAB7", "IAB9-30"], &|at| format!("IAB100-{at}")),
        "wlang": fill(&["en"], &|at| format!("q{at}")),
        "wlangb": fill(&["pt-BR"], &|at| format!("r{at}-RR")),
        "wseat": fill(&["a1"], &|at| format!("seat-{at}")),
    }));
    let request = parse_request(&body).unwrap();
    let lists = RequestLists::default();
    let admits = |cat: &str| lists.admit_categories(&request, &[Text::from(cat)], true);
    for (domain, want) in
        [("ads.ford.example", true), ("https://Opel.example/", true), ("xford.example", false)]
    {
        assert_eq!(lists.blocks_advertiser(&request, domain), want, "{domain}");
    }
    assert!(lists.blocks_app(&request, "com.bad ") && !lists.blocks_app(&request, "com"));
    for (category, want) in
        [("IAB7-39", false), ("IAB70", true), ("IAB9-30", false), ("IAB9", true)]
    {
        assert_eq!(admits(category), want, "{category}");
    }
    for (told, want) in [
        ("EN", true),
        ("en-GB", true),
        ("pt", true),
        ("pt-br", true),
        ("pt-PT", false),
        ("p", false),
        ("xx", true),
    ] {
        assert_eq!(lists.admit_language(&request, told), want, "{told}");
    }
    let wseat = request.wseat.as_deref().unwrap();
    assert!(lists.wseat.has(wseat, "a1", &lists.steps));
    assert!(!lists.wseat.has(wseat, "a", &lists.steps));
    assert!(!lists.wseat.has(wseat, "a1 ", &lists.steps), "as they are written");
}

#[test]
fn short_and_long_lists_say_the_same() {
    for filler in [0, SCANNED_MAX, SHORT_MAX + 1, 3000] {
        check(filler);
    }
}

#[test]
fn a_list_is_sorted_when_it_is_asked_about_and_once() {
    let badv: Vec<_> = (0..60).map(|at| format!("adv-{at}.example")).collect();
    let body = request(json!({ "badv": badv }));
    let request = parse_request(&body).unwrap();
    let lists = RequestLists::default();
    assert!(!lists.sort_next(&request), "it is short");
    assert_eq!(lists.steps.get(), 0);
    lists.blocks_advertiser(&request, "a.example");
    let first = lists.steps.get();
    lists.blocks_advertiser(&request, "a.example");
    assert!(lists.steps.get() - first < 20 && first > 100, "{first}");
}
