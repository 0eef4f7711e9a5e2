//! The store on a disk that loses power, fails and is full.

mod fixtures;
mod power;

use std::time::Duration;

use cache_core::fields::dates::UnixSeconds;
use cache_core::key::CacheKey;
use cache_core::store::purges::{Purge, PurgeEffect, PurgeScope};
use faults::{DiskFaults, FaultDisk};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::admission::DiskAdmission;
use crate::writer::OWED_MAX;
use fixtures::{Fixture, LIMITS, resource};

fn surrogate(name: &str) -> Purge {
    Purge { scope: PurgeScope::SurrogateKey(name.into()), effect: PurgeEffect::Gone }
}

#[test]
fn what_is_written_is_loaded_also_after_a_restart() {
    let disk = FaultDisk::new(1);
    let fixture = Fixture::open(&disk);
    fixture.write("http://one/a", "first", "");
    fixture.settle();
    assert_eq!(fixture.load("http://one/a").as_deref(), Some("first"));
    assert_eq!(fixture.load("http://one/b"), None);
    fixture.tier.close();
    for _ in 0..2 {
        let fixture = Fixture::open(&disk);
        assert_eq!(fixture.load("http://one/a").as_deref(), Some("first"));
        fixture.tier.close();
    }
}

#[test]
fn what_is_forgotten_stays_so_after_a_restart() {
    let disk = FaultDisk::new(2);
    let fixture = Fixture::open(&disk);
    for key in ["http://one/a", "http://one/b"] {
        fixture.write(key, "first", "");
    }
    fixture.settle();
    fixture.tier.forget("http://one/a");
    assert_eq!(fixture.load("http://one/a"), None);
    fixture.settle();
    let fixture = fixture.kill(&disk);
    assert_eq!(fixture.load("http://one/a"), None);
    assert_eq!(fixture.load("http://one/b").as_deref(), Some("first"));
    fixture.write("http://one/a", "second", "");
    fixture.settle();
    let fixture = fixture.kill(&disk);
    assert_eq!(fixture.load("http://one/a").as_deref(), Some("second"));
    fixture.tier.close();
}

#[test]
fn a_purge_counts_at_once_and_after_a_loss_of_power() {
    (0..20).for_each(purges_through_losses_of_power);
}

fn purges_through_losses_of_power(seed: u64) {
    let disk = FaultDisk::new(seed);
    let mut fixture = Fixture::open(&disk);
    let keys = ["http://one/a", "http://one/b", "http://two/c", "http://two/d"];
    for key in keys {
        fixture.write(key, "first", "shared");
    }
    fixture.settle();
    let stale = PurgeEffect::Stale(UnixSeconds(1_000));
    let key = PurgeScope::Key(CacheKey::written(keys[1]));
    fixture.purge(Purge { scope: key, effect: PurgeEffect::Gone });
    fixture.purge(Purge { scope: PurgeScope::Prefix("http://two/c".into()), effect: stale });
    // After all purges: those do not concern it.
    fixture.write(keys[0], "second", "shared");
    fixture.settle();
    fixture.purge(Purge { scope: PurgeScope::Prefix("http://two/d".into()), ..surrogate("") });
    for _ in 0..2 {
        assert_eq!(fixture.load(keys[0]).as_deref(), Some("second"));
        assert_eq!(fixture.load(keys[1]), None);
        assert_eq!(fixture.lifetime(keys[2]), Some(0));
        assert_eq!(fixture.load(keys[3]), None);
        disk.lose_power();
        fixture = fixture.reopen(&disk);
    }
    fixture.purge(surrogate("shared"));
    assert_eq!(keys.map(|key| fixture.load(key)), [const { None }; 4]);
    fixture.tier.close();
}

#[test]
fn the_log_stays_within_its_size_and_keeps_the_newest() {
    let disk = FaultDisk::new(4);
    let mut fixture = Fixture::open(&disk);
    let body = "x".repeat(10_000);
    let key = |at: usize| format!("http://one/{at}");
    for at in 0..400 {
        fixture.write(&key(at), &body, "");
        if at == 200 {
            fixture.purge(surrogate("a"));
        }
        if at % 10 == 0 {
            fixture.settle();
            assert!(disk.used() as u64 <= LIMITS.bytes_max, "{} bytes", disk.used());
        }
    }
    fixture.settle();
    for _ in 0..2 {
        let figures = fixture.tier.figures();
        assert!(disk.names().len() >= 15, "{:?}", disk.names());
        assert_eq!(fixture.load(&key(0)), None);
        assert_eq!(fixture.load(&key(399)).as_deref(), Some(&*body));
        let kept = (0..400).filter(|at| fixture.load(&key(*at)).is_some()).count();
        assert_eq!(kept, figures.entries);
        assert!((85..=104).contains(&kept), "{kept} of a hundred");
        fixture = fixture.kill(&disk);
    }
    // Nothing is left that the purge could concern.
    assert_eq!(fixture.tier.scopes(), 0);
    fixture.tier.close();
}

