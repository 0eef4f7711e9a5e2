//! Hundreds of runs of a store, each ended at any call, by a loss of power or cleanly, on a faulty
//! disk: every committed batch is there, none half.

use std::collections::BTreeMap;

use faults::{Chance, DiskFaults, FaultDisk};
use pacer_core::messages::Epoch;
use pacer_core::store::{
    AuditEntry, Batch, CommitOutcome, DefinitionChange, DefinitionKey, DefinitionPut, QueryResult,
    StoreAnswer, StoreQuery, StoreRequest, StoreWriter, StoredDefinition, StoredKind, WriteKind,
    WriteOutcome,
};

use super::{ask, batch, disk, granted, key};
use crate::StoreOpenError;
use crate::store::engine::StoreEngine;

/// Leases that every batch sets to its number.
const SHARED: u32 = 40;
/// A lease that only one batch sets has this slot plus the number of the batch.
const OWN: u32 = 1_000;
const LIVES: u64 = 6;
const STEPS: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Maybe,
    Sure,
    Never,
}

#[derive(Default)]
struct Model {
    last: u64,
    epoch: u32,
    batches: BTreeMap<u64, Fate>,
    changes: BTreeMap<u64, Fate>,
    /// Counted, to prove that the test covers each.
    unknown: u64,
    committed: u64,
    ended: u64,
}

fn request(writer: StoreWriter, sent: WriteKind, number: u64) -> StoreRequest {
    let slot = OWN + u32::try_from(number).expect("few");
    match sent {
        WriteKind::Batch => {
            let mut batch: Batch = batch(number, SHARED);
            batch.leases.push((key(slot), granted(number)));
            StoreRequest::Submit(writer, batch)
        }
        WriteKind::Change => {
            let key = DefinitionKey { kind: StoredKind::Campaign, id: "a".to_owned() };
            let definition = StoredDefinition { version: number, body: vec![7; 3_000] };
            let audit = vec![AuditEntry { at_unix_ms: number, body: vec![8; 100] }];
            let puts = vec![DefinitionPut { key, expected: None, definition }];
            StoreRequest::Change(writer, DefinitionChange { number, puts, audit })
        }
    }
}

impl Model {
    fn fates(&mut self, sent: WriteKind) -> &mut BTreeMap<u64, Fate> {
        match sent {
            WriteKind::Batch => &mut self.batches,
            WriteKind::Change => &mut self.changes,
        }
    }

    /// A new request, or a repeated one.
    fn next(&mut self, chance: &mut Chance) -> (WriteKind, u64) {
        let sent = if chance.once_in(4) { WriteKind::Change } else { WriteKind::Batch };
        if self.last > 0 && chance.once_in(4) {
            let number = 1 + chance.below(self.last);
            if self.fates(sent).contains_key(&number) {
                return (sent, number);
            }
        }
        self.last += 1;
        (sent, self.last)
    }

    fn sends(&mut self, sent: WriteKind, number: u64) {
        let fate = self.fates(sent).entry(number).or_insert(Fate::Maybe);
        if *fate == Fate::Never {
            *fate = Fate::Maybe;
        }
    }

