//! What is left out if more campaigns match than may be considered, or more accounts than may bid.

use openrtb::parse_request;
use serde_json::{Value, json};

use super::fixtures::{ALL, Yes, banner, campaign, market_of, request, rules};
use crate::asking::eligibility::eligible_direct;
use crate::auction::Auction;
use crate::campaigns::bidder::{BiddingLimits, DirectAnswer, DirectCall};
use crate::campaigns::campaign::CampaignPrice;
use crate::campaigns::catalogue::Catalogue;
use crate::campaigns::scratch::SearchScratch;
use crate::campaigns::targeting::{CampaignTargeting, KeyValues, PagePrefix};
use crate::fixtures::{cpm, merged};

type Outcome = (Vec<u32>, DirectAnswer);

fn bid(catalogue: &Catalogue, request: &Value, (id, limits): (&str, BiddingLimits)) -> Outcome {
    let market = market_of(catalogue);
    let text = request.to_string();
    let request = parse_request(&text).unwrap();
    let auction = Auction::new(id, &request, &market).unwrap();
    let ask = eligible_direct(&auction, market.dsps.len() - 1).unwrap();
    let (mut bidder, mut answer) = (Yes::default(), DirectAnswer::default());
    catalogue.bid(
        &DirectCall { auction: &auction, ask: &ask, limits: &limits },
        &mut bidder,
        &mut SearchScratch::default(),
        &mut answer,
    );
    (bidder.0.iter().map(|(slot, ..)| slot.0).collect(), answer)
}

fn at_most(matches_max: usize) -> BiddingLimits {
    BiddingLimits { matches_max, ..ALL }
}

/// Campaigns of different accounts with this targeting.
fn catalogue_of(count: u32, targeting: impl Fn(u32) -> CampaignTargeting) -> Catalogue {
    let of =
        |slot| campaign(slot, &format!("account-{slot}"), rules(targeting(slot), vec![banner()]));
    Catalogue::new((0..count).map(of).collect())
}

/// Impressions, the first of which match no campaign.
fn imps(strange: usize, wanted: usize) -> Value {
    let imp = |at: usize| {
        let width = if at < strange { 1 } else { 300 };
        json!({ "id": format!("{at}"), "banner": { "w": width, "h": 250 } })
    };
    merged(&request(), &json!({ "imp": (0..strange + wanted).map(imp).collect::<Vec<_>>() }))
}

#[test]
fn as_many_matches_are_gone_through_as_may_be() {
    let catalogue = catalogue_of(130, |_| CampaignTargeting::default());
    for (matches_max, left_out) in [(131, 0), (130, 0), (129, 1), (64, 66), (1, 129)] {
        let (asked, answer) = bid(&catalogue, &request(), ("auction-1", at_most(matches_max)));
        assert_eq!((asked.len(), answer.left_out), (130 - left_out, left_out as u64));
        assert_eq!(answer.bids.len(), asked.len().min(ALL.bids_max));
    }
}

/// Otherwise the same ones would never bid.
#[test]
fn which_are_left_out_is_chance_and_the_same_for_the_same_auction() {
    let catalogue = catalogue_of(100, |slot| CampaignTargeting {
        key_values: match slot {
            0..10 | 60 | 99 => Vec::new(),
            _ => vec![KeyValues { key: "section".into(), values: vec!["culture".into()] }],
        },
        ..CampaignTargeting::default()
    });
    let mut times = [0; 100];
    for number in 0..1200 {
        let id = format!("auction-{number}");
        let (asked, answer) = bid(&catalogue, &request(), (&id, at_most(3)));
        assert_eq!((asked.len(), answer.left_out), (3, 9));
        let again = bid(&catalogue, &request(), (&id, at_most(3)));
        assert_eq!((&asked, &answer.body), (&again.0, &again.1.body));
        asked.iter().for_each(|slot| times[*slot as usize] += 1);
    }
    let times: Vec<_> = times.into_iter().filter(|times| *times > 0).collect();
    assert_eq!(times.len(), 12);
    assert!(times.iter().all(|times| (240..360).contains(times)), "{times:?}");
}

#[test]
fn impressions_share_what_may_be_gone_through() {
    let catalogue = catalogue_of(10, |_| CampaignTargeting::default());
    for (strange, wanted, matches_max, each) in [
        (0, 3, 30, &[10, 10, 10][..]),
        (0, 3, 29, &[10, 10, 9]),
        (0, 3, 7, &[3, 2, 2]),
        (0, 3, 2, &[1, 1, 0]),
        // One impression's surplus goes to later ones.
        (2, 2, 12, &[6, 6]),
        (1, 1, 12, &[10]),
    ] {
        let request = imps(strange, wanted);
        let (asked, answer) = bid(&catalogue, &request, ("auction-1", at_most(matches_max)));
        let of_each =
            |imp: usize| answer.bids.iter().filter(|bid| bid.imp == strange + imp).count();
        let bids: Vec<_> = (0..wanted).map(of_each).collect();
        let want: Vec<_> = each.iter().map(|asked| ALL.bids_max.min(*asked)).collect();
        assert_eq!(bids, want, "{matches_max}");
        assert_eq!(asked.len(), each.iter().sum::<usize>());
        assert_eq!(answer.left_out, (10 * wanted - asked.len()) as u64);
    }
    let (asked, _) = bid(&catalogue, &imps(0, 8), ("auction-1", at_most(8)));
    assert!(asked.iter().any(|slot| *slot != asked[0]), "{asked:?}");
}

/// Campaigns for another key value or page do not use up the limit.
#[test]
fn what_is_for_other_requests_is_no_match() {
    let values = catalogue_of(100, |slot| CampaignTargeting {
        key_values: vec![KeyValues {
            key: "section".into(),
            values: vec![if slot == 50 { "sport".into() } else { format!("other-{slot}").into() }],
        }],
        ..CampaignTargeting::default()
    });
    let pages = catalogue_of(100, |slot| CampaignTargeting {
        pages: match slot {
            50 => PagePrefix::parse("news.example/sport/"),
            slot => PagePrefix::parse(&format!("news.example/sport/{slot}/")),
        }
        .into_iter()
        .collect(),
        ..CampaignTargeting::default()
    });
    for catalogue in [values, pages] {
        let (asked, answer) = bid(&catalogue, &request(), ("auction-1", at_most(1)));
        assert_eq!((asked, answer.left_out), (vec![50], 0));
    }
}

#[test]
fn as_many_accounts_bid_as_may() {
    let worth = |slot: u32| {
        let mut rules = rules(CampaignTargeting::default(), vec![banner()]);
        rules.price = CampaignPrice::Value(cpm(&format!("{}", slot + 1)));
        campaign(slot, &format!("account-{slot}"), rules)
    };
    let catalogue = Catalogue::new((0..5).map(worth).collect());
    for (bids_max, want) in [(1, &[4][..]), (2, &[3, 4]), (3, &[2, 3, 4]), (4, &[2, 3, 4])] {
        let limits = BiddingLimits { bids_max, ..ALL };
        let (asked, answer) = bid(&catalogue, &request(), ("auction-1", limits));
        let bids: Vec<_> = answer.bids.iter().map(|bid| bid.slot.0).collect();
        assert_eq!((asked.len(), bids.as_slice(), answer.left_out), (5, want, 0));
    }
}
