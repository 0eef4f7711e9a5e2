//! All segments of a lane, several at once: each by a worker of its own, and told in order.
//!
//! Owns the threads, and that no more than a few segments are ahead of who is told.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use eventlog::ReadError;

use crate::log::lane::{Damage, Lane, Room, Segment, Walked};
use crate::log::place::Place;

/// Segments that may be done before the next in turn.
const AHEAD_MAX: usize = 8;

/// One segment, walked.
#[derive(Debug)]
pub struct Part<T> {
    /// What its worker made of its records.
    pub made: T,
    /// What else was come upon.
    pub walked: Walked,
}

/// Should a worker panic nobody waits for what it does not tell: the scope passes the panic on.
struct Alarm<'t>(&'t AtomicUsize);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(usize::MAX, Ordering::Release);
        }
    }
}

impl Lane<'_> {
    /// Walks segments as [`sweep`](Self::sweep) does, and adds up what was gathered of them, in order; with
    /// what is damaged. `add` ends it by failing. `each` is told how many segments of how many are done,
    /// and ends it by breaking.
    ///
    /// # Errors
    ///
    /// Those of [`Self::walk`], and of `add`.
    pub fn gather<T: Send, E: From<ReadError>>(
        &self,
        segments: &[Segment],
        begin: impl Fn() -> T + Sync,
        (visit, add): (
            impl Fn(&mut T, &Place, u8, &[u8]) + Sync,
            impl Fn(&mut T, T) -> Result<(), E>,
        ),
        mut each: impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<(T, Damage), E> {
        let mut all = begin();
        let mut damage = Damage { corruptions: self.foreign().to_vec(), torn: None };
        let (mut done, mut failed) = (0, None);
        self.sweep(segments, begin, visit, |part| {
            damage.add(part.walked.damage);
            failed = add(&mut all, part.made).err();
            done += 1;
            if failed.is_some() { ControlFlow::Break(()) } else { each(done, segments.len()) }
        })?;
        failed.map_or(Ok((all, damage)), Err)
    }

    /// Walks segments in as many threads as there are processors: `begin` makes what gathers the
    /// records of one, `visit` adds one, and `each` is given what was gathered, in order, until it
    /// breaks.
    ///
    /// # Errors
    ///
    /// Those of [`Self::walk`], of the first segment that has any; `each` has been given all before.
    pub fn sweep<T: Send>(
        &self,
        segments: &[Segment],
        begin: impl Fn() -> T + Sync,
        visit: impl Fn(&mut T, &Place, u8, &[u8]) + Sync,
        mut each: impl FnMut(Part<T>) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.min(segments.len()).max(1);
        let (next, told) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |sender: &mpsc::Sender<(usize, Result<Part<T>, ReadError>)>| {
            let mut room = Room::default();
            let _alarm = Alarm(&told);
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(segment) = segments.get(at) else { return };
                while at > told.load(Ordering::Acquire).saturating_add(AHEAD_MAX) {
                    thread::park_timeout(std::time::Duration::from_millis(1));
                }
                let mut made = begin();
                let mut add = |place: &Place, kind: u8, payload: &[u8]| {
                    visit(&mut made, place, kind, payload);
                    ControlFlow::Continue(())
                };
                let walked = self.walk(segment, (0, &mut room), &mut add);
                let part = walked.map(|walked| Part { made, walked });
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
                // A worker that panicked has told why; the scope passes it on.
                let Ok((of, part)) = receiver.recv() else { break };
                done.insert(of, part);
                while let Some(part) = done.remove(&at) {
                    at += 1;
                    told.store(at, Ordering::Release);
                    let is_over = part.map(&mut each).map(|flow| flow.is_break());
                    if !matches!(is_over, Ok(false)) {
                        // Whoever waits for its turn goes on, and finds nobody.
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