#[test]
fn a_resource_that_does_not_fit_is_not_written() {
    let disk = FaultDisk::new(5);
    let fixture = Fixture::open(&disk);
    // What it replaces does not count any more.
    fixture.write("http://one/a", "small", "");
    fixture.settle();
    assert!(fixture.tier.contains("http://one/a"));
    fixture.write("http://one/a", &"x".repeat(70_000), "");
    fixture.settle();
    assert!(!fixture.tier.contains("http://one/a"));
    assert_eq!(fixture.tier.figures().unwritten, 1);
    // Its encoding is longer than what it takes in memory.
    for bytes in 63_000..65_600 {
        if bytes % 100 == 0 {
            let key = format!("http://one/{bytes}");
            fixture.write(&key, &"x".repeat(bytes), "");
            fixture.settle();
        }
    }
    assert_eq!(fixture.tier.figures().failure, None);
    fixture.tier.close();
}

#[test]
fn a_full_disk_takes_the_place_of_the_oldest() {
    let disk = FaultDisk::new(6);
    let fixture = Fixture::open(&disk);
    let body = "x".repeat(10_000);
    let key = |at: usize| format!("http://one/{at}");
    for at in 0..40 {
        fixture.write(&key(at), &body, "");
        fixture.settle();
    }
    // Others fill it.
    disk.set_space(Some(disk.used()));
    for at in 40..80 {
        fixture.write(&key(at), &body, "");
        fixture.settle();
    }
    let figures = fixture.tier.figures();
    assert_eq!((figures.failure, figures.unwritten), (None, 0));
    assert_eq!(fixture.load(&key(0)), None);
    assert_eq!(fixture.load(&key(79)).as_deref(), Some(&*body));
    // No room at all: what is there is served, and nothing is written.
    disk.set_space(Some(0));
    fixture.write(&key(80), &body, "");
    assert!(fixture.purge_unrecorded(surrogate("a")).contains("storage space"));
    assert!(fixture.tier.figures().failure.is_some());
    assert!(!fixture.tier.contains(&key(80)));
    disk.set_space(None);
    fixture.wait_until_well();
    fixture.write(&key(81), &body, "");
    fixture.settle();
    assert_eq!(fixture.load(&key(81)).as_deref(), Some(&*body));
    fixture.tier.close();
}

#[test]
fn what_a_failing_disk_owes_is_written_once_it_is_well() {
    let disk = FaultDisk::new(7);
    let fixture = Fixture::open(&disk);
    for key in ["http://one/a", "http://one/b", "http://one/c"] {
        fixture.write(key, "first", key);
    }
    fixture.settle();
    disk.set_faults(DiskFaults { write: 1, sync: 1, other: 1 });
    fixture.tier.forget("http://one/a");
    fixture.purge_unrecorded(surrogate("http://one/b"));
    assert_eq!(fixture.load("http://one/b"), None, "it counts all the same");
    assert_eq!(fixture.load("http://one/c").as_deref(), Some("first"));
    disk.set_faults(DiskFaults::default());
    fixture.wait_until_well();
    disk.lose_power();
    let fixture = fixture.reopen(&disk);
    assert_eq!(["a", "b"].map(|end| fixture.load(&format!("http://one/{end}"))), [None, None]);
    assert_eq!(fixture.load("http://one/c").as_deref(), Some("first"));
    fixture.tier.close();
}

#[test]
fn a_disk_that_owes_too_much_begins_anew() {
    let disk = FaultDisk::new(14);
    let fixture = Fixture::open(&disk);
    fixture.write("http://one/a", "first", "");
    fixture.write("http://one/b", "first", "");
    fixture.settle();
    disk.set_faults(DiskFaults { write: 1, ..DiskFaults::default() });
    fixture.tier.forget("http://one/a");
    for _ in 0..=OWED_MAX {
        fixture.settle();
    }
    disk.set_faults(DiskFaults::default());
    fixture.wait_until_well();
    let fixture = fixture.kill(&disk);
    assert_eq!(["a", "b"].map(|end| fixture.load(&format!("http://one/{end}"))), [None, None]);
    fixture.tier.close();
}

