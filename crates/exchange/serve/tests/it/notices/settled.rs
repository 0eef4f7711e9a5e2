//! Beacons with a reservation: durable and remembered even without a DSP to notify, and settled by
//! one record.

use std::time::{SystemTime, UNIX_EPOCH};

use eventlog::disk::DiskFolder;
use eventlog::lane::LaneKind;
use eventlog::{LogEntry, LogReader};
use exchange_core::delivery::JournalRecord;
use exchange_core::{Claims, KeyRing, NoticeKind, Reservation};
use pacer_core::shard::token::{TOKEN_BYTES, TokenText};
use units::{Cpm, Currency, Nanos};

use super::{RecordDir, dsp};
use crate::fixtures::{Dsp, Host, Running, until};

const KEY: [u8; 32] = [0x17; 32];

fn start(record_dir: &RecordDir, dsp: &Dsp) -> Running {
    let key: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    record_dir.start_with(&format!("key = \"{key}\"\nmode = \"upstream\"\n"), &[dsp])
}

fn reservation(number: u8) -> Reservation {
    let token = TokenText::from_bytes(&[number; TOKEN_BYTES]);
    Reservation { token, currency: Currency::USD }
}

/// A beacon as sealed by auction `number`, with the notice of a DSP at `url`.
fn beacon(kind: NoticeKind, number: u8, url: &str, reservation: Option<Reservation>) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let claims = Claims {
        kind,
        auction_id: number.into(),
        imp: 0,
        bid: 0,
        dsp: "d0".into(),
        seat: "".into(),
        imp_id: "1".into(),
        publisher: "".into(),
        paid: Cpm::ZERO,
        paid_currency: Currency::USD,
        net: Cpm::ZERO,
        net_currency: Currency::USD,
        revenue: Nanos::new(0),
        expires_unix_s: now + 600,
        is_test: false,
        relays_markup: false,
        url: url.into(),
        reservation,
        node: None,
    };
    let keys = KeyRing::new(&[KEY]).expect("there is a key");
    format!("/n/{}", keys.seal(&claims).expect("it fits"))
}

/// The numbers that the log settles, in order.
fn settled(record_dir: &RecordDir) -> Vec<u8> {
    let folder = DiskFolder::read_only(record_dir.0.path().join(LaneKind::Durable.name()));
    let mut settled = Vec::new();
    for item in LogReader::new(&folder).expect("a log").seek(0).expect("a log") {
        let LogEntry::Record(record) = item.expect("it is sound") else { panic!("it is sound") };
        if record.kind != events::RecordKind::Notice.code() {
            continue;
        }
        let record = JournalRecord::decode(&record.payload).expect("a record of ours");
        if let JournalRecord::Accepted { reservation: Some(reservation), .. } = record {
            settled.push(reservation.token.to_bytes()[0]);
        }
    }
    settled
}

#[test]
fn a_beacon_with_money_is_durable_though_nobody_is_told() {
    let (winner, record_dir) = (dsp(&[]), RecordDir::new());
    let paid = beacon(NoticeKind::Billing, 1, "", Some(reservation(1)));
    let free = beacon(NoticeKind::Billing, 2, "", None);
    let lost = beacon(NoticeKind::Loss, 3, "", Some(reservation(3)));
    let first = start(&record_dir, &winner);
    let mut caller = first.caller();
    for beacon in [&paid, &free, &lost, &paid, &paid] {
        assert_eq!(caller.get(beacon, "").status, 200);
    }
    until("the office says so", || first.notices().counters.beacons_duplicate == 2);
    let counters = first.notices().counters;
    assert_eq!((counters.beacons_accepted, counters.remembered), (1, 1));
    assert_eq!((counters.billing_owed, counters.best_effort_waiting), (0, 0));
    assert_eq!(first.count(|metrics| metrics.beacons_without_notice.value()), 5);
    drop(caller);
    drop(first);
    let second = start(&record_dir, &winner);
    assert_eq!(second.caller().get(&paid, "").status, 200);
    until("the repeat is known", || second.notices().counters.beacons_duplicate == 1);
    assert_eq!(second.notices().counters.beacons_accepted, 0);
    drop(second);
    assert_eq!(settled(&record_dir), [1]);
}

#[test]
fn a_beacon_with_money_and_a_notice_settles_and_bills_once() {
    let (host, winner, record_dir) = (Host::start(), dsp(&[]), RecordDir::new());
    let url = |place: &str| format!("http://{}/{place}", host.address);
    let paid = beacon(NoticeKind::Billing, 1, &url("bill"), Some(reservation(1)));
    let lost = beacon(NoticeKind::Loss, 2, &url("loss"), Some(reservation(2)));
    let first = start(&record_dir, &winner);
    let mut caller = first.caller();
    for beacon in [&paid, &paid, &lost, &lost] {
        assert_eq!(caller.get(beacon, "").status, 200);
    }
    until("the repeats are known", || first.notices().counters.beacons_duplicate == 2);
    until("it is delivered", || first.notices().counters.billing_delivered == 1);
    drop(host.call("/loss"));
    drop(caller);
    drop(first);
    let second = start(&record_dir, &winner);
    assert_eq!(second.caller().get(&paid, "").status, 200);
    until("the repeat is known", || second.notices().counters.beacons_duplicate == 1);
    drop(second);
    assert_eq!((host.calls("/bill").len(), host.calls("/loss").len()), (1, 1));
    assert_eq!(settled(&record_dir), [1]);
}
