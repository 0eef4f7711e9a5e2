//! The simulated world: the log's disk, DSPs, callers of beacons, the ledger of settlements, and a
//! referee that remembers across restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use eventlog::disk::testing::{Chance, DiskFaults, FaultDisk};
use eventlog::lane::{LaneEvent, NextStep};
use units::Tick;

use super::books::Books;
use super::log::SharedLog;
use crate::delivery::tests::fixtures::{START_MS, reservation};
use crate::delivery::*;
use crate::notices::reservation::Reservation;
use crate::notices::token::TokenId;
use openrtb::NoticeKind;

const DSPS: [&str; 4] = ["moody", "sick", "ill", "well"];
const WELL: &str = "well";
/// Answer time of a healthy DSP.
const LATENCY: Duration = Duration::from_millis(500);
/// From acknowledgement to the first try at a healthy DSP: others may have all calls until the
/// first times out, and two steps are up to 1.5 s apart.
const DELAY_MAX: Duration = Duration::from_secs(8);
/// Steps at the end, after everything has recovered.
const RECOVERY_STEPS: u64 = 20_000;

type Check = Result<(), String>;
type Booking = (u64, Reservation);

fn policy() -> DeliveryPolicy {
    DeliveryPolicy {
        billing_max_per_dsp: 12,
        billing_max: 40,
        best_effort_max_per_dsp: 4,
        best_effort_max: 10,
        remembered_max: 300,
        in_flight_per_dsp: 3,
        in_flight_max: 5,
        answer_timeout: Duration::from_secs(5),
        journal_span: 80,
        checkpoint_span: 20,
        ..DeliveryPolicy::default()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Answers,
    Fails,
    Hangs,
}

/// Knowledge that survives the process.
#[derive(Default)]
struct Referee {
    expires_ms: BTreeMap<u8, u64>,
    acknowledged: BTreeSet<u8>,
    /// Beacons with a call that was acknowledged as the first.
    first: BTreeSet<u8>,
    /// Beacons whose acceptance is durable.
    durable: BTreeSet<u8>,
    delivered: BTreeMap<u8, u32>,
    /// Beacons whose success is recorded, or known to the current process.
    over: BTreeSet<u8>,
    over_on_record: BTreeSet<u8>,
}

pub struct World {
    chance: Chance,
    disk: FaultDisk,
    elapsed: Duration,
    life: Option<Life>,
    health: [Health; DSPS.len()],
    referee: Referee,
    books: Books,
    recovering: bool,
    /// Few beacons with short lifetimes: often only pending records are needed.
    quiet: bool,
    beacons: u8,
}

struct Life {
    delivery: Delivery,
    log: SharedLog,
    handed: TicketQueue,
    inbox: Vec<Event>,
    /// Answers under way, by time of arrival.
    answers: Vec<(Duration, Attempt, SendOutcome)>,
    calls: BTreeMap<u64, u8>,
    serial: u64,
    tries: BTreeMap<Attempt, u8>,
    /// Acknowledged for the healthy DSP, and not tried yet.
    fresh: BTreeMap<u8, Duration>,
    /// Notices owed at the start, possibly beyond the limits.
    owed_before: usize,
}

fn number(url: &str) -> Option<u8> {
    url.rsplit_once("id=")?.1.parse().ok()
}

fn token(number: u8) -> TokenId {
    TokenId([number; TokenId::BYTES])
}

fn dsp_of(number: u8) -> usize {
    usize::from(number) % DSPS.len()
}

fn is_told(number: u8) -> bool {
    number / 4 % 4 != 1
}

fn is_paid(number: u8) -> bool {
    !(number / 4).is_multiple_of(4)
}

impl World {
    pub fn run(seed: u64) -> Check {
        let mut world = Self {
            chance: Chance::new(seed),
            disk: FaultDisk::new(!seed),
            elapsed: Duration::ZERO,
            life: None,
            health: [Health::Answers; DSPS.len()],
            referee: Referee::default(),
            books: Books::default(),
            recovering: false,
            quiet: seed.is_multiple_of(2),
            beacons: 0,
        };
        for _ in 0..250 {
            world.stir();
            world.step()?;
        }
        world.recover()
    }

    fn now(&self) -> DeliveryTime {
        let elapsed_ms = u64::try_from(self.elapsed.as_millis()).expect("a short history");
        DeliveryTime { tick: Tick::ZERO.after(self.elapsed), unix_ms: START_MS + elapsed_ms }
    }

    fn stir(&mut self) {
        self.elapsed += Duration::from_millis(self.chance.below(1_500));
        if self.chance.once_in(12) {
            let dsp = self.chance.index(DSPS.len() - 1);
            let healths = [Health::Answers, Health::Fails, Health::Hangs];
            self.health[dsp] = healths[self.chance.index(3)];
        }
        if self.chance.once_in(20) {
            let faulty = self.chance.once_in(3);
            let rate = if faulty { 3 } else { 0 };
            self.disk.set_faults(DiskFaults { write: rate, sync: rate, other: rate });
        }
        if self.chance.once_in(30) {
            self.disk.stop_after(Some(1 + self.chance.below(12)));
        }
        let beacons = if self.quiet && !self.chance.once_in(8) { 1 } else { 4 };
        for _ in 0..self.chance.below(beacons) {
            self.call_beacon();
        }
        if self.chance.once_in(3) {
            self.submit();
        }
    }

    fn call_beacon(&mut self) {
        let unix_ms = self.now().unix_ms;
        let again = self.chance.once_in(3) && self.beacons > 0;
        let number = if again || self.beacons == 200 {
            u8::try_from(self.chance.index(usize::from(self.beacons))).expect("below 200")
        } else {
            self.beacons += 1;
            self.beacons - 1
        };
        let lasts_ms = if self.quiet { 3_000 } else { 20_000 + self.chance.below(400_000) };
        let expires_ms = *self.referee.expires_ms.entry(number).or_insert(unix_ms + lasts_ms);
        let Some(life) = &mut self.life else { return };
        life.serial += 1;
        let call = life.serial;
        life.calls.insert(call, number);
        let dsp = DSPS[dsp_of(number)];
        let url = format!("https://{dsp}.example/?id={number}");
        let notice = Notice::new(dsp.into(), url, ForwardedDevice::default()).expect("a notice");
        let notice = Some(notice).filter(|_| is_told(number));
        let (id, reservation) = (token(number), is_paid(number).then(|| reservation(number)));
        let beacon = Beacon { call, id, expires_ms, notice, reservation };
        life.inbox.push(Event::Beacon(Box::new(beacon)));
    }

    fn submit(&mut self) {
        let dsp = DSPS[self.chance.index(DSPS.len())];
        let url = format!("https://{dsp}.example/win");
        let notice = Notice::new(dsp.into(), url, ForwardedDevice::default()).expect("a notice");
        if let Some(life) = &mut self.life {
            life.inbox.push(Event::Submit { kind: BestEffort::Win, notice });
        }
    }

    fn start(&mut self) -> Check {
        let now = self.now();
        let Some(log) = SharedLog::open(&self.disk) else {
            self.end();
            return Ok(());
        };
        let needed_from = SharedLog::needed_from(&self.disk).map_err(|error| error.to_string())?;
        let from = JournalReplay::begins_at(needed_from, self.books.applied_sequence());
        let (delivery, settled) = self.replayed(from, now)?;
        self.books.restart();
        for (sequence, reservation) in settled {
            self.books.replayed(sequence, reservation)?;
        }
        self.books.reached(log.sequence())?;
        // A start from the checkpoint equals a start from the whole log.
        let (whole, _) = self.replayed(0, now)?;
        let about = |delivery: &Delivery| {
            let owed: BTreeSet<_> = delivery.jobs.values().filter_map(|job| job.id).collect();
            (owed, delivery.counters().remembered)
        };
        if about(&delivery) != about(&whole) {
            return Err(format!("records before {from} are needed"));
        }
        self.referee_reads()?;
        let owed_before = delivery.counters().billing_owed;
        self.life = Some(Life {
            delivery,
            log,
            handed: TicketQueue::default(),
            inbox: Vec::new(),
            answers: Vec::new(),
            calls: BTreeMap::new(),
            serial: 0,
            tries: BTreeMap::new(),
            fresh: BTreeMap::new(),
            owed_before,
        });
        Ok(())
    }

    /// Delivery as replayed from `sequence` on, and the settlements of its records.
    fn replayed(
        &self,
        sequence: u64,
        now: DeliveryTime,
    ) -> Result<(Delivery, Vec<Booking>), String> {
        let (mut replay, mut settled) = (JournalReplay::new(policy(), now.unix_ms), Vec::new());
        SharedLog::read(&self.disk, sequence, |sequence, bytes| {
            let found = replay.record(sequence, bytes).map_err(|error| error.to_string())?;
            settled.extend(found.map(|reservation| (sequence, reservation)));
            Ok(())
        })?;
        Ok((replay.finish(now), settled))
    }

    /// What a start finds on disk is durable, reported or not.
    fn referee_reads(&mut self) -> Check {
        let referee = &mut self.referee;
        SharedLog::read(&self.disk, 0, |_, bytes| {
            let record = JournalRecord::decode(bytes).map_err(|error| error.to_string())?;
            referee.is_durable(&record);
            Ok(())
        })?;
        referee.over = referee.over_on_record.clone();
        Ok(())
    }

    /// Ends the process, cleanly or not, and sometimes the machine.
    fn end(&mut self) {
        if let Some(life) = self.life.take()
            && self.chance.once_in(3)
        {
            let (durable, _left) = life.log.close(self.now(), self.elapsed);
            durable.iter().for_each(|record| self.referee.is_durable(record));
        }
        if self.chance.once_in(2) {
            self.disk.restart_process();
        } else {
            self.disk.lose_power();
        }
        if self.recovering {
            self.disk.set_faults(DiskFaults::default());
        }
    }

    fn step(&mut self) -> Check {
        if self.life.is_none() {
            self.start()?;
        }
        let Some(mut life) = self.life.take() else { return Ok(()) };
        self.log_steps(&mut life);
        let elapsed = self.elapsed;
        for (_, attempt, outcome) in life.answers.extract_if(.., |answer| answer.0 <= elapsed) {
            life.inbox.push(Event::Sent { attempt, outcome });
        }
        life.inbox.push(Event::JournalReached(life.log.sequence()));
        if self.recovering || !self.chance.once_in(3) {
            for told in life.log.hear() {
                life.inbox.push(match told {
                    LaneEvent::Durable { through, sequence, .. } => {
                        Event::JournalCommitted(life.handed.durable(through.0, sequence))
                    }
                    LaneEvent::Failing { .. } => Event::JournalFailing,
                    LaneEvent::Writing => Event::JournalWriting,
                });
            }
        }
        self.referee_hears(&life);
        while {
            let now = self.now();
            let mut outbox = Vec::new();
            life.delivery.step(now, &mut life.inbox, &mut outbox);
            self.check_bounds(&life)?;
            self.act(&mut life, outbox)?;
            !life.inbox.is_empty()
        } {}
        if life.log.is_failing() && life.log.is_heard() && !life.calls.is_empty() {
            return Err(format!("{} calls wait for a log that fails", life.calls.len()));
        }
        self.check_delays(&life)?;
        self.books.reached(life.delivery.settled_through())?;
        if self.recovering || self.chance.once_in(5) {
            self.books.save();
        }
        life.log.keep_from(life.delivery.keep_from(self.books.applied_sequence()));
        self.life = Some(life);
        if self.disk.has_stopped() {
            self.end();
        }
        Ok(())
    }

    /// Others append records, and the log thread runs.
    fn log_steps(&mut self, life: &mut Life) {
        let (now, elapsed) = (self.now(), self.elapsed);
        let turns = if self.recovering { 1 } else { self.chance.below(4) };
        for _ in 0..turns {
            for _ in 0..if self.recovering { 0 } else { self.chance.below(3) } {
                life.log.push_other(now, self.chance.index(60));
            }
            for record in life.log.step(now, elapsed) {
                self.referee.is_durable(&record);
            }
        }
    }

    /// Notes successes that delivery is about to learn.
    fn referee_hears(&mut self, life: &Life) {
        for event in &life.inbox {
            if let Event::Sent { attempt, outcome: SendOutcome::Status(200) } = event
                && life.delivery.flights.contains_key(attempt)
                && let Some(number) = life.tries.get(attempt)
            {
                self.referee.over.insert(*number);
            }
        }
    }

    fn act(&mut self, life: &mut Life, outbox: Vec<Effect>) -> Check {
        let now = self.now();
        for effect in outbox {
            match effect {
                Effect::Journal { ticket, record } => match life.log.push(now, &record) {
                    Ok(position) => life.handed.push(position, ticket),
                    Err(_) => life.inbox.push(Event::JournalRefused(vec![ticket])),
                },
                Effect::Send { attempt, kind, notice } => {
                    self.send(life, attempt, kind, &notice)?;
                }
                Effect::Settled { sequence, reservation } => {
                    let number = reservation.token.to_bytes()[0];
                    if !self.referee.durable.contains(&number) {
                        return Err(format!("beacon {number} is settled before it is durable"));
                    }
                    self.books.settled(sequence, reservation)?;
                }
                Effect::Acknowledge { call, duplicate } => {
                    self.acknowledged(life, (call, duplicate))?;
                }
                Effect::Refuse { call, .. } => drop(life.calls.remove(&call)),
                Effect::GiveUp { notice, .. } => {
                    return Err(format!("{} is given up", notice.url()));
                }
            }
        }
        Ok(())
    }

    fn acknowledged(&mut self, life: &mut Life, (call, duplicate): (u64, bool)) -> Check {
        let number = life.calls.remove(&call).ok_or("a call is answered once")?;
        if !self.referee.durable.contains(&number) {
            return Err(format!("beacon {number} is acknowledged before it is durable"));
        }
        self.referee.acknowledged.insert(number);
        if !duplicate && !self.referee.first.insert(number) {
            return Err(format!("beacon {number} is the first once more"));
        }
        // A refused beacon may have been accepted and tried since.
        let is_tried = life.tries.values().any(|tried| *tried == number);
        let is_owed = !is_tried && is_told(number);
        if !duplicate && is_owed && DSPS[dsp_of(number)] == WELL {
            life.fresh.insert(number, self.elapsed);
        }
        Ok(())
    }

    fn send(
        &mut self,
        life: &mut Life,
        attempt: Attempt,
        kind: NoticeKind,
        notice: &Notice,
    ) -> Check {
        let dsp = DSPS.iter().position(|dsp| **dsp == **notice.dsp()).ok_or("a known DSP")?;
        let health = self.health[dsp];
        if kind == NoticeKind::Billing {
            let number = number(notice.url()).ok_or("a billing notice has its number")?;
            if !self.referee.durable.contains(&number) {
                return Err(format!("notice {number} is sent before it is durable"));
            }
            if self.referee.over.contains(&number) {
                return Err(format!("notice {number} is sent after it was delivered"));
            }
            life.fresh.remove(&number);
            life.tries.insert(attempt, number);
            if health == Health::Answers {
                *self.referee.delivered.entry(number).or_default() += 1;
            }
        }
        let outcome = match health {
            Health::Answers => SendOutcome::Status(200),
            Health::Fails => SendOutcome::Status(500),
            Health::Hangs => return Ok(()),
        };
        life.answers.push((self.elapsed + LATENCY, attempt, outcome));
        Ok(())
    }

    fn check_bounds(&self, life: &Life) -> Check {
        let (policy, counters) = (policy(), life.delivery.counters());
        let lanes = life.delivery.lanes().all(|lane| {
            lane.billing_owed <= policy.billing_max_per_dsp.max(life.owed_before)
                && lane.in_flight <= policy.in_flight_per_dsp
        });
        let fits = counters.billing_owed <= policy.billing_max.max(life.owed_before)
            && counters.best_effort_waiting <= policy.best_effort_max
            && counters.in_flight <= policy.in_flight_max
            && counters.remembered <= policy.remembered_max;
        if lanes && fits { Ok(()) } else { Err(format!("beyond a limit: {counters:?}")) }
    }

    /// Failing DSPs must not delay a healthy one.
    fn check_delays(&self, life: &Life) -> Check {
        let late = life.fresh.iter().find(|(_, since)| self.elapsed > **since + DELAY_MAX);
        match late {
            Some((number, _)) => Err(format!("notice {number} to {WELL} is not tried")),
            None => Ok(()),
        }
    }

    /// From here on nothing fails. With or without a restart, everything acknowledged or durable is
    /// delivered, stepping only when `wake_at` says.
    fn recover(&mut self) -> Check {
        self.recovering = true;
        self.health = [Health::Answers; DSPS.len()];
        self.disk.set_faults(DiskFaults::default());
        if self.chance.once_in(2) {
            self.end();
        }
        for _ in 0..RECOVERY_STEPS {
            self.step()?;
            let Some(life) = &self.life else { continue };
            let delivery = &life.delivery;
            let is_done = delivery.counters().billing_owed == 0
                && delivery.journalling.is_empty()
                && delivery.unrecorded.is_empty();
            if is_done {
                return self.check_delivered();
            }
            let asked = delivery.wake_at(self.now()).map(|at| at.since(Tick::ZERO));
            let answer = life.answers.iter().map(|answer| answer.0).min();
            let log = match life.log.next {
                NextStep::Now => Some(self.elapsed),
                NextStep::At(at) => Some(at),
                // Later submissions have woken it.
                NextStep::Woken => (!delivery.journalling.is_empty()).then_some(self.elapsed),
            };
            let next = [asked, answer, log].into_iter().flatten().min();
            let soonest = self.elapsed + Duration::from_millis(1);
            self.elapsed = next.unwrap_or(soonest).max(soonest);
        }
        Err("recovery has no end".to_owned())
    }

    fn check_delivered(&mut self) -> Check {
        let referee = &self.referee;
        let arrived = |number: &&u8| referee.delivered.contains_key(number) || !is_told(**number);
        if let Some(number) = referee.acknowledged.iter().find(|number| !arrived(number)) {
            return Err(format!("beacon {number} was acknowledged and is not delivered"));
        }
        if let Some(number) = referee.durable.iter().find(|number| !arrived(number)) {
            return Err(format!("beacon {number} was accepted and is not delivered"));
        }
        let paid: BTreeSet<_> =
            referee.durable.iter().copied().filter(|number| is_paid(*number)).collect();
        if *self.books.numbers() != paid {
            let settled = self.books.numbers();
            return Err(format!("{paid:?} were accepted and {settled:?} are settled"));
        }
        // The log contains it too.
        self.end();
        self.start()?;
        if *self.books.numbers() != paid {
            return Err("what was settled is forgotten".to_owned());
        }
        let Some(life) = &self.life else { return Err("a sound disk starts".to_owned()) };
        let mut owed = life.delivery.jobs.values().filter_map(|job| number(job.notice.url()));
        owed.next().map_or(Ok(()), |number| Err(format!("notice {number} is owed once more")))
    }
}

impl Referee {
    fn is_durable(&mut self, record: &JournalRecord) {
        match record {
            JournalRecord::Accepted { id, .. } => drop(self.durable.insert(id.0[0])),
            JournalRecord::Settled { id, .. } => drop(self.over_on_record.insert(id.0[0])),
            JournalRecord::Checkpoint { .. } => (),
        }
    }
}