#[test]
fn damage_costs_what_is_damaged_and_what_purges_it_may_have_had() {
    let disk = FaultDisk::new(8);
    let fixture = Fixture::open(&disk);
    let body = "x".repeat(10_000);
    let key = |at: usize| format!("http://one/{at}");
    for at in 0..30 {
        fixture.write(&key(at), &body, "");
        fixture.settle();
    }
    fixture.tier.close();
    let names = disk.names();
    let damage = |disk: &FaultDisk, name: &str, at: usize| {
        let mut bytes = disk.bytes(name).unwrap();
        bytes[at] ^= 1;
        disk.put(name, &bytes);
    };
    // In a body.
    let one = disk.copy();
    damage(&one, &names[1], 500);
    let fixture = Fixture::open(&one);
    let lost = (0..30).filter(|at| fixture.load(&key(*at)).is_none()).count();
    assert_eq!((lost, fixture.tier.figures().entries), (1, 29));
    fixture.tier.close();
    // In the header of a segment.
    let other = disk.copy();
    damage(&other, &names[1], 3);
    let fixture = Fixture::open(&other);
    assert!(fixture.load(&key(0)).is_none());
    assert!(fixture.load(&key(29)).is_some());
    assert_eq!(other.names(), names[2..]);
    fixture.tier.close();
    // A missing one.
    disk.remove(&names[2]).unwrap();
    let fixture = Fixture::open(&disk);
    assert_eq!(disk.names(), names[3..]);
    fixture.tier.close();
}

#[test]
fn a_hash_of_another_key_is_no_hit() {
    let disk = FaultDisk::new(9);
    let fixture = Fixture::open(&disk);
    fixture.write("http://one/a", "first", "");
    fixture.settle();
    let other = fixture.block_on(fixture.tier.load_as("http://one/b", "http://one/a"));
    assert!(other.is_none());
    assert_eq!(fixture.load("http://one/a").as_deref(), Some("first"));
    fixture.tier.close();
}

#[test]
fn only_one_process_has_the_directory() {
    let disk = FaultDisk::new(10);
    let fixture = Fixture::open(&disk);
    let error = Fixture::try_open(&disk).err().unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    fixture.tier.close();
    assert!(Fixture::try_open(&disk).is_ok());
}

#[test]
fn what_is_fetched_again_is_admitted() {
    let disk = FaultDisk::new(11);
    let fixture = Fixture::open(&disk);
    assert_eq!(["a", "a", "b"].map(|key| fixture.tier.admits(key)), [false, true, false]);
    fixture.tier.close();
    let fixture = Fixture::open_with(&disk, |limits| limits.admission = DiskAdmission::First);
    assert!(fixture.tier.admits("c"));
    fixture.tier.close();
}

#[test]
fn a_read_that_takes_too_long_is_given_up() {
    let disk = FaultDisk::new(12);
    // Nobody reads.
    let fixture = Fixture::open_with(&disk, |limits| {
        limits.readers = 0;
        limits.read_timeout = Duration::from_millis(5);
    });
    fixture.write("http://one/a", "first", "");
    fixture.settle();
    assert_eq!(fixture.load("http://one/a"), None);
    assert_eq!(fixture.tier.figures().unread, 1);
    fixture.tier.close();
}

#[test]
fn a_resource_that_changed_while_it_was_read_is_void() {
    let disk = FaultDisk::new(13);
    let fixture = Fixture::open(&disk);
    fixture.write("http://one/a", "first", "");
    fixture.settle();
    let loaded = fixture.block_on(fixture.tier.load("http://one/a")).unwrap();
    fixture.tier.write("http://one/a", resource("second", ""));
    fixture.settle();
    assert!(fixture.tier.current("http://one/a", loaded).is_none());
    fixture.tier.close();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_the_files_contain_only_what_was_written_is_loaded(
        changes in proptest::collection::vec((0..3_usize, any::<Index>(), any::<u8>(), 0..3_u8), 1..12),
    ) {
        let disk = FaultDisk::new(15);
        let fixture = Fixture::open(&disk);
        let (key, body) = (|at: usize| format!("http://one/{at}"), "x".repeat(5_000));
        for at in 0..30 {
            fixture.write(&key(at), &format!("{at} {body}"), "name");
            fixture.settle();
        }
        fixture.tier.close();
        for (file, at, byte, kind) in changes {
            let name = &disk.names()[file];
            let mut bytes = disk.bytes(name).unwrap();
            if bytes.is_empty() {
                continue;
            }
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.truncate(at),
                _ => bytes.extend_from_within(at..),
            }
            disk.put(name, &bytes);
        }
        let fixture = Fixture::open(&disk);
        for at in 0..30 {
            if let Some(loaded) = fixture.load(&key(at)) {
                prop_assert_eq!(loaded, format!("{at} {body}"));
            }
        }
        fixture.tier.close();
    }
}
