//! Reloads: what a generation keeps of the one before.

use std::net::SocketAddr;

use runtime::control::Control;

use super::*;
use crate::generation::dns::Resolver;
use crate::guards::Guards;

fn config(dsps: &str) -> ExchangeConfig {
    let text = format!("[exchange]\nlisten = \"127.0.0.1:0\"\n{dsps}");
    let config = runtime::config::parse("test.toml", &text, ExchangeConfig::read);
    config.unwrap_or_else(|problems| panic!("{problems}")).expect("the service is on")
}

fn dsp(id: &str, port: u16, keys: &str) -> String {
    format!("[[dsp]]\nid = \"{id}\"\nurl = \"http://127.0.0.1:{port}/bid\"\n{keys}\n")
}

fn first(config: ExchangeConfig) -> FirstGeneration {
    FirstGeneration { config, enrichments: Vec::new(), campaigns: Campaigns::default() }
}

fn generations(dsps: &str) -> GenerationBuilder {
    let control = Control::start().expect("a thread");
    let resolver = Resolver::start(&control);
    let registry = DspRegistry::new(1, Guards::new(1).0, resolver);
    let generations = GenerationBuilder::new(first(config(dsps)), registry, None, None);
    generations.expect("nothing is recorded")
}

#[test]
fn what_a_reload_leaves_alone_is_kept() {
    let mut all = generations(&(dsp("a", 1, "") + &dsp("b", 2, "") + &dsp("c", 3, "")));
    let first = all.current();
    first.dsps[1].metrics.shard(0).retries.increment();
    first.dsps[1].seats[0].shard(0).wins.increment();
    // `b` moves in the file and gets other seats; `c` moves to another port.
    let b = dsp("b", 2, "countries = [\"DEU\"]\nseats = [\"x\", \"b\"]");
    let reloaded = all.replace(config(&(b + &dsp("c", 4, "") + &dsp("d", 5, "")))).unwrap();
    let want = GenerationChange {
        number: 2,
        added: vec!["d".to_owned()],
        removed: vec!["a".to_owned()],
        needs_restart: vec![],
    };
    assert_eq!(reloaded, want);
    let second = all.current();
    assert!(Arc::ptr_eq(&first.dsps[1].endpoint, &second.dsps[0].endpoint));
    assert_eq!(second.dsps[0].metrics.shard(0).retries.value(), 1);
    assert_eq!(second.dsps[0].seats[1].shard(0).wins.value(), 1, "seat `b` is `b` still");
    assert_eq!(second.dsps[0].seats[0].shard(0).wins.value(), 0);
    assert!(!Arc::ptr_eq(&first.dsps[2].endpoint, &second.dsps[1].endpoint));
}

/// Names resolve later; until then the DSP would not be asked.
#[test]
fn a_dsp_that_is_reached_in_another_way_keeps_its_addresses() {
    let named = |rest: &str| format!("[[dsp]]\nid = \"a\"\nurl = \"http://dsp.invalid:{rest}\"\n");
    let mut all = generations(&named("1/bid"));
    let known = SocketAddr::from(([192, 0, 2, 1], 1));
    all.current().dsps[0].endpoint.addresses.set(vec![known]);
    all.replace(config(&named("1/other"))).unwrap();
    assert_eq!(*all.current().dsps[0].endpoint.addresses.current(), [known]);
    all.replace(config(&named("2/other"))).unwrap();
    assert!(all.current().dsps[0].endpoint.addresses.current().is_empty(), "elsewhere");
}

#[test]
fn what_cannot_change_is_told() {
    let mut all = generations("");
    let mut other = config("");
    other.listen = "127.0.0.1:1".parse().unwrap();
    assert_eq!(all.replace(other).unwrap().needs_restart, ["exchange.listen"]);
    assert_eq!(all.current().config.listen.port(), 0, "what is in force stays told");
}

#[test]
fn how_notices_are_delivered_needs_a_restart() {
    let notices =
        |keys: &str| format!("[exchange.notices]\nurl = \"https://exchange.example/n/\"\n{keys}\n");
    let mut all = generations(&notices(""));
    for keys in ["retries = 9", "timeout = \"1s\"", "node_connections_max = 1"] {
        assert_eq!(
            all.replace(config(&notices(keys))).unwrap().needs_restart,
            ["exchange.notices"],
            "{keys}"
        );
        let again = all.replace(config(&notices(keys))).unwrap();
        assert_eq!(again.needs_restart, ["exchange.notices"], "{keys} is not in force yet");
        assert!(
            all.replace(config(&notices(""))).unwrap().needs_restart.is_empty(),
            "{keys} is gone"
        );
    }
    let takes_over = notices("markup_timeout = \"1ms\"");
    assert!(all.replace(config(&takes_over)).unwrap().needs_restart.is_empty());
}

