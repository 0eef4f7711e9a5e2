//! Creatives shown, bids written, and whose bids rank best.

use openrtb::codes::MediaType;
use pacer_core::messages::CampaignIndex;
use pacer_core::refusal::SpendRefusal;
use serde_json::{Value, json};
use units::{Cpm, Multiplier};

use super::fixtures::{ALL, Yes, banner, bid, bid_and, campaign, market_of, request, rules};
use crate::asking::eligibility::eligible_direct;
use crate::auction::Auction;
use crate::campaigns::bidder::{CampaignBidder, DirectAnswer, DirectCall};
use crate::campaigns::campaign::{BiddingRules, CampaignPrice, DirectCampaign};
use crate::campaigns::catalogue::Catalogue;
use crate::campaigns::creative::{Creative, CreativeProblem, CreativeSpec, MARKUP_BYTES_MAX};
use crate::campaigns::scratch::SearchScratch;
use crate::campaigns::targeting::CampaignTargeting;
use crate::fixtures::{cpm, currency, merged};
use crate::market::DealTerms;
use crate::market::size::AdSize;

fn any() -> CampaignTargeting {
    CampaignTargeting::default()
}

fn usual(slot: u32, account: &str, value: &str) -> DirectCampaign {
    let mut rules = rules(any(), vec![banner()]);
    rules.price = CampaignPrice::Value(cpm(value));
    campaign(slot, account, rules)
}

#[track_caller]
fn check_creative(change: &Value, spec: CreativeSpec, want: bool) {
    let request = merged(&request(), change);
    let about = format!("{spec:?} {request}");
    let catalogue = Catalogue::new(vec![campaign(0, "acme", rules(any(), vec![spec]))]);
    let outcome = bid(&catalogue, &market_of(&catalogue), &request);
    assert_eq!(outcome.answer.bids.len(), usize::from(want), "{about}");
    // A blocked creative is not a missed opportunity.
    assert_eq!(outcome.asked.len(), usize::from(want), "{about}");
}

#[test]
fn what_the_request_blocks_is_not_shown() {
    let with = |change: &dyn Fn(&mut CreativeSpec)| {
        let mut spec = banner();
        change(&mut spec);
        spec
    };
    let imp = |change: Value| {
        let imp = merged(&json!({ "id": "1", "banner": { "w": 300, "h": 250 } }), &change);
        json!({ "imp": [imp] })
    };
    let of_banner =
        |key: &str, list: Value| imp(json!({ "banner": { "w": 300, "h": 250, key: list } }));
    let domain = with(&|spec| spec.domains = vec!["shop.Acme.example".into()]);
    let category = with(&|spec| spec.categories = vec!["IAB7-39".into()]);
    let later = with(&|spec| {
        spec.categories = vec!["IAB7-39".into()];
        spec.taxonomy = 6;
    });
    let attribute = with(&|spec| spec.attributes = vec![3, 18]);
    let script = with(&|spec| spec.markup = "<SCRIPT>x()</SCRIPT>".into());
    let frame = with(&|spec| spec.markup = "<b><iframe></iframe>".into());
    let plain = with(&|spec| spec.markup = "<img src=\"http://a.example/\">".into());
    let german = with(&|spec| spec.language = Some("de".into()));
    let bundle = with(&|spec| spec.bundle = Some("com.bad".into()));
    for (change, spec, want) in [
        (json!({ "badv": ["ACME.example"] }), &domain, false),
        (json!({ "badv": ["https://www.Acme.example/x"] }), &domain, false),
        (json!({ "badv": ["cme.example", "a.shop.acme.example", ""] }), &domain, true),
        (json!({ "bcat": ["IAB7"] }), &category, false),
        (json!({ "bcat": ["IAB7-3", "IAB"] }), &category, true),
        (json!({ "bcat": ["IAB7"], "cattax": 6 }), &later, true),
        (json!({ "bcat": ["IAB7-39"], "cattax": 6 }), &later, false),
        (json!({ "bcat": ["IAB7-39"], "cattax": 6 }), &category, true),
        (json!({ "acat": ["IAB1", "IAB7"] }), &category, true),
        (json!({ "acat": ["IAB1"] }), &category, false),
        (json!({ "acat": ["IAB1"] }), &domain, true),
        (of_banner("battr", json!([1, 18])), &attribute, false),
        (of_banner("battr", json!([1, 17, 4_000_000_000_u32])), &attribute, true),
        (of_banner("btype", json!([3])), &script, false),
        (of_banner("btype", json!([4])), &script, true),
        (of_banner("btype", json!([4])), &frame, false),
        (imp(json!({ "secure": 1 })), &plain, false),
        (imp(json!({ "secure": 0 })), &plain, true),
        (imp(json!({ "secure": 1 })), &script, true),
        (json!({ "wlang": ["en", "fr"] }), &german, false),
        (json!({ "wlang": ["en", "DE"] }), &german, true),
        (json!({ "wlang": ["en"] }), &domain, true),
        (json!({ "bapp": [" com.bad"] }), &bundle, false),
        (json!({ "bapp": ["com.bad"] }), &bundle, false),
        (json!({ "bapp": ["com.worse"] }), &bundle, true),
        (json!({ "wseat": ["other"] }), &domain, false),
        (json!({ "bseat": ["acme"] }), &domain, false),
        (json!({ "wseat": ["other", "acme"], "bseat": ["other"] }), &domain, true),
    ] {
        check_creative(&change, spec.clone(), want);
    }
}

