//! The memory of campaigns: their rules, a catalogue, and one that differs only in prices.
//!
//! Counts, never times, in a process without other allocations.

use std::alloc::System;
use std::sync::Arc;

use exchange_core::AdSize;
use exchange_core::campaigns::{
    BiddingRules, CampaignPrice, CampaignTargeting, Catalogue, Creative, CreativeSpec,
    DirectCampaign, Interner, MatchList,
};
use faults::process::isolated;
use openrtb::codes::MediaType;
use pacer_core::messages::CampaignIndex;
use stats_alloc::Region;
use units::{Cpm, Currency};

use crate::ALLOCATOR;

const CAMPAIGNS: u32 = 10_000;

/// Bytes allocated since then, per campaign.
fn held(since: &Region<'_, System>) -> usize {
    let change = since.change();
    (change.bytes_allocated - change.bytes_deallocated) / CAMPAIGNS as usize
}

fn cpm(micros: u64) -> Cpm {
    Cpm::new(micros).expect("it is a price")
}

/// For a country and a publisher, with two banners that link to a domain of their own.
fn rules(number: u32, interner: &mut Interner) -> Arc<BiddingRules> {
    let creative = |size: AdSize| {
        let id = format!("campaign-{number}-{size}");
        let markup =
            format!("<a href='https://campaign-{number}.example/'><img src='/{id}.png'></a>");
        let mut spec = CreativeSpec::new(&id, MediaType::Banner, &markup);
        spec.size = Some(size);
        spec.domains = vec![format!("campaign-{number}.example").into()];
        Creative::new(spec).expect("it is sound")
    };
    let listed = |text: String| MatchList { allowed: vec![text.into()], blocked: Vec::new() };
    let targeting = CampaignTargeting {
        countries: listed("USA".to_owned()),
        publishers: listed(format!("publisher-{}", number % 100)),
        ..CampaignTargeting::default()
    };
    let creatives = vec![creative(AdSize::new(300, 250)), creative(AdSize::new(728, 90))];
    let price = CampaignPrice::Value(cpm(1_000_000));
    let mut rules = BiddingRules { price, targeting: targeting.into(), creatives };
    interner.intern(&mut rules);
    Arc::new(rules)
}

fn campaigns(rules: &[Arc<BiddingRules>], ids: &[Arc<str>]) -> Vec<DirectCampaign> {
    let campaign = |((slot, rules), id): ((u32, &Arc<BiddingRules>), &Arc<str>)| DirectCampaign {
        id: Arc::clone(id),
        slot: CampaignIndex(slot),
        account: Arc::clone(&ids[slot as usize % 50]),
        currency: Currency::USD,
        rules: Arc::clone(rules),
    };
    (0..).zip(rules).zip(ids).map(campaign).collect()
}

#[test]
fn campaigns_take_so_much_and_those_with_other_prices_no_second_index() {
    isolated(|| {
        let ids: Vec<Arc<str>> = (0..CAMPAIGNS).map(|at| format!("campaign-{at}").into()).collect();
        let region = Region::new(ALLOCATOR);
        let mut interner = Interner::default();
        let mut all: Vec<_> = (0..CAMPAIGNS).map(|number| rules(number, &mut interner)).collect();
        drop(interner);
        let of_rules = held(&region);
        assert!(of_rules <= 720, "rules of a campaign hold {of_rules} bytes");

        let region = Region::new(ALLOCATOR);
        let catalogue = Catalogue::new(campaigns(&all, &ids));
        let of_catalogue = held(&region);
        assert!(of_catalogue <= 480, "a catalogue holds {of_catalogue} bytes a campaign");

        // Reloaded with another price.
        all[7] = Arc::new(BiddingRules {
            price: CampaignPrice::Value(cpm(2_000_000)),
            ..(*all[7]).clone()
        });
        let region = Region::new(ALLOCATOR);
        let renewed = catalogue.renewed(campaigns(&all, &ids));
        let of_prices = held(&region);
        assert_eq!(renewed.campaigns()[7].rules.price, CampaignPrice::Value(cpm(2_000_000)));
        assert!(of_prices <= 80, "prices hold {of_prices} bytes a campaign");
    });
}
