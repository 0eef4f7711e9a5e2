//! Grants of calls to DSPs, divided among shards ten times a second on the control thread.
//!
//! It moves messages; `exchange_core::guard` decides the limits.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use exchange_core::guard::{
    BreakerTrial, CallGrant, CallPermit, Governor, GuardLimits, GuardRefusal, GuardReport,
    GuardStatus, STEP, ShardGuard,
};
use runtime::control::{Control, ControlTask};
use runtime::shutdown::Shutdown;
use tokio::time::MissedTickBehavior;
use tracing::error;
use units::Tick;

/// Messages are cumulative, so the next one makes up for one that finds no room.
const MESSAGES_MAX: usize = 16;

/// Names a DSP's governor for as long as the DSP is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GuardId(u64);

type Reports = Box<[(GuardId, GuardReport)]>;
type Grants = Box<[(GuardId, CallGrant)]>;

#[derive(Debug)]
pub struct GuardPort {
    reports: rtrb::Producer<Reports>,
    grants: rtrb::Consumer<Grants>,
}

#[derive(Debug)]
struct GovernorPort {
    reports: rtrb::Consumer<Reports>,
    grants: rtrb::Producer<Grants>,
}

/// All governors; clones share them. Shards use ports, never the lock. A reload builds each
/// governor before it takes the lock, so that grants do not wait.
#[derive(Clone, Debug)]
pub struct Guards(Arc<GuardsShared>);

#[derive(Debug)]
struct GuardsShared {
    origin: Instant,
    shards: usize,
    /// Governors built so far, which gives the next its number.
    built: AtomicU64,
    table: Mutex<GovernorTable>,
}

/// The locked part. Governors are built outside it.
#[derive(Debug)]
struct GovernorTable {
    governors: HashMap<GuardId, Box<Governor>>,
    ports: Vec<GovernorPort>,
}

impl Guards {
    pub fn new(shards: usize) -> (Self, Vec<GuardPort>) {
        let port = |_| {
            let (reports_in, reports) = rtrb::RingBuffer::new(MESSAGES_MAX);
            let (grants, grants_out) = rtrb::RingBuffer::new(MESSAGES_MAX);
            let shard = GuardPort { reports: reports_in, grants: grants_out };
            (GovernorPort { reports, grants }, shard)
        };
        let (ports, ends) = (0..shards).map(port).unzip();
        let table = Mutex::new(GovernorTable { governors: HashMap::new(), ports });
        let shared =
            GuardsShared { origin: Instant::now(), shards, built: AtomicU64::new(0), table };
        (Self(Arc::new(shared)), ends)
    }

    /// Renews grants. Excess calls end the process: not asking a DSP is cheap, exceeding limits is
    /// not.
    pub fn start(&self, control: &Control, shutdown: &Shutdown) -> ControlTask {
        let (guards, shutdown) = (self.clone(), shutdown.clone());
        control.spawn(move || async move {
            let mut steps = tokio::time::interval(STEP);
            steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                steps.tick().await;
                if catch_unwind(AssertUnwindSafe(|| guards.step())).is_err() {
                    error!("the rights to call DSPs do not add up; shutting down");
                    return shutdown.begin();
                }
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, GovernorTable> {
        // A panic within a step ends the process; until then others may read the last state.
        self.0.table.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn now(&self) -> Tick {
        Tick::ZERO.after(self.0.origin.elapsed())
    }

    fn step(&self) {
        let mut table = self.lock();
        table.step(self.now());
    }

    /// Adds a governor, paused or not; returns the first grant of each shard.
    pub fn add(&self, limits: GuardLimits, paused: bool) -> (GuardId, Arc<[CallGrant]>) {
        let mut governor = Box::new(Governor::new(limits, self.0.shards, self.now()));
        if paused {
            governor.pause(true);
            governor.step(self.now(), &[]);
        }
        let first = governor.grants().into();
        let id = GuardId(self.0.built.fetch_add(1, Ordering::Relaxed));
        self.lock().governors.insert(id, governor);
        (id, first)
    }

    /// Changes a governor's limits; shards' reports and grants stay counted.
    pub fn change(&self, id: GuardId, limits: GuardLimits) {
        let mut table = self.lock();
        let now = self.now();
        if let Some(mut governor) = table.governors.remove(&id) {
            *governor = governor.with_limits(limits, now);
            table.governors.insert(id, governor);
        }
    }

    pub fn remove(&self, id: GuardId) {
        let gone = self.lock().governors.remove(&id);
        drop(gone); // Outside the lock.
    }

    pub fn pause(&self, id: GuardId, paused: bool) {
        if let Some(governor) = self.lock().governors.get_mut(&id) {
            governor.pause(paused);
        }
    }

    pub fn status(&self, id: GuardId) -> Option<GuardStatus> {
        self.lock().governors.get(&id).map(|governor| governor.status())
    }
}

impl GovernorTable {
    fn step(&mut self, now: Tick) {
        let mut reports: HashMap<GuardId, Vec<GuardReport>> = HashMap::new();
        for port in &mut self.ports {
            while let Ok(message) = port.reports.pop() {
                for (id, report) in message {
                    reports.entry(id).or_default().push(report);
                }
            }
        }
        let mut grants: Vec<Vec<(GuardId, CallGrant)>> = vec![Vec::new(); self.ports.len()];
        for (id, governor) in &mut self.governors {
            let reports = reports.get(id).map_or(&[][..], Vec::as_slice);
            for grant in governor.step(now, reports) {
                grants[grant.shard].push((*id, *grant));
            }
        }
        for (port, grants) in self.ports.iter_mut().zip(grants) {
            let _ = port.grants.push(grants.into());
        }
    }
}

/// Limits of one DSP or publisher on one shard, shared by its calls.
pub type SharedGuard = Rc<RefCell<ShardGuard>>;

impl GuardPort {
    /// Applies grants and sends reports for all `guards`. Call every [`STEP`].
    pub fn turn<'g>(&mut self, guards: impl Iterator<Item = (GuardId, &'g SharedGuard)> + Clone) {
        let mut granted = HashMap::new();
        while let Ok(message) = self.grants.pop() {
            granted.extend(message);
        }
        let report = |(id, guard): (GuardId, &SharedGuard)| {
            let mut guard = guard.borrow_mut();
            if let Some(grant) = granted.get(&id) {
                guard.apply(grant);
            }
            (id, guard.report())
        };
        // If full, the governors are late, and the next report covers this one.
        let _ = self.reports.push(guards.map(report).collect());
    }
}

/// A call in flight; its drop releases the permit.
#[derive(Debug)]
pub struct OwnedCallPermit {
    guard: SharedGuard,
    permit: Option<CallPermit>,
}

impl OwnedCallPermit {
    pub fn acquire(guard: &SharedGuard) -> Result<(Self, BreakerTrial), GuardRefusal> {
        let (permit, trial) = guard.borrow_mut().acquire()?;
        Ok((Self { guard: Rc::clone(guard), permit: Some(permit) }, trial))
    }
}

impl Drop for OwnedCallPermit {
    fn drop(&mut self) {
        let permit = self.permit.take().expect("it is released once, here");
        self.guard.borrow_mut().release(permit);
    }
}

#[cfg(test)]
mod tests;