#[test]
fn a_video_is_as_long_as_the_player_takes() {
    let spec = CreativeSpec {
        duration_s: Some(20),
        ..CreativeSpec::new("v1", MediaType::Video, "<VAST/>")
    };
    for (says, want) in [
        (json!({ "maxduration": 30 }), true),
        (json!({ "maxduration": 15 }), false),
        (json!({ "maxduration": 15, "maxextended": 5 }), true),
        (json!({ "minduration": 21 }), false),
        (json!({ "rqddurs": [15, 30] }), false),
        (json!({ "poddur": 10 }), false),
    ] {
        let video = merged(&json!({ "mimes": ["video/mp4"] }), &says);
        check_creative(&json!({ "imp": [{ "id": "1", "video": video }] }), spec.clone(), want);
    }
}

#[test]
fn a_deal_holds_advertisers_to_its_list() {
    let pmp = |wadomain: Value| {
        let deal = json!({ "id": "d1", "wadomain": wadomain });
        json!({ "imp": [{ "id": "1", "banner": { "w": 300, "h": 250 }, "pmp": { "deals": [deal] } }] })
    };
    let targeting = CampaignTargeting { deals: vec!["d1".into()], ..any() };
    for (wadomain, domains, want) in [
        (json!(["acme.example"]), vec!["shop.acme.example"], 1),
        (json!(["acme.example"]), vec!["acme.example", "other.example"], 0),
        (json!(["acme.example"]), vec![], 0),
        (json!([]), vec![], 1),
    ] {
        let domains = domains.into_iter().map(Box::from).collect();
        let spec = CreativeSpec { domains, ..banner() };
        let catalogue =
            Catalogue::new(vec![campaign(0, "acme", rules(targeting.clone(), vec![spec]))]);
        let request = merged(&request(), &pmp(wadomain));
        let outcome = bid(&catalogue, &market_of(&catalogue), &request);
        assert_eq!(outcome.answer.bids.len(), want, "{request}");
    }
}

