//! Thousands of epochs of both lanes on disks that fail, lose, tear, fill and stop, with several
//! rings each. Acknowledged records are found at their acknowledged sequence. A ring's records are
//! in order, once each, and none is invented. Gaps count exactly the missing records. The lanes
//! recover without a restart. Planted bugs are caught.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{GAPS, OPTIONS, gap};
use crate::disk::SyncMeter;
use crate::disk::testing::{Chance, DiskFaults, FaultDisk};
use crate::lane::{
    BatchLimits, DurableRing, FirehoseRing, LaneEvent, LaneKind, LaneListener, LaneOptions,
    LaneSetup, LaneState, LaneTime, LogDriver, PushError, Retention, RetentionClaim,
};
use crate::{LogEntry, LogRecord, LogWriter};

const SEEDS: u64 = 1_000;
const LIVES: u64 = 4;
const RINGS: u32 = 3;

type Check = Result<(), String>;

/// A ring: its epoch and its number.
type Name = (u64, u32);

/// The records that a ring of the durable lane took.
#[derive(Default)]
struct Taken {
    /// By position, from 1.
    payloads: Vec<Vec<u8>>,
    /// Acknowledged sequences by position, from 1.
    sequences: Vec<u64>,
    /// Last position that was acknowledged.
    acknowledged: usize,
}

/// The records offered to a ring of the firehose.
#[derive(Default)]
struct Offered {
    records: u64,
    /// Whether every record is in the log or counted by a gap.
    settled: bool,
}

/// The model of the lanes, kept outside of the disks.
#[derive(Default)]
struct Model {
    taken: BTreeMap<Name, Taken>,
    offered: BTreeMap<Name, Offered>,
    /// Durable records below this sequence may be removed.
    keep_from: u64,
    /// Whether old segments of the firehose are removed.
    forgets: bool,
}

fn payload((life, ring): Name, serial: u64, length: usize) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend(life.to_le_bytes());
    payload.extend(ring.to_le_bytes());
    payload.extend(serial.to_le_bytes());
    let filler = (serial..).map(|number| number.to_le_bytes()[0]);
    payload.extend(filler.take(length));
    payload
}

fn number<const N: usize>(payload: &[u8], at: usize) -> Result<[u8; N], String> {
    let bytes = payload.get(at..).and_then(<[u8]>::first_chunk);
    bytes.copied().ok_or_else(|| format!("a record of {} bytes", payload.len()))
}

/// The ring and number of a record.
fn parse(payload: &[u8]) -> Result<(Name, u64), String> {
    let life = u64::from_le_bytes(number(payload, 0)?);
    let ring = u32::from_le_bytes(number(payload, 8)?);
    Ok(((life, ring), u64::from_le_bytes(number(payload, 12)?)))
}

impl Model {
    fn durable_found(&self, records: &[LogRecord]) -> Check {
        let found: BTreeMap<_, _> =
            records.iter().map(|record| (record.sequence, &record.payload)).collect();
        for (name, taken) in &self.taken {
            for (told, payload) in taken.sequences.iter().zip(&taken.payloads) {
                if *told >= self.keep_from && found.get(told) != Some(&payload) {
                    return Err(format!("{name:?}: acknowledged record {told} is lost"));
                }
            }
            for payload in &taken.payloads[taken.sequences.len()..taken.acknowledged] {
                if !records.iter().any(|record| record.payload == *payload) {
                    return Err(format!("{name:?}: an acknowledged record is lost"));
                }
            }
        }
        // If the oldest records may be removed, any record may come first.
        let mut last = BTreeMap::<Name, u64>::new();
        for record in records {
            let (name, position) = parse(&record.payload)?;
            let index = position.checked_sub(1).and_then(|index| usize::try_from(index).ok());
            let taken = self.taken.get(&name).zip(index);
            let taken = taken.and_then(|(taken, index)| taken.payloads.get(index));
            if taken != Some(&record.payload) {
                return Err(format!("{name:?}: record {position} was never taken"));
            }
            let first = if self.keep_from == 0 { 1 } else { position };
            let want = last.get(&name).map_or(first, |last| last + 1);
            if position != want {
                return Err(format!("{name:?}: record {position} where {want} should be"));
            }
            last.insert(name, position);
        }
        Ok(())
    }

