//! Strategies' states across runs of a ledger.

use std::fs;
use std::path::Path;
use std::time::Duration;

use faults::{DiskFaults, FaultDisk};
use pacer_core::messages::CampaignIndex;
use pacer_core::pacing::{BiddingStatus, PacingPolicy, SNAPSHOT_BYTES_MAX, TrafficForecast};
use pacer_core::strategy::{BidPace, StrategySettings};

use super::failing::open_with;
use super::fake::{TestLedger, campaign, money, settle, start_in};
use crate::PacedCampaign;
use crate::ledger::handle::LedgerQuery;
use crate::ledger::states::{FILE_NAME, HEAD_BYTES, ROW_HEAD_BYTES};
use crate::store::tests::disk;

fn paced(slot: u32, forecast: TrafficForecast) -> PacedCampaign {
    let mut terms = campaign(slot, 1_000_000_000_000);
    terms.terms.budget.limits.day = Some(money(1_000_000_000));
    let settings = StrategySettings::default();
    terms.pacing =
        Some(PacingPolicy { settings, ahead: 0.0, forecast, is_fixed_price: false }.into());
    terms
}

fn define(ledger: &TestLedger) {
    let all = vec![
        paced(0, TrafficForecast::Uniform),
        paced(1, TrafficForecast::Learned),
        campaign(2, 1_000),
    ];
    let defined = ledger.handle.define(vec![ledger.account(None)], all).unwrap();
    assert_eq!(defined.unpaced, []);
}

fn bidding(ledger: &TestLedger, slot: u32) -> Option<BiddingStatus> {
    ledger.handle.ask_of(CampaignIndex(slot), LedgerQuery::Bidding).unwrap()
}

/// The paces of both campaigns, as a shard has them too.
fn paces(ledger: &mut TestLedger) -> [BidPace; 2] {
    ledger.until("every campaign's pace is told", |ledger| {
        [0, 1].iter().all(|slot| {
            let told = ledger.shards[0].paces.get(&CampaignIndex(*slot)).copied();
            told.is_some() && bidding(ledger, *slot).map(|it| it.pace) == told
        })
    });
    [0, 1].map(|slot| ledger.shards[0].paces[&CampaignIndex(slot)])
}

/// Slots without wins: both bid more and more.
fn run_some_slots(ledger: &mut TestLedger) -> [BidPace; 2] {
    let first = paces(ledger);
    let mut requests = 0;
    ledger.until("strategies have moved", |ledger| {
        requests += 1;
        for slot in [0, 1] {
            ledger.shards[0].see(slot, requests);
        }
        (0..).zip(first).all(|(slot, first)| {
            bidding(ledger, slot)
                .is_some_and(|it| it.pace.multiplier() > first.multiplier() * 3 / 2)
        })
    });
    // Without requests, paces stay.
    let looked = ledger.handle.status().looked;
    ledger.until("slots end without requests", |ledger| ledger.handle.status().looked > looked + 4);
    paces(ledger)
}

fn start(directory: &Path) -> (TestLedger, [BidPace; 2]) {
    let mut ledger = TestLedger::first(directory, 1);
    define(&ledger);
    let paces = paces(&mut ledger);
    (ledger, paces)
}

#[test]
fn a_start_goes_on_with_the_pace_of_the_life_before_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let (mut ledger, begun) = start(folder.path());
    let last = run_some_slots(&mut ledger);
    assert!(begun.iter().zip(&last).all(|(begun, last)| begun != last));
    ledger.close();
    let (ledger, then) = start(folder.path());
    assert_eq!(then, last);
    // At once, and before a minute is over.
    ledger.close();
    let (ledger, then) = start(folder.path());
    assert_eq!(then, last);
    ledger.close();
    let length = fs::metadata(folder.path().join(FILE_NAME)).unwrap().len();
    let most = HEAD_BYTES + 2 * (ROW_HEAD_BYTES + SNAPSHOT_BYTES_MAX);
    assert!(length <= most as u64, "{length}: of campaigns without a strategy nothing");
}

#[test]
fn a_damaged_row_begins_anew_and_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (mut ledger, begun) = start(folder.path());
    let last = run_some_slots(&mut ledger);
    ledger.close();
    let path = folder.path().join(FILE_NAME);
    let mut bytes = fs::read(&path).unwrap();
    bytes[HEAD_BYTES + ROW_HEAD_BYTES + 50] ^= 4;
    fs::write(&path, &bytes).unwrap();
    let (ledger, then) = start(folder.path());
    assert_eq!(then, [begun[0], last[1]]);
    ledger.close();
    fs::write(&path, b"anything").unwrap();
    let (ledger, then) = start(folder.path());
    assert_eq!(then, begun);
    ledger.close();
}

#[test]
fn whoever_is_gone_is_kept_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = start(folder.path());
    ledger.close();
    let length = || fs::metadata(folder.path().join(FILE_NAME)).unwrap().len();
    let both = length();
    let (mut ledger, _) = start(folder.path());
    let mut gone = paced(1, TrafficForecast::Learned);
    (gone.terms.version, gone.pacing) = (2, None);
    ledger.handle.define(Vec::new(), vec![gone]).unwrap();
    ledger.until("it is looked at", |ledger| bidding(ledger, 1).is_none());
    ledger.close();
    assert!(length() < both / 2, "{} of {both}", length());
}

#[test]
fn whoever_is_not_defined_is_kept_until_the_first_file_of_a_life() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = start(folder.path());
    ledger.close();
    let length = || fs::metadata(folder.path().join(FILE_NAME)).unwrap().len();
    let both = length();
    // A run that ends before any campaign is defined.
    TestLedger::first(folder.path(), 1).close();
    assert_eq!(length(), both);
    let mut start = start_in(folder.path(), 1);
    start.keep_every = Duration::from_millis(20);
    let (origin, shutdown) = (start.origin, start.shutdown.clone());
    let mut ledger = TestLedger::of(start.start().unwrap(), origin, shutdown);
    ledger.feed.replayed();
    let one = vec![paced(0, TrafficForecast::Uniform)];
    ledger.handle.define(vec![ledger.account(None)], one).unwrap();
    ledger.until("a file is written", |ledger| ledger.handle.status().states_kept > 0);
    ledger.close();
    assert!(length() < both / 2, "{} of {both}", length());
}

/// States are stored while the process runs, unless the store fails: a crash loses little.
#[test]
fn states_are_kept_every_so_often_unless_the_store_fails() {
    let disk: FaultDisk = disk::empty(1);
    let mut ledger = open_with(&disk, |start| start.keep_every = Duration::from_millis(20));
    define(&ledger);
    ledger.until("they are kept", |ledger| ledger.handle.status().states_kept > 1);
    let token = ledger.reserve(0, 2, 100);
    disk.set_faults(DiskFaults { write: 1, sync: 1, other: 1 });
    ledger.shards[0].settle(&token);
    settle(&ledger.feed, 1, &token);
    ledger.until("the store fails", |ledger| ledger.handle.status().failing.is_some());
    let (looked, tried) = (ledger.handle.status().looked, ledger.handle.status().states_failed);
    ledger.until("slots end", |ledger| ledger.handle.status().looked > looked + 6);
    let failed = ledger.handle.status().states_failed;
    assert!(failed <= tried + 1, "{failed}: one may have been on its way");
    disk.set_faults(DiskFaults::default());
    ledger.until("the store works", |ledger| ledger.handle.status().failing.is_none());
    let kept = ledger.handle.status().states_kept;
    ledger.until("and they are kept again", |ledger| ledger.handle.status().states_kept > kept);
    ledger.close();
}
