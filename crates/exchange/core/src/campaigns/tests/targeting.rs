//! A row for each targeting key, and whether the usual request matches.

use openrtb::codes::MediaType;
use serde_json::{Value, json};

use super::fixtures::{banner, bid, campaign, market_of, request, rules};
use crate::campaigns::catalogue::Catalogue;
use crate::campaigns::creative::CreativeSpec;
use crate::campaigns::targeting::{CampaignTargeting, KeyValues, MatchList, PagePrefix};
use crate::fixtures::merged;
use crate::market::size::AdSize;
use crate::market::targeting::Region;

#[track_caller]
fn check(change: &Value, targeting: CampaignTargeting, want: bool) {
    let request = merged(&request(), change);
    let about = format!("{targeting:?} {request}");
    let catalogue = Catalogue::new(vec![campaign(0, "acme", rules(targeting, vec![banner()]))]);
    let outcome = bid(&catalogue, &market_of(&catalogue), &request);
    assert_eq!(outcome.answer.bids.len(), usize::from(want), "{about}");
    assert_eq!(outcome.asked.len(), usize::from(want), "{about}");
}

fn texts(texts: &[&str]) -> Vec<Box<str>> {
    texts.iter().map(|text| Box::from(*text)).collect()
}

fn listed(allowed: &[&str], blocked: &[&str]) -> MatchList {
    MatchList { allowed: texts(allowed), blocked: texts(blocked) }
}

fn regions(regions: &[&str]) -> Vec<Region> {
    let region = |text: &&str| {
        let (country, region) = text.split_once('/').unwrap();
        Region { country: country.into(), region: region.into() }
    };
    regions.iter().map(region).collect()
}

fn any() -> CampaignTargeting {
    CampaignTargeting::default()
}

#[test]
fn formats_and_sizes() {
    let video = MediaType::Video.bit();
    let banner = MediaType::Banner.bit();
    for (formats, sizes, want) in [
        (0, vec![], true),
        (banner, vec![], true),
        (banner | video, vec![AdSize::new(728, 90), AdSize::new(300, 250)], true),
        (video, vec![], false),
        (banner, vec![AdSize::new(728, 90)], false),
    ] {
        check(&json!({}), CampaignTargeting { formats, sizes, ..any() }, want);
    }
    // A banner without a size does not match a list of sizes.
    let sizeless = json!({ "imp": [{ "id": "1", "banner": {} }] });
    check(&sizeless, any(), true);
    check(&sizeless, CampaignTargeting { sizes: vec![AdSize::new(300, 250)], ..any() }, false);
    // An interstitial's size is a maximum.
    let large = json!({ "imp": [{ "id": "1", "instl": 1, "banner": { "w": 320, "h": 480 } }] });
    check(&large, CampaignTargeting { sizes: vec![AdSize::new(300, 250)], ..any() }, true);
    let small = json!({ "imp": [{ "id": "1", "instl": 1, "banner": { "w": 320, "h": 240 } }] });
    check(&small, any(), false);
}

#[test]
fn a_banner_that_adapts_is_shown_where_a_wanted_size_is_offered() {
    let adaptive = CreativeSpec { size: None, ..banner() };
    let (rectangle, leaderboard) = (AdSize::new(300, 250), AdSize::new(728, 90));
    for (sizes, want) in [(vec![], 1), (vec![rectangle], 1), (vec![leaderboard], 0)] {
        let targeting = CampaignTargeting { sizes, ..any() };
        let rules = rules(targeting, vec![adaptive.clone()]);
        let catalogue = Catalogue::new(vec![campaign(0, "acme", rules)]);
        let outcome = bid(&catalogue, &market_of(&catalogue), &request());
        assert_eq!(outcome.answer.bids.len(), want);
    }
}

#[test]
fn countries_and_regions() {
    let nowhere = json!({ "device": {} });
    let lower = json!({ "device": { "geo": { "country": "usa", "region": "US-ca" } } });
    let country_alone = json!({ "device": { "geo": { "country": "USA" } } });
    for (change, allowed, blocked, want) in [
        (json!({}), vec!["USA", "DEU"], vec![], true),
        (json!({}), vec!["DEU"], vec![], false),
        (json!({}), vec![], vec!["USA"], false),
        (json!({}), vec!["USA"], vec!["DEU"], true),
        (lower.clone(), vec!["USA"], vec![], true),
        (lower.clone(), vec![], vec!["USA"], false),
        (nowhere.clone(), vec!["USA"], vec![], false),
        (nowhere.clone(), vec![], vec!["USA"], true),
    ] {
        check(&change, CampaignTargeting { countries: listed(&allowed, &blocked), ..any() }, want);
    }
    for (change, own, blocked, want) in [
        (json!({}), vec!["USA/CA", "USA/NY"], vec![], true),
        (json!({}), vec!["USA/NY"], vec![], false),
        (json!({}), vec!["DEU/BE"], vec![], true),
        (json!({}), vec![], vec!["USA/CA"], false),
        (json!({}), vec![], vec!["USA/NY"], true),
        (json!({}), vec!["USA/CA"], vec!["USA/CA"], false),
        (lower.clone(), vec!["USA/CA"], vec![], true),
        (lower, vec![], vec!["USA/CA"], false),
        (country_alone.clone(), vec!["USA/CA"], vec![], false),
        (country_alone, vec![], vec!["USA/CA"], true),
    ] {
        let (regions, regions_blocked) = (regions(&own), regions(&blocked));
        check(&change, CampaignTargeting { regions, regions_blocked, ..any() }, want);
    }
}

