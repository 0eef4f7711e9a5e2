//! Billing notices outlive the exchange, and a failing host affects no other.

use std::process::Command;

use serde_json::json;

use super::{LOOPBACK, RecordDir, beacons, bid_at, dsp};
use crate::fixtures::{Dsp, Host, Reaction, Running, Setup, banner, listener, until};

#[test]
fn what_is_owed_is_billed_after_a_restart_and_once() {
    let host = Host::start();
    host.react("/a/bill", Reaction::Status(500));
    let winner = dsp(&[bid_at(&host, "a", json!({}))]);
    let record_dir = RecordDir::new();
    let first = record_dir.start_with("", &[&winner]);
    let reply = first.auction(&banner(""));
    let beacon = beacons(&first, &reply.body).pop().expect("a beacon");
    assert_eq!(first.caller().get(&beacon, "").status, 200, "acknowledged: it is on the disk");
    until("it has failed", || first.notices().counters.tries_failed == 1);
    assert_eq!(first.notices().counters.billing_owed, 1);
    drop(first);
    host.react("/a/bill", Reaction::Status(204));
    let failed = host.calls("/a/bill");
    let second = record_dir.start_with("", &[&winner]);
    until("it is delivered", || second.notices().counters.billing_delivered == 1);
    let calls = host.calls("/a/bill");
    assert_eq!((failed.len(), calls.len()), (1, 2));
    assert_eq!(calls[0].target, calls[1].target, "not a macro differs");
    // A repeated call gets the same response and is not billed again, not even after another start.
    assert_eq!(second.caller().get(&beacon, "").status, 200);
    until("the repeat is known", || second.notices().counters.beacons_duplicate == 1);
    drop(second);
    let third = record_dir.start_with("", &[&winner]);
    assert_eq!(third.caller().get(&beacon, "").status, 200);
    until("the repeat is known", || third.notices().counters.beacons_duplicate == 1);
    let counters = third.notices().counters;
    assert_eq!((counters.billing_owed, counters.beacons_accepted), (0, 0));
    assert_eq!(host.calls("/a/bill").len(), 2);
}

/// There was no attempt before: the host did not exist yet.
#[test]
fn what_was_never_tried_is_billed_after_a_restart() {
    let host = Host::start();
    let winner = dsp(&[bid_at(&host, "a", json!({}))]);
    let record_dir = RecordDir::new();
    let address = host.address;
    let first = record_dir.start_with("timeout = \"50ms\"", &[&winner]);
    let reply = first.auction(&banner(""));
    until("the win is told", || first.notices().counters.best_effort_delivered == 1);
    drop(host);
    let beacon = beacons(&first, &reply.body).pop().expect("a beacon");
    assert_eq!(first.caller().get(&beacon, "").status, 200);
    drop(first);
    let host = Host::on(std::net::TcpListener::bind(address).expect("its port is free again"));
    let second = record_dir.start_with("", &[&winner]);
    drop(host.call("/a/bill"));
    until("it is delivered", || second.notices().counters.billing_delivered == 1);
}

#[test]
fn two_exchanges_do_not_share_a_log() {
    let winner = dsp(&[]);
    let record_dir = RecordDir::new();
    let first = record_dir.start_with("", &[&winner]);
    let listener = listener();
    let rest = record_dir.table(listener.local_addr().expect("an address"), "");
    let second = Running::try_on(listener, &Setup { rest: &rest, ..Setup::default() });
    let error = second.expect_err("the log is in use").to_string();
    let directory = record_dir.0.path().display().to_string();
    assert!(error.contains("record.directory") && error.contains(&directory), "{error}");
    drop(first);
    drop(record_dir.start_with("", &[&winner]));
}

