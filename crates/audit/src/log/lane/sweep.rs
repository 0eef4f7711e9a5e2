//! Walks the segments of a lane in parallel, one worker each, and yields the results in order. No
//! more than a few segments are done ahead of their turn.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use eventlog::LogReadError;

use crate::log::lane::{LaneDamage, LaneSegment, ReadBuffer, RecordedLane, SegmentWalk};
use crate::log::position::RecordPosition;

/// Segments that may be done ahead of their turn.
const AHEAD_MAX: usize = 8;

/// What is made of the records of a segment, and merged with that of later ones.
pub trait RecordFold: Send {
    /// Why a merge fails.
    type Error: From<LogReadError>;

    /// Adds a record.
    fn visit(&mut self, position: &RecordPosition, kind: u8, payload: &[u8]);

    /// Adds what was made of a later segment.
    fn merge(&mut self, later: Self) -> Result<(), Self::Error>;
}

/// A walked segment.
#[derive(Debug)]
pub struct SweptSegment<T> {
    /// What the worker made of its records.
    pub made: T,
    /// Damage and hash.
    pub walked: SegmentWalk,
}

/// If a worker panics, releases those that wait for its result; the scope propagates the panic.
struct PanicGuard<'t>(&'t AtomicUsize);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(usize::MAX, Ordering::Release);
        }
    }
}

impl RecordedLane<'_> {
    /// Walks segments as [`sweep`](Self::sweep) does, and merges the folds in order; also returns
    /// the damage. A failed merge ends it. `each` gets the number of segments done and of all, and
    /// may stop it.
    pub fn gather<F: RecordFold>(
        &self,
        segments: &[LaneSegment],
        begin: impl Fn() -> F + Sync,
        mut each: impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<(F, LaneDamage), F::Error> {
        let mut all = begin();
        let mut damage = LaneDamage { corruptions: self.foreign().to_vec(), torn: None };
        let (mut done, mut failed) = (0, None);
        self.sweep(segments, begin, F::visit, |part| {
            damage.add(part.walked.damage);
            failed = all.merge(part.made).err();
            done += 1;
            if failed.is_some() { ControlFlow::Break(()) } else { each(done, segments.len()) }
        })?;
        failed.map_or(Ok((all, damage)), Err)
    }

    /// Walks segments on all processors: `begin` makes a value for a segment, `visit` adds a record
    /// to it, and `each` gets the values in order and may stop it. On an error `each` has got all
    /// earlier segments.
    pub fn sweep<T: Send>(
        &self,
        segments: &[LaneSegment],
        begin: impl Fn() -> T + Sync,
        visit: impl Fn(&mut T, &RecordPosition, u8, &[u8]) + Sync,
        mut each: impl FnMut(SweptSegment<T>) -> ControlFlow<()>,
    ) -> Result<(), LogReadError> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.min(segments.len()).max(1);
        let (next, told) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |sender: &mpsc::Sender<(usize, Result<SweptSegment<T>, LogReadError>)>| {
            let mut room = ReadBuffer::default();
            let _alarm = PanicGuard(&told);
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(segment) = segments.get(at) else { return };
                while at > told.load(Ordering::Acquire).saturating_add(AHEAD_MAX) {
                    thread::park_timeout(std::time::Duration::from_millis(1));
                }
                let mut made = begin();
                let mut add = |place: &RecordPosition, kind: u8, payload: &[u8]| {
                    visit(&mut made, place, kind, payload);
                    ControlFlow::Continue(())
                };
                let walked = self.walk(segment, 0, &mut room, &mut add);
                let part = walked.map(|walked| SweptSegment { made, walked });
                if sender.send((at, part)).is_err() {
                    return; // Nobody wants more.
                }
            }
        };
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            for _ in 0..threads {
                let sender = sender.clone();
                let work = &work;
                scope.spawn(move || work(&sender));
            }
            drop(sender);
            let mut done = BTreeMap::new();
            let mut at = 0;
            while at < segments.len() {
                // A panicked worker has printed why; the scope propagates it.
                let Ok((of, part)) = receiver.recv() else { break };
                done.insert(of, part);
                while let Some(part) = done.remove(&at) {
                    at += 1;
                    told.store(at, Ordering::Release);
                    let is_over = part.map(&mut each).map(|flow| flow.is_break());
                    if !matches!(is_over, Ok(false)) {
                        // Releases workers that wait for their turn.
                        told.store(usize::MAX, Ordering::Release);
                        next.store(segments.len(), Ordering::Relaxed);
                        return is_over.map(|_| ());
                    }
                }
            }
            Ok(())
        })
    }
}