#[test]
fn a_bid_is_written_with_all_that_its_creative_tells() {
    let spec = CreativeSpec {
        domains: vec!["acme.example".into(), "shop.example".into()],
        bundle: Some("com.acme".into()),
        categories: vec!["IAB1".into(), "IAB2-3".into()],
        attributes: vec![3, 16],
        language: Some("de".into()),
        ..CreativeSpec::new(
            "c\"1",
            MediaType::Video,
            "<VAST version=\"4.0\">\n${AUCTION_PRICE}\u{1}</VAST>",
        )
    };
    let spec = CreativeSpec { duration_s: Some(15), ..spec };
    let markup = spec.markup.clone();
    let mut campaign = campaign(7, "a\\b", rules(any(), vec![spec]));
    campaign.id = "summer \"26\"".into();
    let catalogue = Catalogue::new(vec![campaign]);
    let video = json!({ "imp": [
        { "id": "0", "native": { "request": "{}" } },
        { "id": "i\n\u{e9}", "video": { "mimes": ["video/mp4"], "maxduration": 30 } },
    ] });
    let outcome = bid(&catalogue, &market_of(&catalogue), &merged(&request(), &video));
    let want = json!({
        "id": "auction-1", "cur": "USD",
        "seatbid": [{ "seat": "a\\b", "bid": [{
            "id": "1-0", "impid": "i\n\u{e9}", "price": 2, "cid": "summer \"26\"", "crid": "c\"1",
            "adm": *markup, "mtype": 2, "dur": 15, "adomain": ["acme.example", "shop.example"],
            "bundle": "com.acme", "cat": ["IAB1", "IAB2-3"], "cattax": 1, "attr": [3, 16],
            "language": "de",
        }] }],
    });
    assert_eq!(outcome.json, want);
    assert_eq!(outcome.answer.bids[0].slot, CampaignIndex(7));
}