    fn firehose_found(&self, records: &[LogRecord]) -> Check {
        // The next record of each ring. None if its oldest records may be removed.
        let mut next = BTreeMap::<Name, u64>::new();
        for record in records {
            if record.kind == GAPS.kind {
                let gap = gap(&record.payload);
                // An epoch's number is its time.
                let name = (record.time_ms, gap.shard);
                let first = (!self.forgets).then_some(1);
                if let Some(next) = next.get(&name).copied().or(first) {
                    self.fits(name, next, next + gap.lost)?;
                }
                next.entry(name).and_modify(|next| *next += gap.lost);
                if let Some(first) = first {
                    next.entry(name).or_insert(first + gap.lost);
                }
                continue;
            }
            let (name, serial) = parse(&record.payload)?;
            let first = if self.forgets { serial } else { 1 };
            let want = next.get(&name).copied().unwrap_or(first);
            if serial != want {
                return Err(format!("{name:?}: offered record {serial} where {want} should be"));
            }
            self.fits(name, serial, serial + 1)?;
            if record.payload != payload(name, serial, record.payload.len() - 20) {
                return Err(format!("{name:?}: record {serial} is another"));
            }
            next.insert(name, serial + 1);
        }
        for (name, offered) in self.offered.iter().filter(|(_, offered)| offered.settled) {
            let first = if self.forgets { None } else { Some(1) };
            if let Some(next) = next.get(name).copied().or(first)
                && next != offered.records + 1
            {
                let records = offered.records;
                return Err(format!("{name:?}: {records} were offered, {next} comes next"));
            }
        }
        Ok(())
    }

    fn fits(&self, name: Name, from: u64, to: u64) -> Check {
        let offered = self.offered.get(&name).map_or(0, |offered| offered.records);
        if to > offered + 1 {
            return Err(format!("{name:?}: {from} to {to} of {offered}"));
        }
        Ok(())
    }
}

/// One epoch of the log, with its rings.
struct Life {
    number: u64,
    driver: LogDriver<FaultDisk>,
    claim: RetentionClaim,
    durable: Vec<DurableRing>,
    firehose: Vec<FirehoseRing>,
    told: Arc<Mutex<Vec<(u32, LaneEvent)>>>,
    now: LaneTime,
}

impl Life {
    fn begin(number: u64, setups: [LaneSetup<FaultDisk>; 2], chance: &mut Chance) -> Self {
        let [durable, firehose] = setups;
        let mut driver = LogDriver::new(durable, firehose, GAPS, Box::new(|_, _| ()));
        let claim = driver.lane(LaneKind::Durable).protect();
        let told = Arc::<Mutex<Vec<(u32, LaneEvent)>>>::default();
        let hear = |ring: u32| -> LaneListener {
            let told = Arc::clone(&told);
            Box::new(move |what| told.lock().expect("nobody panicked").push((ring, what)))
        };
        let mut bytes = || 256 + chance.index(1_500);
        let durable =
            (0..RINGS).map(|ring| driver.durable_ring(bytes(), Some(hear(ring)))).collect();
        let firehose = (0..RINGS).map(|ring| driver.firehose_ring(ring, bytes())).collect();
        let now = LaneTime { tick: Duration::from_secs(1), unix_ms: number };
        Self { number, driver, claim, durable, firehose, told, now }
    }

