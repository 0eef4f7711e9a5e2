//! Direct campaigns beside DSPs: when they bid, changes until the auction clears, and the cleanup
//! when the caller disconnects.

use std::time::{Duration, Instant};

use exchange_core::campaigns::Criterion;
use exchange_core::campaigns::{
    BiddingRules, CampaignPrice, CampaignTargeting, Catalogue, Creative, CreativeSpec,
    DirectCampaign,
};
use exchange_core::record::{AuctionEnding, GenerationRecord, ReplayOutcome, replay};
use exchange_core::{AdSize, Fate};
use exchange_serve::campaigns::Campaigns;
use openrtb::codes::MediaType;
use pacer_core::funnel::{FunnelStep, FunnelWindow};
use pacer_core::messages::{CampaignIndex, RequestCounts};
use pacer_core::refusal::SpendRefusal;
use pacer_core::strategy::CampaignFlight;
use units::{Cpm, Currency};

use crate::budgets::{Ledger, TWO, start, start_with};
use crate::fixtures::{Caller, Dsp, Running, Script, Step, banner, bid, bids, ok, posted, until};
use crate::notices::RecordDir;
use crate::record::{decoded, read};

/// A campaign that bids 2.00 for any banner of 300×250, with an account of its own.
fn campaign(slot: u32) -> DirectCampaign {
    let size = Some(AdSize::new(300, 250));
    let spec = CreativeSpec { size, ..CreativeSpec::new("c", MediaType::Banner, "<p>") };
    let creatives = vec![Creative::new(spec).expect("it is sound")];
    let price = CampaignPrice::Value(Cpm::new(TWO).expect("a price"));
    DirectCampaign {
        id: format!("campaign-{slot}").into(),
        slot: CampaignIndex(slot),
        account: format!("account-{slot}").into(),
        currency: Currency::USD,
        rules: BiddingRules { price, targeting: CampaignTargeting::default().into(), creatives }
            .into(),
    }
}

/// This many campaigns; the ledger grants to the first one's account.
fn direct(campaigns: u32) -> Campaigns {
    let catalogue = Catalogue::new((0..campaigns).map(campaign).collect());
    Campaigns { number: 1, catalogue, ..Campaigns::default() }
}

/// A DSP that bids 1.00 once permitted.
fn waiting() -> Dsp {
    let answer = ok(&bids(&bid("1.00")));
    Dsp::start([Script::forever([Step::Read, Step::Wait, Step::Write(answer.into())])])
}

/// An exchange with one campaign, whose budget is `nanos`, beside a DSP that waits.
fn beside(dsp: &Dsp, record_dir: &RecordDir, nanos: u64) -> (Ledger, Running) {
    let (mut ledger, budgets) = Ledger::of(direct(1));
    let exchange = start(record_dir, &[dsp], budgets);
    ledger.gate(1, None);
    ledger.grant(nanos);
    ledger.taken();
    (ledger, exchange)
}

/// Begins auction `number`, until the DSP is called.
fn begun(exchange: &Running, dsp: &Dsp, number: usize) -> Caller {
    let mut caller = exchange.caller();
    caller.send(&posted(&banner("")));
    dsp.request(number);
    caller
}

#[test]
fn campaigns_bid_while_dsps_are_waited_for() {
    let (dsp, record_dir) = (waiting(), RecordDir::new());
    let (mut ledger, exchange) = beside(&dsp, &record_dir, TWO);
    let mut caller = begun(&exchange, &dsp, 0);
    // It is permitted only after the campaign's bid.
    ledger.seen("the campaign has bid", RequestCounts { requests: 1, bids: 1 });
    dsp.permit();
    assert_eq!(caller.reply().price(), "2");
}

#[test]
fn without_a_dsp_direct_campaigns_answers_at_once() {
    let record_dir = RecordDir::new();
    let (mut ledger, budgets) = Ledger::of(direct(1));
    let exchange = start(&record_dir, &[], budgets);
    ledger.gate(1, None);
    ledger.grant(TWO);
    ledger.taken();
    let asked = Instant::now();
    assert_eq!(exchange.auction(&banner("")).price(), "2");
    // An auction may take 20 s.
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
}