#[test]
fn native_and_audio_are_written_for_what_they_are() {
    let native = CreativeSpec::new("n", MediaType::Native, r#"{"native":{"assets":[]}}"#);
    let audio = CreativeSpec {
        language: Some("pt-BR".into()),
        ..CreativeSpec::new("a", MediaType::Audio, "<VAST></VAST>")
    };
    let catalogue = Catalogue::new(vec![campaign(0, "acme", rules(any(), vec![native, audio]))]);
    let imps = json!({ "imp": [
        { "id": "1", "native": { "request": "{}" } },
        { "id": "2", "audio": { "mimes": ["audio/mp4"] } },
    ] });
    let outcome = bid(&catalogue, &market_of(&catalogue), &merged(&request(), &imps));
    assert_eq!(outcome.all("mtype"), [json!(4), json!(3)]);
    assert_eq!(outcome.all("langb"), [Value::Null, json!("pt-BR")]);
}

#[test]
fn creatives_are_sound_or_refused() {
    let long = || vec![Box::from("x"); 33];
    let with = |format, markup: &str| CreativeSpec::new("c", format, markup);
    for (spec, want) in [
        (CreativeSpec { id: "".into(), ..banner() }, CreativeProblem::Id),
        (CreativeSpec { markup: " \n".into(), ..banner() }, CreativeProblem::Markup),
        (with(MediaType::Banner, &"x".repeat(MARKUP_BYTES_MAX + 1)), CreativeProblem::MarkupLength),
        (with(MediaType::Video, "<p>"), CreativeProblem::Vast),
        (with(MediaType::Audio, "<p>"), CreativeProblem::Vast),
        (with(MediaType::Audio, "<p><VAST/>"), CreativeProblem::Vast),
        (with(MediaType::Banner, "<VAST/>"), CreativeProblem::Banner),
        (with(MediaType::Native, "[]"), CreativeProblem::Native),
        (with(MediaType::Native, "{"), CreativeProblem::Native),
        (CreativeSpec { size: Some(AdSize::new(0, 1)), ..banner() }, CreativeProblem::Size),
        (
            CreativeSpec { size: Some(AdSize::new(1, 1)), ..with(MediaType::Native, "{}") },
            CreativeProblem::Size,
        ),
        (CreativeSpec { duration_s: Some(1), ..banner() }, CreativeProblem::Duration),
        (
            CreativeSpec { duration_s: Some(0), ..with(MediaType::Video, "<VAST/>") },
            CreativeProblem::Duration,
        ),
        (CreativeSpec { domains: long(), ..banner() }, CreativeProblem::Domains),
        (CreativeSpec { categories: long(), ..banner() }, CreativeProblem::Categories),
        (CreativeSpec { attributes: vec![1; 33], ..banner() }, CreativeProblem::Attributes),
        (CreativeSpec { attributes: vec![0], ..banner() }, CreativeProblem::Attributes),
        (CreativeSpec { attributes: vec![64], ..banner() }, CreativeProblem::Attributes),
    ] {
        assert_eq!(Creative::new(spec.clone()), Err(want), "{spec:?}");
    }
    assert!(Creative::new(with(MediaType::Banner, &"x".repeat(MARKUP_BYTES_MAX))).is_ok());
    assert!(Creative::new(CreativeSpec { attributes: vec![63; 32], ..banner() }).is_ok());
}

#[test]
fn several_creatives_that_fit_take_turns() {
    let named = |id: &str| CreativeSpec { id: id.into(), ..banner() };
    let wide = CreativeSpec { size: Some(AdSize::new(728, 90)), ..named("wide") };
    let rules = rules(any(), vec![named("a"), wide, named("b"), named("c")]);
    let catalogue = Catalogue::new(vec![campaign(0, "acme", rules)]);
    let market = market_of(&catalogue);
    let text = request().to_string();
    let request = openrtb::parse_request(&text).unwrap();
    let mut shown = [0_usize; 3];
    let (mut scratch, mut answer) = (SearchScratch::default(), DirectAnswer::default());
    for number in 0..3000 {
        let id = format!("auction-{number}");
        let auction = Auction::new(&id, &request, &market).unwrap();
        let ask = eligible_direct(&auction, market.dsps.len() - 1).unwrap();
        catalogue.bid(
            &DirectCall { auction: &auction, ask: &ask, limits: &ALL },
            &mut Yes::default(),
            &mut scratch,
            &mut answer,
        );
        let json: Value = serde_json::from_str(&answer.body).unwrap();
        let crid = json["seatbid"][0]["bid"][0]["crid"].as_str().unwrap().to_owned();
        shown[["a", "b", "c"].iter().position(|known| *known == crid).unwrap()] += 1;
    }
    assert!(shown.iter().all(|count| (900..1100).contains(count)), "{shown:?}");
}

#[test]
fn the_best_of_three_accounts_bid() {
    let campaigns = vec![
        usual(0, "a", "1"),
        usual(1, "a", "3"),
        usual(2, "a", "2.5"),
        usual(3, "b", "0.5"),
        usual(4, "c", "2"),
        usual(5, "d", "4"),
        usual(6, "e", "0.4"),
    ];
    let catalogue = Catalogue::new(campaigns);
    let outcome = bid(&catalogue, &market_of(&catalogue), &request());
    assert_eq!(outcome.all("cid"), ["campaign-1", "campaign-4", "campaign-5"]);
    assert_eq!(outcome.asked, [0, 1, 2, 3, 4, 5, 6]);
}

/// Which of equal campaigns bid differs between auctions, and does not depend on their order.
#[test]
fn equal_bids_are_ordered_by_the_tie_key() {
    let equal = |order: &[u32]| {
        let campaigns = order.iter().map(|slot| usual(*slot, &format!("account-{slot}"), "2"));
        Catalogue::new(campaigns.collect())
    };
    let catalogue = equal(&[0, 1, 2, 3, 4, 5]);
    let market = market_of(&catalogue);
    let text = request().to_string();
    let request = openrtb::parse_request(&text).unwrap();
    let mut in_front = [0_usize; 6];
    let (mut scratch, mut answer) = (SearchScratch::default(), DirectAnswer::default());
    for number in 0..600 {
        let id = format!("auction-{number}");
        let auction = Auction::new(&id, &request, &market).unwrap();
        let ask = eligible_direct(&auction, market.dsps.len() - 1).unwrap();
        catalogue.bid(
            &DirectCall { auction: &auction, ask: &ask, limits: &ALL },
            &mut Yes::default(),
            &mut scratch,
            &mut answer,
        );
        assert_eq!(answer.bids.len(), 3);
        answer.bids.iter().for_each(|bid| in_front[bid.campaign] += 1);
    }
    assert!(in_front.iter().all(|count| (240..360).contains(count)), "{in_front:?}");
}

#[test]
fn who_may_pay_more_in_a_higher_class_goes_first() {
    let under = |slot: u32, account: &str, deals: &[&str]| {
        let deals = deals.iter().map(|deal| Box::from(*deal)).collect();
        let mut campaign = usual(slot, account, "2");
        let targeting = CampaignTargeting { deals, ..any() }.into();
        let rules = BiddingRules { targeting, ..(*campaign.rules).clone() };
        campaign.rules = rules.into();
        campaign
    };
    let campaigns = vec![
        under(0, "a", &["low", "high"]),
        under(1, "b", &["low"]),
        usual(2, "c", "9"),
        usual(3, "d", "8"),
    ];
    let catalogue = Catalogue::new(campaigns);
    let mut market = market_of(&catalogue);
    market.deals.insert("high".into(), DealTerms { priority: Some(2), ..DealTerms::default() });
    market.deals.insert("low".into(), DealTerms { priority: Some(1), ..DealTerms::default() });
    let deals = json!([{ "id": "low" }, { "id": "high", "at": 3, "bidfloor": 1.5 }]);
    let change = json!({ "imp": [{ "id": "1", "banner": { "w": 300, "h": 250 }, "pmp": { "deals": deals } }] });
    let request = merged(&request(), &change);
    let outcome = bid_and(&catalogue, &market, &request, |_, judgement, _| {
        assert_eq!(judgement.entries[0].price, cpm("1.5"));
    });
    assert_eq!(outcome.all("dealid"), [json!("high"), json!("low"), Value::Null]);
    assert_eq!(outcome.all("cid"), ["campaign-0", "campaign-1", "campaign-2"]);
    // Each is asked once, whatever the number of deals.
    assert_eq!(outcome.asked, [0, 1, 2, 3]);
}

/// Its agreed price counts, whatever its own. A discount that leaves zero leaves no bid.
#[test]
fn what_counts_is_what_is_agreed_and_what_a_discount_leaves() {
    let targeting = CampaignTargeting { deals: vec!["d1".into()], ..any() };
    let under = |value: &str| {
        let mut rules = rules(targeting.clone(), vec![banner()]);
        rules.price = CampaignPrice::Value(cpm(value));
        campaign(0, "a", rules)
    };
    let with = |deal: Value| {
        let pmp = json!({ "deals": [deal] });
        let imp = json!({ "id": "1", "banner": { "w": 300, "h": 250 }, "pmp": pmp });
        merged(&request(), &json!({ "imp": [imp] }))
    };
    let open = [usual(1, "b", "2"), usual(2, "c", "3"), usual(3, "d", "4")];
    let catalogue = Catalogue::new([under("9")].into_iter().chain(open).collect());
    let agreed = with(json!({ "id": "d1", "at": 3, "bidfloor": 1.5 }));
    let outcome = bid(&catalogue, &market_of(&catalogue), &agreed);
    assert_eq!(outcome.all("cid"), ["campaign-1", "campaign-2", "campaign-3"]);
    let at_first = with(json!({ "id": "d1", "at": 1 }));
    let outcome = bid(&catalogue, &market_of(&catalogue), &at_first);
    assert_eq!(outcome.all("cid"), ["campaign-0", "campaign-2", "campaign-3"]);
    let terms = || DealTerms { discount: crate::fixtures::ppm(200_000), ..DealTerms::default() };
    let open = [usual(1, "b", "2"), usual(2, "c", "3"), usual(3, "d", "4")];
    let catalogue = Catalogue::new([under("2.4")].into_iter().chain(open).collect());
    let mut market = market_of(&catalogue);
    market.deals.insert("d1".into(), terms());
    let outcome = bid(&catalogue, &market, &at_first);
    assert_eq!(outcome.all("cid"), ["campaign-1", "campaign-2", "campaign-3"]);
    market.deals.insert("d1".into(), DealTerms { dsps: vec![0], ..DealTerms::default() });
    assert_eq!(bid(&catalogue, &market, &at_first).asked, [1, 2, 3]);
    for (value, want) in [("0.000001", 0), ("0.000002", 1)] {
        let catalogue = Catalogue::new(vec![under(value)]);
        let mut market = market_of(&catalogue);
        market.deals.insert("d1".into(), terms());
        assert_eq!(bid(&catalogue, &market, &at_first).answer.bids.len(), want, "{value}");
    }
}

#[test]
fn below_a_floor_there_is_no_bid() {
    let catalogue = Catalogue::new(vec![usual(0, "acme", "2")]);
    let mut market = market_of(&catalogue);
    market.publishers.others.fee = crate::fixtures::ppm(100_000);
    let floor = |floor: f64| json!({ "imp": [{ "id": "1", "banner": { "w": 300, "h": 250 }, "bidfloor": floor }] });
    // 2 less a tenth.
    for (net, want) in [(1.8, 1), (1.801, 0)] {
        let outcome = bid(&catalogue, &market, &merged(&request(), &floor(net)));
        assert_eq!(outcome.answer.bids.len(), want, "{net}");
        assert_eq!(outcome.asked, [0]);
    }
}

#[test]
fn a_price_is_converted_down() {
    let mut campaign = usual(0, "acme", "2");
    campaign.currency = currency("EUR");
    let catalogue = Catalogue::new(vec![campaign]);
    let market = market_of(&catalogue);
    for (cur, price) in
        [("EUR", json!(2)), ("USD", json!(2.16)), ("GBP", json!(1.700_787)), ("JPY", json!(337.5))]
    {
        let outcome = bid(&catalogue, &market, &merged(&request(), &json!({ "cur": [cur] })));
        assert_eq!(outcome.all("price"), [price], "{cur}");
        assert_eq!(outcome.answer.bids[0].price, cpm("2"));
    }
    // Direct campaigns do not bid in that currency, or an account's currency has no rate.
    let mut other = market.clone();
    other.dsps.last_mut().unwrap().currencies = vec![currency("GBP")];
    assert!(bid(&catalogue, &other, &request()).answer.bids.is_empty());
    let mut unknown = usual(0, "acme", "2");
    unknown.currency = currency("CHF");
    let catalogue = Catalogue::new(vec![unknown]);
    assert!(bid(&catalogue, &market_of(&catalogue), &request()).answer.bids.is_empty());
}

/// Refuses even slots, and halves other bids.
struct Picky(Vec<(CampaignIndex, CampaignPrice, Multiplier)>);

impl CampaignBidder for Picky {
    fn decide(
        &mut self,
        slot: CampaignIndex,
        price: CampaignPrice,
        shown: Multiplier,
    ) -> Result<Cpm, SpendRefusal> {
        self.0.push((slot, price, shown));
        let half = Cpm::new(price.amount().micros() / 2).unwrap();
        if slot.0.is_multiple_of(2) { Err(SpendRefusal::Throttled) } else { Ok(half) }
    }
}

#[test]
fn the_desk_has_the_last_word() {
    let mut fixed = usual(1, "b", "1");
    let rules = BiddingRules { price: CampaignPrice::Fixed(cpm("3")), ..(*fixed.rules).clone() };
    fixed.rules = rules.into();
    let catalogue = Catalogue::new(vec![usual(0, "a", "9"), fixed]);
    let market = market_of(&catalogue);
    let mut request = request();
    request["imp"][0]["qty"] = json!({ "multiplier": 2.5 });
    let text = request.to_string();
    let request = openrtb::parse_request(&text).unwrap();
    let auction = Auction::new("auction-1", &request, &market).unwrap();
    let ask = eligible_direct(&auction, market.dsps.len() - 1).unwrap();
    let mut bidder = Picky(Vec::new());
    let (mut scratch, mut answer) = (SearchScratch::default(), DirectAnswer::default());
    catalogue.bid(
        &DirectCall { auction: &auction, ask: &ask, limits: &ALL },
        &mut bidder,
        &mut scratch,
        &mut answer,
    );
    let shown = Multiplier::parse("2.5").unwrap();
    let asked = [CampaignPrice::Value(cpm("9")), CampaignPrice::Fixed(cpm("3"))];
    assert_eq!(
        bidder.0,
        [(CampaignIndex(0), asked[0], shown), (CampaignIndex(1), asked[1], shown)]
    );
    assert!(answer.body.contains(r#""price":1.5,"#), "{}", answer.body);
    assert_eq!((answer.bids.len(), answer.bids[0].price), (1, cpm("1.5")));
}

#[test]
fn an_account_that_the_market_does_not_know_stays_out() {
    let catalogue = Catalogue::new(vec![usual(0, "a", "2"), usual(1, "b", "2")]);
    let mut market = market_of(&catalogue);
    market.dsps.last_mut().unwrap().seats = ["b".into(), "c".into()].into_iter().collect();
    assert_eq!(bid(&catalogue, &market, &request()).all("cid"), ["campaign-1"]);
}

#[test]
fn a_catalogue_that_is_renewed_is_as_one_that_is_new() {
    let before = [usual(0, "a", "2"), usual(1, "b", "1"), usual(2, "c", "3")];
    let change = |change: fn(&mut Vec<DirectCampaign>)| {
        let mut campaigns = before.to_vec();
        change(&mut campaigns);
        campaigns
    };
    let with = |rules: &BiddingRules, targeting: CampaignTargeting, creatives| BiddingRules {
        targeting: targeting.into(),
        creatives,
        ..rules.clone()
    };
    let changes = [
        change(|all| all[0] = usual(0, "a", "0.7")),
        change(|all| all[0].id = "another".into()),
        change(|all| all[1].slot = CampaignIndex(9)),
        change(|all| all[1].account = "a".into()),
        change(|all| all[1].currency = currency("EUR")),
        change(|all| drop(all.pop())),
        change(|all| all.push(usual(3, "d", "2.5"))),
        change(|all| all.swap(0, 2)),
        {
            let mut campaigns = before.to_vec();
            let targeting = CampaignTargeting { device_types: 1 << 3, ..any() };
            let rules = &campaigns[0].rules;
            campaigns[0].rules = with(rules, targeting, rules.creatives.clone()).into();
            campaigns
        },
        {
            let mut campaigns = before.to_vec();
            let rules = &campaigns[0].rules;
            let creative = Creative::new(CreativeSpec::new("c9", MediaType::Video, "<VAST/>"));
            campaigns[0].rules = with(rules, any(), vec![creative.unwrap()]).into();
            campaigns
        },
    ];
    let catalogue = Catalogue::new(before.to_vec());
    for (number, campaigns) in changes.into_iter().enumerate() {
        let (renewed, new) = (catalogue.renewed(campaigns.clone()), Catalogue::new(campaigns));
        let bids = |it: &Catalogue| bid(it, &market_of(it), &request()).answer.body;
        assert_eq!(bids(&renewed), bids(&new), "change {number}");
    }
}