    /// Shards offer and push records.
    fn hand_over(&mut self, model: &mut Model, chance: &mut Chance) -> Check {
        for _ in 0..chance.below(12) {
            let ring = chance.index(self.durable.len());
            let name = (self.number, u32::try_from(ring).expect("few"));
            let length = if chance.once_in(20) { chance.index(2_500) } else { chance.index(120) };
            if chance.once_in(2) {
                let end = &mut self.durable[ring];
                let taken = model.taken.entry(name).or_default();
                let payload = payload(name, taken.payloads.len() as u64 + 1, length);
                let state = end.state();
                match end.push(1, self.now.unix_ms, &payload) {
                    Ok(position) => {
                        taken.payloads.push(payload);
                        if position.0 != taken.payloads.len() as u64 || end.is_durable(position) {
                            return Err(format!("{name:?}: {position:?} is not durable"));
                        }
                        if matches!(state, LaneState::Failing { .. }) {
                            return Err(format!("{name:?}: taken while {state:?}"));
                        }
                    }
                    Err(PushError::Full) if end.state() == LaneState::Full => (),
                    Err(PushError::Failing { .. })
                        if matches!(state, LaneState::Failing { .. }) => {}
                    Err(PushError::TooLong { max, .. }) if payload.len() > max => (),
                    Err(refused) => return Err(format!("{name:?}: {refused} while {state:?}")),
                }
            } else {
                let offered = model.offered.entry(name).or_default();
                offered.records += 1;
                let payload = payload(name, offered.records, length);
                self.firehose[ring].offer(1, self.now.unix_ms, &payload);
            }
        }
        Ok(())
    }

    /// Steps the driver and collects the acknowledgements.
    fn step(&mut self, model: &mut Model, passed: Duration) -> Check {
        self.now.tick += passed;
        self.driver.step(self.now);
        for (ring, told) in std::mem::take(&mut *self.told.lock().expect("nobody panicked")) {
            let LaneEvent::Durable { through, records, sequence } = told else { continue };
            let taken = model.taken.entry((self.number, ring)).or_default();
            taken.sequences.extend(sequence + 1 - records..=sequence);
            if taken.sequences.len() as u64 != through.0 {
                return Err(format!("{ring}: {through:?} after {}", taken.sequences.len()));
            }
        }
        for (ring, end) in (0..).zip(&self.durable) {
            let taken = model.taken.entry((self.number, ring)).or_default();
            let durable = usize::try_from(end.durable().0).expect("few");
            if durable < taken.sequences.len() || durable > taken.payloads.len() {
                return Err(format!("{ring}: {durable} durable of {}", taken.payloads.len()));
            }
            taken.acknowledged = taken.acknowledged.max(durable);
        }
        Ok(())
    }

    /// The faults end. Soon everything is written, without a restart.
    fn heal(&mut self, model: &mut Model) -> Check {
        for _ in 0..60 {
            self.step(model, Duration::from_millis(500))?;
        }
        if !self.driver.is_drained() {
            return Err(format!("nothing fails, and {:?} is left", self.driver.unfinished()));
        }
        for kind in [LaneKind::Durable, LaneKind::Firehose] {
            let state = self.driver.lane(kind).state();
            if state != LaneState::Writing {
                return Err(format!("nothing fails, and {} is {state:?}", kind.name()));
            }
        }
        for ring in 0..RINGS {
            let taken = model.taken.entry((self.number, ring)).or_default();
            if taken.sequences.len() != taken.payloads.len() {
                return Err(format!("{ring}: settled, and not acknowledged"));
            }
            model.offered.entry((self.number, ring)).or_default().settled = true;
        }
        self.counted(model)
    }

    /// The counters match the model.
    fn counted(&self, model: &Model) -> Check {
        let sum = |count: fn(&Taken) -> usize| {
            let own = model.taken.range((self.number, 0)..=(self.number, u32::MAX));
            own.map(|(_, taken)| count(taken) as u64).sum::<u64>()
        };
        let durable = self.driver.lane(LaneKind::Durable).counters();
        if durable.records != sum(|taken| taken.payloads.len()) || durable.gaps > 0 {
            return Err(format!("{durable:?}"));
        }
        let firehose = self.driver.lane(LaneKind::Firehose).counters();
        let offered: u64 = model
            .offered
            .range((self.number, 0)..=(self.number, u32::MAX))
            .map(|(_, offered)| offered.records)
            .sum();
        let shed: u64 = self.firehose.iter().map(FirehoseRing::shed).sum();
        if firehose.records + firehose.lost != offered
            || firehose.shed != shed
            || firehose.lost < shed
        {
            return Err(format!("{firehose:?} of {offered}"));
        }
        Ok(())
    }
}