#[test]
fn a_host_that_hangs_or_fails_holds_up_nobody_else() {
    for reaction in [Reaction::Hang, Reaction::Status(500), Reaction::Close] {
        let (bad, good) = (Host::start(), Host::start());
        for path in ["/a/win", "/a/bill"] {
            bad.react(path, reaction.clone());
        }
        let winner = dsp(&[bid_at(&bad, "a", json!({ "price": 2 }))]);
        let loser = dsp(&[bid_at(&good, "b", json!({}))]);
        let record_dir = RecordDir::new();
        let exchange =
            record_dir.start_with("timeout = \"500ms\"\nretries = 0", &[&winner, &loser]);
        for auction in 1..=30 {
            let reply = exchange.auction(&banner(""));
            let beacon = &beacons(&exchange, &reply.body)[0];
            assert_eq!(exchange.caller().get(beacon, "").status, 200);
            until("the loser is told at once", || good.calls("/b/loss").len() == auction);
        }
        until("all of it has been counted", || {
            let counters = exchange.notices().counters;
            let billing = (counters.beacons_accepted, counters.billing_owed);
            billing == (30, 30) && counters.best_effort_delivered == 30
        });
        // After a few failures it is probed, one call at a time.
        let calls = bad.targets().len();
        assert!(calls < 60, "{reaction:?}: {calls}");
    }
}

/// A mounted file system, unmounted on drop.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a directory");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(folder.path())
            .output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).output();
    }
}

/// An exchange whose log has its own disk, with a DSP that is billed at `host`. None if mounting is
/// not permitted.
#[expect(clippy::print_stderr, reason = "says that it has not run")]
fn on_small_disk(host: &Host) -> Option<(SmallDisk, Dsp, Running)> {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("SKIPPED: a file system can be mounted by root alone");
        return None;
    };
    let winner = dsp(&[bid_at(host, "a", json!({}))]);
    let listener = listener();
    let address = listener.local_addr().expect("an address");
    let directory = disk.0.path().join("record");
    let rest = format!(
        "[record]\ndirectory = \"{}\"\n\
         [exchange.notices]\nurl = \"http://{address}/n/\"\n{LOOPBACK}",
        directory.display()
    );
    let dsps = [(winner.address, "")];
    let exchange = Running::on(listener, &Setup { dsps: &dsps, rest: &rest, ..Setup::default() });
    Some((disk, winner, exchange))
}

fn beacon(exchange: &Running) -> String {
    let reply = exchange.auction(&banner(""));
    beacons(exchange, &reply.body).pop().expect("a beacon")
}

/// Fills the disk, and calls beacons until one is refused.
fn refused(exchange: &Running, disk: &SmallDisk) -> String {
    assert_eq!(exchange.caller().get(&beacon(exchange), "").status, 200);
    std::fs::write(disk.0.path().join("filler"), vec![0; 64 << 10]).expect_err("no room for all");
    let mut refused = None;
    until("a beacon is refused", || {
        let beacon = beacon(exchange);
        let reply = exchange.caller().get(&beacon, "");
        if reply.status == 503 {
            assert_eq!(reply.header("retry-after"), Some("10"));
            refused = Some(beacon);
        }
        refused.is_some()
    });
    refused.expect("one was refused")
}

#[test]
fn a_full_disk_refuses_beacons_and_nothing_else() {
    let host = Host::start();
    let Some((disk, _dsp, exchange)) = on_small_disk(&host) else { return };
    let refused = refused(&exchange, &disk);
    until("it is counted", || exchange.notices().counters.beacons_unjournalled > 0);
    let filled = exchange.count(|metrics| metrics.filled.value());
    assert_eq!(exchange.auction(&banner("")).status, 200, "auctions go on");
    assert_eq!(exchange.count(|metrics| metrics.filled.value()), filled + 1);
    assert_eq!(exchange.caller().get(&refused, "").status, 503, "as long as it is full");
    std::fs::remove_file(disk.0.path().join("filler")).expect("there is room again");
    until("it is taken", || exchange.caller().get(&refused, "").status == 200);
    until("it is delivered", || {
        let counters = exchange.notices().counters;
        counters.billing_owed == 0 && counters.billing_delivered == counters.beacons_accepted
    });
    // Whether the log had accepted it before or not, it is billed once.
    let mut billed: Vec<_> = host.calls("/a/bill").into_iter().map(|call| call.target).collect();
    billed.sort_unstable();
    let calls = billed.len();
    billed.dedup();
    assert_eq!(billed.len(), calls);
}

/// Unwritable records do not delay the shutdown beyond its limit.
#[test]
fn a_full_disk_does_not_hold_up_the_end() {
    let host = Host::start();
    host.react("/a/bill", Reaction::Status(500));
    let Some((disk, _dsp, exchange)) = on_small_disk(&host) else { return };
    refused(&exchange, &disk);
    exchange.join();
}
