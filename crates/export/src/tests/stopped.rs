//! Exports that end at any call, in every way, and their successors.

use std::cell::Cell;

use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::store::Fault;
use super::*;

/// Rows of several hours out of order, with gaps and records without rows.
fn mixed() -> Vec<ExportItem<Line>> {
    (1..=34)
        .map(|sequence| match sequence % 11 {
            5 => ExportItem::Passed(place(sequence)),
            8 => ExportItem::Gap { place: place(sequence), records: sequence },
            _ => row(sequence, EIGHT_US + HOUR_US * (sequence / 8 + sequence % 5 / 3)),
        })
        .collect()
}

/// Every file is complete, and earlier files are unchanged.
fn check_visible(disk: &Memory, before: &BTreeMap<String, Vec<u8>>, case: &str) {
    let now = disk.visible();
    for (path, bytes) in before {
        assert_eq!(now.get(path), Some(bytes), "{case}: {path} stays");
    }
    read_back(disk);
}

/// No temporary files remain, and no row is missing or duplicated.
fn check_end(disk: &Memory, items: &[ExportItem<Line>], case: &str) {
    assert_eq!(read_back(disk), expected(items), "{case}");
    let left: Vec<_> = disk.paths().into_iter().filter(|path| path.ends_with(".tmp")).collect();
    assert!(left.is_empty(), "{case}: {left:?}");
}

fn coins(seed: u64) -> impl FnMut() -> bool {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut source = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    move || source.next_u32().is_multiple_of(2)
}

/// Runs that end at each call in turn; each is followed by a successful run.
fn at_every_call(format: FileFormat, fault: impl Fn(u64) -> Fault, seeds: u64) {
    let (items, options) = (mixed(), options(format, small()));
    let sound = Memory::new();
    whole(&sound, &items, &options).expect("nothing fails");
    let calls = sound.calls();
    assert!(calls > 100, "there are {calls} calls to fail at");
    for call in 0..calls {
        for seed in 0..seeds.max(1) {
            let case = format!("{format}, {:?}, seed {seed}", fault(call));
            let disk = Memory::new();
            disk.restart(fault(call));
            let error = whole(&disk, &items, &options).expect_err(&case);
            assert!(matches!(error, ExportError::Io { .. }), "{case}: {error}");
            if seeds > 0 {
                disk.lose_power(coins(seed));
            }
            let seen = disk.visible();
            disk.restart(Fault::None);
            check_visible(&disk, &seen, &case);
            whole(&disk, &items, &options).expect(&case);
            check_visible(&disk, &seen, &case);
            check_end(&disk, &items, &case);
        }
    }
}

#[test]
fn a_killed_run_leaves_no_row_twice_and_none_out() {
    for format in FileFormat::ALL {
        at_every_call(format, Fault::Killed, 0);
    }
}

#[test]
fn a_lost_machine_leaves_no_row_twice_and_none_out() {
    for format in FileFormat::ALL {
        at_every_call(format, Fault::Killed, 3);
    }
}

/// The run notices the failure itself, and cleans up as far as possible.
#[test]
fn a_full_disk_leaves_no_row_twice_and_none_out() {
    for format in FileFormat::ALL {
        at_every_call(format, Fault::Full, 0);
    }
}

/// Unfinished files are removed on a full disk, because others need the space.
#[test]
fn a_full_disk_is_told_and_its_room_given_back() {
    let (items, options) = (mixed(), options(FileFormat::Jsonl, ExportLimits::default()));
    let sound = Memory::new();
    whole(&sound, &items, &options).unwrap();
    let mut seen = 0;
    for call in 0..sound.calls() {
        let disk = Memory::new();
        disk.restart(Fault::Full(call));
        let error = whole(&disk, &items, &options).unwrap_err().to_string();
        assert!(error.starts_with("out/"), "it names the path: {error}");
        assert!(error.contains("make room, and export again"), "{error}");
        if error.contains("-from-") && error.contains("cannot be written") {
            seen += 1;
            let left = disk.paths();
            assert!(!left.iter().any(|path| path.contains("-from-")), "{call}: {left:?}");
        }
    }
    assert!(seen > 3, "{seen} writes failed");
}