fn options(chance: &mut Chance, forgets: bool) -> LaneOptions {
    let mut pace = |after: u64| BatchLimits {
        after: Duration::from_millis(chance.below(after)),
        bytes: 1 + chance.index(3_000),
    };
    let (gather, commit) = (pace(10), pace(60));
    let retention = Retention {
        bytes_max: forgets.then_some(3_000),
        every: Duration::from_millis(chance.below(30)),
        ..Retention::ALL
    };
    LaneOptions { gather, commit, retention, ..OPTIONS }
}

fn open(
    disk: &FaultDisk,
    options: LaneOptions,
) -> Result<(LaneSetup<FaultDisk>, Vec<LogRecord>), String> {
    let mut records = Vec::new();
    let mut problem = None;
    let opened = LogWriter::open(disk.clone(), options.writer, |item| match item {
        LogEntry::Record(record) => records.push(record),
        LogEntry::Torn(_) => (),
        LogEntry::Corruption(corruption) => problem = Some(format!("no rot, yet {corruption}")),
    });
    let (writer, _) = opened.map_err(|error| error.to_string())?;
    match problem {
        Some(problem) => Err(problem),
        None => Ok((LaneSetup { writer, options, meter: SyncMeter::default().into() }, records)),
    }
}

fn make_worse(disk: &FaultDisk, chance: &mut Chance) {
    let faulty = chance.once_in(2);
    let rate = |chance: &mut Chance| if faulty { 2 + chance.below(12) } else { 0 };
    let (write, sync, other) = (rate(chance), rate(chance), rate(chance));
    disk.set_faults(DiskFaults { write, sync, other });
    if chance.once_in(4) {
        disk.set_space(Some(chance.index(12_000)));
    }
}

fn make_well(disk: &FaultDisk) {
    disk.set_faults(DiskFaults::default());
    disk.set_space(None);
}

/// One log over several epochs.
fn run(seed: u64) -> Check {
    let mut chance = Chance::new(!seed);
    let disks = [FaultDisk::new(seed), FaultDisk::new(seed.rotate_left(32) ^ 1)];
    let forgets = chance.once_in(3);
    let mut model = Model { forgets, ..Model::default() };
    for number in 1..=LIVES {
        disks.iter().for_each(make_well);
        let (durable, found) = open(&disks[0], options(&mut chance, true))?;
        model.durable_found(&found)?;
        let (firehose, found) = open(&disks[1], options(&mut chance, forgets))?;
        model.firehose_found(&found)?;
        let mut life = Life::begin(number, [durable, firehose], &mut chance);
        disks.iter().for_each(|disk| make_worse(disk, &mut chance));
        disks[chance.index(2)].stop_after(Some(1 + chance.below(120)));
        let stopped = || disks.iter().any(FaultDisk::has_stopped);
        for _ in 0..40 {
            if chance.once_in(30) {
                disks.iter().for_each(make_well);
            }
            if chance.once_in(20) {
                let lane = life.driver.lane(LaneKind::Durable);
                model.keep_from = model.keep_from.max(lane.sequence().saturating_sub(5));
                life.claim.keep_from(model.keep_from);
            }
            life.hand_over(&mut model, &mut chance)?;
            life.step(&mut model, Duration::from_millis(chance.below(12)))?;
            if stopped() {
                break;
            }
        }
        if !stopped() && chance.once_in(2) {
            disks.iter().for_each(make_well);
            disks.iter().for_each(|disk| disk.stop_after(None));
            life.heal(&mut model)?;
        }
        drop(life);
        let restart = chance.once_in(3);
        let end = if restart { FaultDisk::restart_process } else { FaultDisk::lose_power };
        disks.iter().for_each(end);
    }
    disks.iter().for_each(make_well);
    let (_, found) = open(&disks[0], OPTIONS)?;
    model.durable_found(&found)?;
    let (_, found) = open(&disks[1], OPTIONS)?;
    model.firehose_found(&found)
}

/// The first seed with a violation.
fn search() -> Option<(u64, String)> {
    (0..SEEDS).find_map(|seed| run(seed).err().map(|problem| (seed, problem)))
}

#[test]
fn what_rings_were_told_is_found_and_gaps_are_exact() {
    assert_eq!(search(), None);
}
