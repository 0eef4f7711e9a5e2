//! Holds in the file: they outlive the process, and files from before there were any are upgraded.

use std::path::Path;
use std::sync::Arc;

use pacer_core::calendar::Period;
use pacer_core::store::{
    AttemptNumber, Batch, ChargeKey, CommitOutcome, HoldName, HoldState, QueryResult, StoreAnswer,
    StoreQuery, StoreRequest, StoredHold, StoredHoldKey,
};
use redb::{Database, TableDefinition};
use units::Nanos;

use super::{ask, batch, begin, ended, leases};
use crate::store::directory::DiskDirectory;
use crate::store::engine::StoreEngine;

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

fn open(directory: &Path) -> StoreEngine<DiskDirectory> {
    StoreEngine::open(DiskDirectory::new(directory).expect("it is there")).expect("it opens")
}

fn hold(bid: u32, state: HoldState) -> (StoredHoldKey, StoredHold) {
    let hold = StoredHold {
        attempt: AttemptNumber { epoch: u64::MAX, counter: 2 },
        account: Arc::from("acme"),
        amount: Nanos::new(u64::MAX),
        period: Period(u32::MAX),
        day: u32::MAX,
        state,
    };
    (StoredHoldKey { node: 1, name: HoldName { lot: Arc::from("lot"), bid } }, hold)
}

fn read(engine: &mut StoreEngine<DiskDirectory>, query: StoreQuery) -> QueryResult {
    let answer = ask(engine, StoreRequest::Read(query));
    let StoreAnswer::Read(Ok(found)) = answer else { panic!("{answer:?}") };
    found
}

#[test]
fn every_state_is_read_as_it_was_written_and_charges_fold() {
    let temporary = tempfile::tempdir().unwrap();
    let mut engine = open(temporary.path());
    let writer = begin(&mut engine);
    let all = vec![
        hold(1, HoldState::Standing),
        hold(2, HoldState::Released),
        hold(u32::MAX, HoldState::Charged(Nanos::new(7))),
    ];
    let sent = Batch { number: 1, holds: all.clone(), ..Batch::default() };
    let answer = ask(&mut engine, StoreRequest::Submit(writer, sent));
    assert_eq!(ended(&answer), CommitOutcome::Committed, "{answer:?}");
    engine.close().unwrap();
    let mut engine = open(temporary.path());
    assert_eq!(read(&mut engine, StoreQuery::Holds(Some(1))), QueryResult::Holds(all.clone()));
    assert_eq!(read(&mut engine, StoreQuery::Holds(Some(2))), QueryResult::Holds(Vec::new()));

    let writer = begin(&mut engine);
    let hold_folds = vec![all[1].0.clone(), all[2].0.clone()];
    let sent = Batch { number: 1, hold_folds, ..Batch::default() };
    let answer = ask(&mut engine, StoreRequest::Submit(writer, sent));
    assert_eq!(ended(&answer), CommitOutcome::Committed, "{answer:?}");
    engine.close().unwrap();
    let mut engine = open(temporary.path());
    let rest = QueryResult::Holds(vec![all[0].clone()]);
    assert_eq!(read(&mut engine, StoreQuery::Holds(None)), rest);
    let sum = (ChargeKey { node: 1, account: Arc::from("acme") }, Nanos::new(7));
    assert_eq!(read(&mut engine, StoreQuery::Charges(None)), QueryResult::Charges(vec![sum]));
}

#[test]
fn a_file_of_the_second_format_is_upgraded() {
    let temporary = tempfile::tempdir().unwrap();
    let mut engine = open(temporary.path());
    let writer = begin(&mut engine);
    let answer = ask(&mut engine, StoreRequest::Submit(writer, batch(3, 5)));
    assert_eq!(ended(&answer), CommitOutcome::Committed, "{answer:?}");
    engine.close().unwrap();
    // Format 2 had no such tables.
    let database = Database::open(temporary.path().join("ledger.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(META).unwrap().insert("format", 2).unwrap();
    for name in ["holds", "charges"] {
        let tables = transaction.list_tables().unwrap();
        let table = tables.into_iter().find(|table| redb::TableHandle::name(table) == name);
        assert!(transaction.delete_table(table.unwrap()).unwrap());
    }
    transaction.commit().unwrap();
    drop(database);

    let mut engine = open(temporary.path());
    assert_eq!(read(&mut engine, StoreQuery::Holds(None)), QueryResult::Holds(Vec::new()));
    assert_eq!(read(&mut engine, StoreQuery::Charges(None)), QueryResult::Charges(Vec::new()));
    assert_eq!(leases(&mut engine).len(), 5);
    let writer = begin(&mut engine);
    let sent = Batch { number: 1, holds: vec![hold(1, HoldState::Standing)], ..Batch::default() };
    let answer = ask(&mut engine, StoreRequest::Submit(writer, sent));
    assert_eq!(ended(&answer), CommitOutcome::Committed, "{answer:?}");
}