/// Number of series of accidents.
const SEEDS: u64 = 60;

/// Repeated accidents until a run succeeds; the log grows meanwhile.
#[test]
fn runs_that_fail_one_after_another_come_through() {
    let items = mixed();
    let mut failures = 0;
    for seed in 0..SEEDS {
        let mut coin = coins(seed);
        let mut below = |limit: u64| (0..6).fold(0, |sum, _| sum * 2 + u64::from(coin())) % limit;
        let format = FileFormat::ALL[usize::from(below(2) == 1)];
        let options = options(format, small());
        let disk = Memory::new();
        let mut known = 0;
        let mut through = false;
        while !through || known < items.len() {
            known = items.len().min(known + usize::try_from(below(20)).expect("small"));
            let call = below(64) + below(64);
            let is_power = below(2) == 0;
            disk.restart(if below(3) == 0 { Fault::Full(call) } else { Fault::Killed(call) });
            let result = whole(&disk, &items[..known], &options);
            through = result.is_ok();
            failures += u64::from(!through);
            let is_accident = matches!(result, Ok(_) | Err(ExportError::Io { .. }));
            assert!(is_accident, "seed {seed}: {result:?}");
            if is_power && !through {
                disk.lose_power(|| below(2) == 0);
            }
            let seen = disk.visible();
            disk.restart(Fault::None);
            check_visible(&disk, &seen, &format!("seed {seed}"));
        }
        check_end(&disk, &items, &format!("seed {seed}"));
    }
    assert!(failures > SEEDS, "{failures} runs failed");
}

/// Unfinished files are removed even if no later run begins them again.
#[test]
fn what_was_under_way_is_removed() {
    let (items, options) = (mixed(), options(FileFormat::Jsonl, small()));
    let disk = Memory::new();
    whole(&disk, &items[..9], &options).unwrap();
    disk.put("_export-node-007/node-007-epoch-000009-from-000000000099.jsonl.tmp", b"{\"tim");
    disk.put("_export-node-007/state.json.tmp", b"{");
    whole(&disk, &items[..9], &options).unwrap();
    check_end(&disk, &items[..9], "cleared");
}

/// Stopped before any item: earlier rows are complete, and the next run continues after them.
#[test]
fn a_stopped_run_completes_what_it_took() {
    let items = mixed();
    for format in FileFormat::ALL {
        for after in 0..items.len() {
            let disk = Memory::new();
            let options = options(format, small());
            let asked = Cell::new(0);
            let stop = || asked.replace(asked.get() + 1) == after;
            let stream = items.iter().cloned().map(Ok::<_, Infallible>);
            let summary = run(&disk, stream, &options, stop).unwrap();
            assert!(summary.is_stopped);
            let last = (after > 0).then(|| place(after as u64));
            assert_eq!((summary.position, summary.records), (last, after as u64));
            check_end(&disk, &items[..after], "stopped");

            let summary = whole(&disk, &items, &options).unwrap();
            assert_eq!((summary.resumed, summary.is_stopped), (last, false));
            assert_eq!(summary.first, Some(place(after as u64 + 1)));
            assert_eq!(summary.records, (items.len() - after) as u64);
            check_end(&disk, &items, "gone on");
        }
    }
}

/// A failing reader ends the run; rows read before are kept.
#[test]
fn a_failing_source_loses_nothing() {
    let items = mixed();
    let disk = Memory::new();
    let options = options(FileFormat::Parquet, small());
    let good = items[..20].iter().cloned().map(Ok);
    let stream = good.chain([Err(std::io::Error::other("the log is unreadable"))]);
    let error = run(&disk, stream, &options, || false).unwrap_err();
    assert_eq!(error.to_string(), "everything before is exported; then the log is unreadable");
    check_end(&disk, &items[..20], "failed");
    let summary = whole(&disk, &items, &options).unwrap();
    assert_eq!(summary.resumed, Some(place(20)));
    check_end(&disk, &items, "gone on");
}