/// Two auctions bid the same budget, which is spent once.
#[test]
fn money_that_went_while_dsps_were_waited_for_is_not_spent_again() {
    let (dsp, record_dir) = (waiting(), RecordDir::new());
    let (mut ledger, exchange) = beside(&dsp, &record_dir, TWO);
    let mut callers = [0, 1].map(|number| begun(&exchange, &dsp, number));
    ledger.seen("both have bid", RequestCounts { requests: 2, bids: 2 });
    dsp.permit();
    dsp.permit();
    let mut prices = callers.each_mut().map(|caller| caller.reply().price());
    prices.sort();
    assert_eq!(prices, ["1", "2"]);
    assert_eq!(exchange.fates(Fate::BudgetExhausted), 1);
    // Without budget it does not bid.
    let mut caller = begun(&exchange, &dsp, 2);
    ledger.seen("it was asked", RequestCounts { requests: 3, bids: 2 });
    dsp.permit();
    assert_eq!(caller.reply().price(), "1");
}

#[test]
fn a_campaign_that_was_paused_while_dsps_were_waited_for_wins_nothing() {
    let (dsp, record_dir) = (waiting(), RecordDir::new());
    let (mut ledger, exchange) = beside(&dsp, &record_dir, 2 * TWO);
    let mut caller = begun(&exchange, &dsp, 0);
    ledger.seen("the campaign has bid", RequestCounts { requests: 1, bids: 1 });
    ledger.gate(2, Some(SpendRefusal::Paused));
    ledger.taken();
    dsp.permit();
    assert_eq!(caller.reply().price(), "1");
    assert_eq!(exchange.scraped(r#"exchange_wins_refused_total{reason="paused"}"#), "1");
}

#[test]
fn of_an_auction_whose_caller_leaves_no_money_is_held() {
    let (dsp, record_dir) = (waiting(), RecordDir::new());
    let (mut ledger, exchange) = beside(&dsp, &record_dir, TWO);
    let caller = begun(&exchange, &dsp, 0);
    ledger.seen("the campaign has bid", RequestCounts { requests: 1, bids: 1 });
    drop(caller);
    until("it is given up", || exchange.count(|metrics| metrics.abandoned.value()) == 1);
    dsp.permit();
    until("the answer is drained", || exchange.drained(0) == 1);
    let mut caller = begun(&exchange, &dsp, 1);
    dsp.permit();
    assert_eq!(caller.reply().price(), "2", "all of its money is there");
    let reserved = r#"exchange_reservations_total{outcome="reserved"}"#;
    until("it is counted", || exchange.scraped(reserved) == "1");
    exchange.join();
    let records = read(&record_dir.place().join("firehose"));
    let found: Vec<_> = records
        .iter()
        .map(|record| (decoded(record).ending, decoded(record).calls.len()))
        .collect();
    // None of the called DSPs had responded.
    assert_eq!(found, [(AuctionEnding::Abandoned, 1), (AuctionEnding::Filled, 2)]);
}

#[test]
fn what_direct_campaigns_leaves_out_is_counted_and_changes_no_record() {
    let record_dir = RecordDir::new();
    let (mut ledger, budgets) = Ledger::of(direct(3));
    let keys = "[exchange.direct]\nmatches_max = 2\n";
    let exchange = start_with(&record_dir, keys, &[], budgets);
    ledger.gate(1, None);
    ledger.grant(20 * TWO);
    ledger.taken();
    // Only one campaign has budget, and is examined in two of three auctions.
    for _ in 0..20 {
        exchange.auction(&banner(""));
    }
    assert_eq!(exchange.scraped("exchange_direct_matches_left_out_total"), "20");
    let filled = exchange.count(|metrics| metrics.filled.value());
    assert!((1..20).contains(&filled), "{filled}");
    exchange.join();
    let lane = |lane| read(&record_dir.place().join(lane));
    let durable = lane("durable");
    let generations: Vec<_> = durable
        .iter()
        .filter_map(|record| GenerationRecord::decode(&record.payload).ok())
        .collect();
    let auctions = lane("firehose");
    assert_eq!(auctions.len(), 20);
    for record in &auctions {
        let auction = decoded(record);
        let of = generations.iter().find(|facts| facts.number == auction.generation);
        assert_eq!(replay(&auction, of.expect("its generation")), Ok(ReplayOutcome::Same));
    }
}

/// A flight without end.
const FLIGHT: CampaignFlight = CampaignFlight { start_ms: 0, end_ms: u64::MAX };

/// The last hour of a campaign.
fn funnel(exchange: &Running, slot: u32) -> FunnelWindow {
    let [hour, _] =
        exchange.exchange().funnel(CampaignIndex(slot), FLIGHT).expect("accounts are kept");
    hour
}

#[test]
fn a_campaign_s_funnel_tells_where_its_impressions_go() {
    let record_dir = RecordDir::new();
    let (mut ledger, budgets) = Ledger::of(direct(2));
    let exchange = start(&record_dir, &[], budgets);
    ledger.gate(1, None);
    ledger.grant(3 * TWO);
    ledger.taken();
    // Three wins use up its budget, so the next impression gets no bid; a test counts nowhere.
    for _ in 0..4 {
        exchange.auction(&banner(""));
    }
    exchange.auction(&banner(r#","test":1"#));
    ledger.gate(2, None);
    ledger.grant(100 * TWO);
    ledger.taken();
    let dear = banner("").replacen(r#""id":"1","#, r#""id":"1","bidfloor":2.5,"#, 1);
    for _ in 0..2 {
        exchange.auction(&dear);
    }
    ledger.gate(3, Some(SpendRefusal::OutOfDaypart));
    ledger.taken();
    exchange.auction(&banner(""));
    // A paused campaign matches nothing.
    ledger.gate(4, Some(SpendRefusal::Paused));
    ledger.taken();
    exchange.auction(&banner(""));
    until("all is handed over", || funnel(&exchange, 0).offered == 8);
    let window = funnel(&exchange, 0);
    let of = |step| window.counts.get(step);
    use FunnelStep::{BelowFloor, Bid, Hours, Ledger as NoRights, Matched, Outbid, Won};
    let steps = [Matched, NoRights, BelowFloor, Bid, Won, Outbid, Hours].map(of);
    assert_eq!(steps, [7, 1, 2, 3, 3, 0, 1], "{window:?}");
    let shortfall = window.shortfall.expect("two bids were below the floor");
    assert_eq!(
        (shortfall.bid.to_string(), shortfall.floor.to_string()),
        ("2".into(), "2.5".into())
    );
    // The other campaign has no grant.
    let other = funnel(&exchange, 1).counts;
    assert_eq!((other.get(Matched), other.get(NoRights)), (8, 8));
    let won = r#"exchange_direct_impressions_total{step="won"}"#;
    assert_eq!(exchange.scraped(won), "3");
    assert_eq!(exchange.scraped("exchange_direct_impressions_uncounted_total"), "0");
    // The received requests are sampled.
    until("a request was copied", || {
        exchange.exchange().probe(CampaignIndex(0)).is_some_and(|probed| probed.impressions > 0)
    });
    let probed = exchange.exchange().probe(CampaignIndex(0)).expect("it bids");
    assert_eq!(probed.matched, probed.impressions);
    let failed = [Criterion::Creatives, Criterion::Seat, Criterion::PrivateAuction];
    assert_eq!(probed.failed, failed.map(|criterion| (criterion, 0)));
    assert!(exchange.exchange().probe(CampaignIndex(7)).is_none());
    assert_eq!(exchange.exchange().recording_failure(), None);
    assert!(exchange.exchange().has_rate(Currency::USD));
    assert!(!exchange.exchange().has_rate(Currency::parse("XAU").expect("a code")));
}

#[test]
fn requests_under_coppa_are_not_copied() {
    let record_dir = RecordDir::new();
    let (_ledger, budgets) = Ledger::of(direct(1));
    let exchange = start(&record_dir, &[], budgets);
    exchange.auction(&banner(r#","regs":{"coppa":1}"#));
    until("it was counted", || funnel(&exchange, 0).offered == 1);
    let probed = exchange.exchange().probe(CampaignIndex(0)).expect("it bids");
    assert_eq!(probed.impressions, 0);
    exchange.auction(&banner(""));
    until("the other was copied", || {
        exchange.exchange().probe(CampaignIndex(0)).is_some_and(|probed| probed.impressions == 1)
    });
}