#[test]
fn publishers_domains_and_applications() {
    let anonymous = json!({ "site": {} });
    for (change, allowed, blocked, want) in [
        (json!({}), vec!["p1"], vec![], true),
        (json!({}), vec!["P1"], vec![], false),
        (json!({}), vec![], vec!["p1"], false),
        (anonymous.clone(), vec!["p1"], vec![], false),
        (anonymous.clone(), vec![], vec!["p1"], true),
    ] {
        check(&change, CampaignTargeting { publishers: listed(&allowed, &blocked), ..any() }, want);
    }
    let subdomain = json!({ "site": { "domain": "eu.news.example" } });
    let by_page = json!({ "site": { "page": "https://eu.news.example/1" } });
    for (change, allowed, blocked, want) in [
        (json!({}), vec!["news.example"], vec![], true),
        (json!({}), vec!["NEWS.example"], vec![], true),
        (json!({}), vec!["https://www.News.example./x"], vec![], true),
        (json!({}), vec!["example"], vec![], true),
        (json!({}), vec!["ews.example", "a.news.example"], vec![], false),
        (json!({}), vec![], vec!["news.example"], false),
        (subdomain.clone(), vec!["news.example"], vec![], true),
        (subdomain, vec!["news.example"], vec!["eu.news.example"], false),
        (by_page, vec!["news.example"], vec![], true),
        (anonymous, vec!["news.example"], vec![], false),
    ] {
        check(&change, CampaignTargeting { domains: listed(&allowed, &blocked), ..any() }, want);
    }
    let app = json!({ "site": null, "app": { "bundle": "com.game" } });
    for (change, allowed, blocked, want) in [
        (app.clone(), vec!["com.game"], vec![], true),
        (app.clone(), vec!["com.other"], vec![], false),
        (app, vec![], vec!["com.game"], false),
        (json!({}), vec!["com.game"], vec![], false),
    ] {
        check(&change, CampaignTargeting { bundles: listed(&allowed, &blocked), ..any() }, want);
    }
}

#[test]
fn pages_and_key_values() {
    let escaped = json!({ "site": { "page": "https://NEWS.example/sp\u{e4}t/" } });
    for (change, pages, want) in [
        (json!({}), vec!["https://news.example/sport/", "https://other.example/"], true),
        (json!({}), vec!["news.example"], true),
        (json!({}), vec!["news.example/politics", "http://news.example/sport/"], false),
        (escaped, vec!["news.example/sp\u{e4}t"], true),
        (json!({ "site": {} }), vec!["news.example"], false),
        (json!({ "site": { "page": "about:blank" } }), vec!["news.example"], false),
    ] {
        let pages = pages.into_iter().map(|page| PagePrefix::parse(page).unwrap()).collect();
        check(&change, CampaignTargeting { pages, ..any() }, want);
    }
    let of_imp = json!({ "imp": [{
        "id": "1", "banner": { "w": 300, "h": 250 }, "ext": { "data": { "slot": 7 } },
    }] });
    for (change, wanted, want) in [
        (json!({}), vec![("section", vec!["news", "sport"])], true),
        (json!({}), vec![("section", vec!["sport"]), ("keywords", vec!["tennis"])], true),
        (json!({}), vec![("section", vec!["sport"]), ("keywords", vec!["golf"])], false),
        (json!({}), vec![("section", vec!["live"]), ("section", vec!["news"])], false),
        (json!({}), vec![("Section", vec!["sport"])], false),
        (json!({}), vec![("section", vec![])], false),
        (json!({}), vec![("slot", vec!["7"])], false),
        (of_imp, vec![("slot", vec!["7"]), ("section", vec!["sport"])], true),
    ] {
        let key_values = wanted
            .into_iter()
            .map(|(key, values)| KeyValues { key: key.into(), values: texts(&values) })
            .collect();
        check(&change, CampaignTargeting { key_values, ..any() }, want);
    }
}

#[test]
fn devices_and_deals() {
    let untold = json!({ "device": {} });
    for (change, device_types, want) in [
        (json!({}), 1 << 4, true),
        (json!({}), 1 << 4 | 1 << 2, true),
        (json!({}), 1 << 2, false),
        (untold, 1 << 4, false),
        (json!({ "device": { "devicetype": 4_000_000_000_u32 } }), 1 << 4, false),
    ] {
        check(&change, CampaignTargeting { device_types, ..any() }, want);
    }
    let with = |pmp: Value| json!({ "imp": [{ "id": "1", "banner": { "w": 300, "h": 250 }, "pmp": pmp }] });
    let open = with(json!({ "deals": [{ "id": "d1" }] }));
    let private = with(json!({ "private_auction": 1, "deals": [{ "id": "d1" }] }));
    let of_other = with(json!({ "deals": [{ "id": "d1", "wseat": ["other"] }] }));
    let of_own = with(json!({ "deals": [{ "id": "d1", "wseat": ["other", "acme"] }] }));
    for (change, deals, want) in [
        (json!({}), vec!["d1"], false),
        (open.clone(), vec!["d1"], true),
        (open.clone(), vec!["d2"], false),
        (open, vec![], true),
        (private.clone(), vec!["d2", "d1"], true),
        (private, vec![], false),
        (of_other, vec!["d1"], false),
        (of_own, vec!["d1"], true),
    ] {
        check(&change, CampaignTargeting { deals: texts(&deals), ..any() }, want);
    }
}