/// Outstanding tokens name the node, and the log belongs to it.
#[test]
fn a_node_stays_what_it_was_until_the_next_start() {
    let of = |other: u32| {
        let notices = "[exchange.notices]\nurl = \"https://exchange.example/n/\"\n";
        let nodes =
            format!("[[exchange.notices.node]]\nid = {other}\nurl = \"http://10.0.0.1/n/\"\n");
        config(&format!("{notices}{nodes}"))
    };
    let control = Control::start().expect("a thread");
    let resolver = Resolver::start(&control);
    let registry = DspRegistry::new(1, Guards::new(1).0, resolver);
    let key = Some(NodeKey { node: 1, own: [7; 32] });
    let mut all = GenerationBuilder::new(first(of(5)), registry, key, None).unwrap();
    assert!(all.replace(of(6)).unwrap().needs_restart.is_empty());
    let generation = all.current();
    let sealer = generation.sealer.as_ref().expect("notices are ours to fire");
    assert_eq!(sealer.node, 1);
    assert_eq!(
        sealer.notices.nodes.keys().collect::<Vec<_>>(),
        [&6],
        "who else there is may change"
    );
}

#[test]
fn a_drawn_tie_key_outlives_a_reload() {
    let mut all = generations("");
    let drawn = all.current().config.market.tie_key;
    all.replace(config("")).unwrap();
    assert!(all.current().config.market.tie_key == drawn);
    let key = "tie_key = \"00112233445566778899aabbccddeeff\"\n";
    all.replace(config(key)).unwrap();
    assert!(all.current().config.market.tie_key != drawn);
}

#[test]
fn a_pause_outlasts_the_dsps_absence() {
    use exchange_core::guard::BreakerState;
    let mut all = generations(&dsp("a", 1, ""));
    assert!(all.pause("a", true));
    assert!(!all.pause("b", true), "there is none");
    all.replace(config("")).unwrap();
    all.replace(config(&dsp("a", 1, ""))).unwrap();
    let dsp = &all.current().dsps[0];
    assert_eq!(all.registry.guards.status(dsp.guard).unwrap().state, BreakerState::Paused);
    let mut first = exchange_core::guard::ShardGuard::new(&dsp.first_grants[0]);
    assert!(first.acquire().is_err(), "not even before the governors' next step");
}

#[test]
fn a_retired_generation_is_freed_when_its_last_auction_is_over() {
    let mut all = generations("");
    let held = all.current();
    all.replace(config("")).unwrap();
    assert_eq!(all.retired.len(), 1);
    drop(held);
    all.replace(config("")).unwrap();
    assert_eq!(all.retired.len(), 0);
}

#[test]
fn sold_deals_outlive_reloads_until_their_end() {
    let config = || config(&(dsp("a", 1, "") + &dsp("b", 2, "")));
    let mut all = generations(&dsp("b", 2, ""));
    let offer = |name: &str, ends_ms| SoldOffer {
        deal: exchange_core::SoldDeal {
            name: name.into(),
            id: name.into(),
            dsp: 0,
            seat: "b".into(),
            price: units::Price::parse("1 USD", units::Rounding::Up).unwrap(),
            publisher: None,
            starts_ms: 0,
            ends_ms,
            priority: 1,
        },
        dsp: "b".into(),
        payer: crate::budgets::campaigns::Payer {
            slot: pacer_core::messages::CampaignIndex(7),
            currency: units::Currency::USD,
        },
    };
    let sold = |all: &GenerationBuilder| -> Vec<_> {
        let generation = all.current();
        assert_eq!(generation.config.market.sold.len(), generation.sold_payers.len());
        generation.config.market.sold.iter().map(|deal| (deal.name.clone(), deal.dsp)).collect()
    };
    let strange = SoldOffer { dsp: "z".into(), ..offer("strange", u64::MAX) };
    let taken = all.offer_sold(vec![offer("x", u64::MAX), strange]).unwrap();
    assert!(matches!(&taken[..], [Ok(()), Err(SoldRefusal::UnknownBuyer(_))]), "{taken:?}");
    assert_eq!((sold(&all), all.current().number), (vec![("x".into(), 0)], 2));
    // Again, nothing changes.
    assert_eq!(all.offer_sold(vec![offer("x", u64::MAX)]).unwrap(), [Ok(())]);
    assert_eq!(all.current().number, 2);
    all.replace(config()).unwrap();
    assert_eq!(sold(&all), [("x".into(), 1)]);
    all.replace(self::config("")).unwrap();
    assert_eq!(sold(&all), []);
    all.replace(config()).unwrap();
    let ended = unix_ms() - 1;
    assert_eq!(all.offer_sold(vec![offer("ended", ended)]).unwrap(), [Ok(())]);
    all.replace(config()).unwrap();
    assert_eq!(sold(&all), [("x".into(), 1)]);
}
