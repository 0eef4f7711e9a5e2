//! Strategies' states across runs of a ledger.

use std::fs;
use std::path::Path;
use std::time::Duration;

use faults::{DiskFaults, FaultDisk};
use pacer_core::messages::CampaignIndex;
use pacer_core::pacing::{BiddingStatus, PacingPolicy, SNAPSHOT_BYTES_MAX, TrafficForecast};
use pacer_core::strategy::{BidPace, StrategySettings};

use super::failing::open_with;
use super::fake::{Till, campaign, money, start_in, usd};
use crate::CampaignTerms;
use crate::ledger::handle::LedgerQuery;
use crate::ledger::states::{FILE_NAME, HEAD_BYTES, ROW_HEAD_BYTES};
use crate::store::tests::disk;

fn paced(slot: u32, forecast: TrafficForecast) -> CampaignTerms {
    let mut terms = campaign(slot, 1_000_000_000_000);
    terms.definition.budget.limits.day = Some(money(1_000_000_000));
    let settings = StrategySettings::default();
    terms.pacing =
        Some(PacingPolicy { settings, ahead: 0.0, forecast, is_fixed_price: false }.into());
    terms
}

fn define(till: &Till) {
    let all = vec![
        paced(0, TrafficForecast::Uniform),
        paced(1, TrafficForecast::Learned),
        campaign(2, 1_000),
    ];
    let defined = till.handle.define(vec![till.account(None)], all).unwrap();
    assert_eq!(defined.unpaced, []);
}

fn bidding(till: &Till, slot: u32) -> Option<BiddingStatus> {
    till.handle.ask_of(CampaignIndex(slot), LedgerQuery::Bidding).unwrap()
}

/// The paces of both campaigns, as a shard has them too.
fn paces(till: &mut Till) -> [BidPace; 2] {
    till.until("every campaign's pace is told", |till| {
        [0, 1].iter().all(|slot| {
            let told = till.shards[0].paces.get(&CampaignIndex(*slot)).copied();
            told.is_some() && bidding(till, *slot).map(|it| it.pace) == told
        })
    });
    [0, 1].map(|slot| till.shards[0].paces[&CampaignIndex(slot)])
}

/// Slots without wins: both bid more and more.
fn run_some_slots(till: &mut Till) -> [BidPace; 2] {
    let first = paces(till);
    let mut requests = 0;
    till.until("strategies have moved", |till| {
        requests += 1;
        for slot in [0, 1] {
            till.shards[0].see(slot, requests);
        }
        (0..).zip(first).all(|(slot, first)| {
            bidding(till, slot).is_some_and(|it| it.pace.multiplier() > first.multiplier() * 3 / 2)
        })
    });
    // Without requests, paces stay.
    let looked = till.handle.status().looked;
    till.until("slots end without requests", |till| till.handle.status().looked > looked + 4);
    paces(till)
}

fn start(directory: &Path) -> (Till, [BidPace; 2]) {
    let mut till = Till::first(directory, 1);
    define(&till);
    let paces = paces(&mut till);
    (till, paces)
}

#[test]
fn a_start_goes_on_with_the_pace_of_the_life_before_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let (mut till, begun) = start(folder.path());
    let last = run_some_slots(&mut till);
    assert!(begun.iter().zip(&last).all(|(begun, last)| begun != last));
    till.close();
    let (till, then) = start(folder.path());
    assert_eq!(then, last);
    // At once, and before a minute is over.
    till.close();
    let (till, then) = start(folder.path());
    assert_eq!(then, last);
    till.close();
    let length = fs::metadata(folder.path().join(FILE_NAME)).unwrap().len();
    let most = HEAD_BYTES + 2 * (ROW_HEAD_BYTES + SNAPSHOT_BYTES_MAX);
    assert!(length <= most as u64, "{length}: of campaigns without a strategy nothing");
}

#[test]
fn a_damaged_row_begins_anew_and_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (mut till, begun) = start(folder.path());
    let last = run_some_slots(&mut till);
    till.close();
    let path = folder.path().join(FILE_NAME);
    let mut bytes = fs::read(&path).unwrap();
    bytes[HEAD_BYTES + ROW_HEAD_BYTES + 50] ^= 4;
    fs::write(&path, &bytes).unwrap();
    let (till, then) = start(folder.path());
    assert_eq!(then, [begun[0], last[1]]);
    till.close();
    fs::write(&path, b"anything").unwrap();
    let (till, then) = start(folder.path());
    assert_eq!(then, begun);
    till.close();
}

#[test]
fn whoever_is_gone_is_kept_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let (till, _) = start(folder.path());
    till.close();
    let length = || fs::metadata(folder.path().join(FILE_NAME)).unwrap().len();
    let both = length();
    let (mut till, _) = start(folder.path());
    let mut gone = paced(1, TrafficForecast::Learned);
    (gone.definition.version, gone.pacing) = (2, None);
    till.handle.define(Vec::new(), vec![gone]).unwrap();
    till.until("it is looked at", |till| bidding(till, 1).is_none());
    till.close();
    assert!(length() < both / 2, "{} of {both}", length());
}

#[test]
fn whoever_is_not_defined_is_kept_until_the_first_file_of_a_life() {
    let folder = tempfile::tempdir().unwrap();
    let (till, _) = start(folder.path());
    till.close();
    let length = || fs::metadata(folder.path().join(FILE_NAME)).unwrap().len();
    let both = length();
    // A run that ends before any campaign is defined.
    Till::first(folder.path(), 1).close();
    assert_eq!(length(), both);
    let mut start = start_in(folder.path(), 1);
    start.keep_every = Duration::from_millis(20);
    let (origin, shutdown) = (start.origin, start.shutdown.clone());
    let mut till = Till::of(start.start().unwrap(), origin, shutdown);
    till.feed.replayed();
    let one = vec![paced(0, TrafficForecast::Uniform)];
    till.handle.define(vec![till.account(None)], one).unwrap();
    till.until("a file is written", |till| till.handle.status().states_kept > 0);
    till.close();
    assert!(length() < both / 2, "{} of {both}", length());
}

/// States are stored while the process runs, unless the store fails: a crash loses little.
#[test]
fn states_are_kept_every_so_often_unless_the_store_fails() {
    let disk: FaultDisk = disk::empty(1);
    let mut till = open_with(&disk, |start| start.keep_every = Duration::from_millis(20));
    define(&till);
    till.until("they are kept", |till| till.handle.status().states_kept > 1);
    let token = till.reserve(0, 2, 100);
    disk.set_faults(DiskFaults { write: 1, sync: 1, other: 1 });
    till.shards[0].settle(&token);
    till.feed.settled(1, &token, usd());
    till.until("the store fails", |till| till.handle.status().failing.is_some());
    let (looked, tried) = (till.handle.status().looked, till.handle.status().states_failed);
    till.until("slots end", |till| till.handle.status().looked > looked + 6);
    let failed = till.handle.status().states_failed;
    assert!(failed <= tried + 1, "{failed}: one may have been on its way");
    disk.set_faults(DiskFaults::default());
    till.until("the store works", |till| till.handle.status().failing.is_none());
    let kept = till.handle.status().states_kept;
    till.until("and they are kept again", |till| till.handle.status().states_kept > kept);
    till.close();
}