    fn hears(&mut self, answer: &StoreAnswer, first: bool) {
        let StoreAnswer::Ended(WriteOutcome { kind: sent, number, ended, .. }) = answer else {
            panic!("{answer:?}")
        };
        match ended {
            CommitOutcome::Committed => self.committed += 1,
            CommitOutcome::Unknown => self.unknown += 1,
            CommitOutcome::Refused => (),
        }
        let fate = self.fates(*sent).get_mut(number).expect("it was sent");
        match ended {
            CommitOutcome::Committed => *fate = Fate::Sure,
            // An earlier unknown outcome remains.
            CommitOutcome::Refused if first => *fate = Fate::Never,
            CommitOutcome::Refused | CommitOutcome::Unknown => (),
        }
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn found(engine: &mut StoreEngine<FaultDisk>, query: StoreQuery) -> Result<QueryResult, String> {
    match ask(engine, StoreRequest::Read(query)) {
        StoreAnswer::Read(Ok(found)) => Ok(found),
        answer => Err(format!("{answer:?}")),
    }
}

fn verify(engine: &mut StoreEngine<FaultDisk>, model: &mut Model) -> Result<(), String> {
    let QueryResult::Leases(leases) = found(engine, StoreQuery::Leases(None))? else {
        return Err("leases are something else".to_owned());
    };
    let leases: BTreeMap<_, _> =
        leases.into_iter().map(|(key, lease)| (key.slot.0, lease.granted.get())).collect();
    let shared = (0..SHARED).map(|slot| leases.get(&slot).copied().unwrap_or(0));
    let shared: Vec<_> = shared.collect();
    ensure(shared.iter().all(|value| *value == shared[0]), || format!("half a batch: {shared:?}"))?;
    let own = leases.iter().filter(|(slot, _)| **slot >= SHARED);
    let own: Vec<_> = own.map(|(slot, value)| (u64::from(slot - OWN), *value)).collect();
    let last = own.last().map_or(0, |(number, _)| *number);
    ensure(shared[0] == last, || format!("{} of batch {last}", shared[0]))?;
    for (number, value) in &own {
        ensure(number == value, || format!("batch {number} says {value}"))?;
    }
    let batches: Vec<_> = own.into_iter().map(|(number, _)| number).collect();
    agree("batch", &mut model.batches, &batches)?;

    let QueryResult::Audit(audit) = found(engine, StoreQuery::Audit(None, u32::MAX))? else {
        return Err("the audit is something else".to_owned());
    };
    let mut changes: Vec<_> = audit.iter().map(|(key, _)| key.number).collect();
    changes.sort_unstable();
    changes.dedup();
    let QueryResult::Definitions(definitions) =
        found(engine, StoreQuery::Definitions(StoredKind::Campaign))?
    else {
        return Err("definitions are something else".to_owned());
    };
    let definition = definitions.iter().find(|(key, _)| key.id == "a");
    let version = definition.map_or(0, |(_, definition)| definition.version);
    let latest = changes.last().copied().unwrap_or(0);
    ensure(version == latest, || format!("version {version} of change {latest}"))?;
    agree("change", &mut model.changes, &changes)
}

fn agree(what: &str, fates: &mut BTreeMap<u64, Fate>, there: &[u64]) -> Result<(), String> {
    for (number, fate) in fates {
        let is_there = there.contains(number);
        match fate {
            Fate::Sure => ensure(is_there, || format!("{what} {number} was committed"))?,
            Fate::Never => ensure(!is_there, || format!("{what} {number} was refused"))?,
            // What was read once stays.
            Fate::Maybe if is_there => *fate = Fate::Sure,
            Fate::Maybe => (),
        }
    }
    Ok(())
}

fn open(disk: &FaultDisk, chance: &mut Chance) -> Result<StoreEngine<FaultDisk>, String> {
    for attempt in 0.. {
        if attempt > 20 {
            disk.set_faults(DiskFaults::default());
        }
        match StoreEngine::open(disk.clone()) {
            Ok(engine) => return Ok(engine),
            Err(StoreOpenError::Disk { .. }) if attempt < 30 => end(disk, chance),
            Err(error) => return Err(error.to_string()),
        }
    }
    unreachable!("it opens or fails");
}

fn end(disk: &FaultDisk, chance: &mut Chance) {
    if chance.once_in(2) { disk.restart_process() } else { disk.lose_power() }
}

fn faults(chance: &mut Chance) -> DiskFaults {
    match chance.below(3) {
        0 => DiskFaults::default(),
        1 => DiskFaults { sync: 4 + chance.below(8), ..DiskFaults::default() },
        _ => DiskFaults {
            write: 30 + chance.below(100),
            sync: 8 + chance.below(20),
            other: 10 + chance.below(50),
        },
    }
}

fn run(seed: u64, model: &mut Model) -> Result<(), String> {
    match lives(seed, model) {
        // A disk that fails while a store is created, and then loses power, may leave only the
        // store's name: nothing was acknowledged.
        Err(what) if model.epoch == 0 && what.contains("(it is gone)") => Ok(()),
        run => run,
    }
}

fn lives(seed: u64, model: &mut Model) -> Result<(), String> {
    let disk = disk::empty(seed);
    let chance = &mut Chance::new(seed ^ 0x5EED);
    for _ in 0..LIVES {
        disk.set_faults(faults(chance));
        let mut engine = open(&disk, chance)?;
        if chance.once_in(2) {
            disk.stop_after(Some(1 + chance.below(150)));
        }
        live(&disk, &mut engine, model, chance)?;
        model.ended += 1;
        disk.stop_after(None);
        let is_checked = chance.once_in(2);
        if chance.once_in(4) {
            // Whether or not that fails, nothing committed may be lost.
            let _ended = engine.close();
            if chance.once_in(2) {
                end(&disk, chance);
            } else {
                disk.restart_process();
            }
        } else {
            end(&disk, chance);
            drop(engine);
        }
        if is_checked {
            disk.set_faults(DiskFaults::default());
            let mut engine = open(&disk, chance)?;
            verify(&mut engine, model)?;
            end(&disk, chance);
        }
    }
    disk.set_faults(DiskFaults::default());
    verify(&mut open(&disk, chance)?, model)
}

fn live(
    disk: &FaultDisk,
    engine: &mut StoreEngine<FaultDisk>,
    model: &mut Model,
    chance: &mut Chance,
) -> Result<(), String> {
    let Some(writer) = begin(disk, engine, model)? else { return Ok(()) };
    for _ in 0..STEPS {
        if chance.once_in(2) {
            engine.reopen();
        }
        let (mut group, mut first) = (Vec::new(), Vec::new());
        for _ in 0..=chance.below(3) {
            let (sent, number) = model.next(chance);
            let fate = model.fates(sent).get(&number).copied();
            let is_again = first.iter().any(|(of, _)| *of == (sent, number));
            first.push(((sent, number), !is_again && matches!(fate, None | Some(Fate::Never))));
            model.sends(sent, number);
            group.push(request(writer, sent, number));
        }
        let answers = engine.serve(&group);
        if disk.has_stopped() {
            return Ok(());
        }
        for (answer, (_, first)) in answers.iter().zip(first) {
            model.hears(answer, first);
        }
        if engine.failing().is_none() && chance.once_in(4) {
            verify(engine, model)?;
        }
    }
    Ok(())
}

fn begin(
    disk: &FaultDisk,
    engine: &mut StoreEngine<FaultDisk>,
    model: &mut Model,
) -> Result<Option<StoreWriter>, String> {
    for _ in 0..50 {
        let answer = ask(engine, StoreRequest::Begin(1, Epoch(1)));
        if disk.has_stopped() {
            break;
        }
        match answer {
            StoreAnswer::Begun { node, begun: Ok(begun) } => {
                let (last, epoch) = (model.epoch, begun.epoch);
                ensure(epoch.0 > last, || format!("epoch {} follows {last}", epoch.0))?;
                model.epoch = epoch.0;
                return Ok(Some(StoreWriter { node, epoch }));
            }
            _ => engine.reopen(),
        }
    }
    Ok(None)
}

/// Number of runs; the environment may raise it.
fn seeds() -> u64 {
    let more = std::env::var("LEDGER_STORE_SEEDS").ok();
    more.map_or(300, |seeds| seeds.parse().expect("LEDGER_STORE_SEEDS is a number"))
}

#[test]
fn every_committed_batch_is_there_and_none_half() {
    let mut all = Model::default();
    for seed in 0..seeds() {
        let mut model = Model::default();
        run(seed, &mut model).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        all.committed += model.committed;
        all.unknown += model.unknown;
        all.ended += model.ended;
    }
    assert!(all.committed > 5_000 && all.unknown > 500, "{} {}", all.committed, all.unknown);
    assert!(all.ended > seeds() * LIVES * 9 / 10, "{}", all.ended);
}
