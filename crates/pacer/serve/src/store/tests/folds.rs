//! Folded rows leave the file, and files from before there were sums are upgraded.

use std::fs;
use std::path::Path;

use pacer_core::calendar::Period;
use pacer_core::messages::{CampaignIndex, Epoch};
use pacer_core::store::{
    Batch, CommitOutcome, EpochLifetime, Fold, Lease, LeaseKey, QueryResult, SpentSum, StoreAnswer,
    StoreQuery, StoreRequest, StoreWriter, SumKey,
};
use redb::{Database, ReadableDatabase as _, TableDefinition};
use units::Nanos;

use super::{ask, batch, begin, ended, leases};
use crate::store::directory::DiskDirectory;
use crate::store::engine::StoreEngine;

const FILE: &str = "ledger.redb";
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const CAMPAIGNS: u32 = 50;

fn open(directory: &Path) -> StoreEngine<DiskDirectory> {
    StoreEngine::open(DiskDirectory::new(directory).expect("it is there")).expect("it opens")
}

fn sums(engine: &mut StoreEngine<DiskDirectory>) -> Vec<(SumKey, SpentSum)> {
    let answer = ask(engine, StoreRequest::Read(StoreQuery::Sums(None)));
    let StoreAnswer::Read(Ok(QueryResult::Sums(sums))) = answer else { panic!("{answer:?}") };
    sums
}

fn submit(engine: &mut StoreEngine<DiskDirectory>, writer: StoreWriter, batch: Batch) {
    let answer = ask(engine, StoreRequest::Submit(writer, batch));
    assert_eq!(ended(&answer), CommitOutcome::Committed, "{answer:?}");
}

#[test]
fn a_file_of_the_first_format_is_taken_over() {
    let temporary = tempfile::tempdir().unwrap();
    let mut engine = open(temporary.path());
    let writer = begin(&mut engine);
    submit(&mut engine, writer, batch(3, 5));
    engine.close().unwrap();
    // Format 1 had no more tables.
    let path = temporary.path().join(FILE);
    let database = Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(META).unwrap().insert("format", 1).unwrap();
    for name in ["sums", "folded"] {
        let tables = transaction.list_tables().unwrap();
        let table = tables.into_iter().find(|table| redb::TableHandle::name(table) == name);
        assert!(transaction.delete_table(table.unwrap()).unwrap());
    }
    transaction.commit().unwrap();
    drop(database);

    let mut engine = open(temporary.path());
    assert_eq!(sums(&mut engine), []);
    let want: Vec<_> = (0..5).map(|slot| (slot, 3)).collect();
    assert_eq!(leases(&mut engine), want);
    let writer = begin(&mut engine);
    assert_eq!(writer.epoch, Epoch(2));
    let (key, lease) = closed(0, 1);
    let folds = vec![Fold::Lease(key, 20_000)];
    submit(
        &mut engine,
        writer,
        Batch { number: 1, leases: vec![(key, lease)], folds, ..Batch::default() },
    );
    engine.close().unwrap();
    let database = Database::open(&path).unwrap();
    let transaction = database.begin_read().unwrap();
    let format = transaction.open_table(META).unwrap().get("format").unwrap().unwrap().value();
    assert_eq!(format, crate::store::tables::FORMAT);
    drop((transaction, database));
    assert_eq!(sums(&mut open(temporary.path())).len(), 1);
}

fn lives(engine: &mut StoreEngine<DiskDirectory>) -> Vec<(StoreWriter, EpochLifetime)> {
    let answer = ask(engine, StoreRequest::Read(StoreQuery::EpochLifetimes(None)));
    let StoreAnswer::Read(Ok(QueryResult::EpochLifetimes(lives))) = answer else {
        panic!("{answer:?}")
    };
    lives
}

#[test]
fn a_file_without_lives_is_taken_as_it_is() {
    let temporary = tempfile::tempdir().unwrap();
    let mut engine = open(temporary.path());
    let writer = begin(&mut engine);
    submit(&mut engine, writer, batch(3, 5));
    engine.close().unwrap();
    // The same format, from a program without the table of lives.
    let database = Database::open(temporary.path().join(FILE)).unwrap();
    let transaction = database.begin_write().unwrap();
    let tables = transaction.list_tables().unwrap();
    let table = tables.into_iter().find(|table| redb::TableHandle::name(table) == "lives");
    assert!(transaction.delete_table(table.unwrap()).unwrap());
    transaction.commit().unwrap();
    drop(database);

    let mut engine = open(temporary.path());
    assert_eq!(lives(&mut engine), []);
    assert_eq!(leases(&mut engine).len(), 5);
    let writer = begin(&mut engine);
    let life = EpochLifetime { lasted_ms: 7, horizon_ms: 9 };
    submit(&mut engine, writer, Batch { number: 1, life, ..Batch::default() });
    engine.close().unwrap();
    assert_eq!(lives(&mut open(temporary.path())), [(writer, life)]);
}

/// A closed lease of a campaign's hour.
fn closed(slot: u32, hour: u32) -> (LeaseKey, Lease) {
    let key =
        LeaseKey { slot: CampaignIndex(slot), period: Period(4 * hour), node: 1, epoch: Epoch(1) };
    let nanos = Nanos::new(u64::from(hour % 24));
    (key, Lease { granted: nanos, settled: nanos, late: Nanos::new(1), ..Lease::default() })
}

/// The file's length after 10 and after 100 days.
fn lengths(is_folded: bool) -> (u64, u64) {
    let temporary = tempfile::tempdir().expect("there is room");
    let mut engine = open(temporary.path());
    let writer = begin(&mut engine);
    let of_day = |day: u32| {
        (0..24).flat_map(move |hour| (0..CAMPAIGNS).map(move |slot| closed(slot, day * 24 + hour)))
    };
    let length = || fs::metadata(temporary.path().join(FILE)).expect("it is there").len();
    let mut tenth = 0;
    for day in 1..=100 {
        let mut folds = Vec::new();
        if is_folded {
            folds.extend(of_day(day - 1).map(|(key, _)| Fold::Lease(key, day - 1)));
            let over = |slot| SumKey { slot: CampaignIndex(slot), node: 1, day: Some(day - 1) };
            folds.extend((0..CAMPAIGNS).map(|slot| Fold::Day(over(slot))));
        }
        let leases = of_day(day).collect();
        submit(
            &mut engine,
            writer,
            Batch { number: u64::from(day), leases, folds, ..Batch::default() },
        );
        if day == 10 {
            tenth = length();
        }
    }
    if is_folded {
        assert_eq!(leases(&mut engine).len(), 24 * 50);
        let sums = sums(&mut engine);
        let want = SpentSum {
            settled: Nanos::new(99 * 276),
            late: Nanos::new(99 * 24),
            ..SpentSum::default()
        };
        assert_eq!(sums.len(), 50);
        assert!(sums.iter().all(|(key, spent)| (key.day, *spent) == (None, want)), "{sums:?}");
    }
    (tenth, length())
}

#[test]
fn a_file_does_not_grow_with_the_days() {
    let (tenth, last) = lengths(true);
    assert!(last <= tenth, "{tenth} bytes, then {last}");
    let (tenth, last) = lengths(false);
    assert!(2 * tenth < last, "without folds it would: {tenth} bytes, then {last}");
}
