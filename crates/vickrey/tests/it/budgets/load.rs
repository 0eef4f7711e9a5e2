//! Callers that request ads, bill what is shown, and remember the responses.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use faults::Chance;

use super::life::{Caller, Life, Sold};

/// Number of concurrent callers.
const CALLERS: u64 = 4;
/// Wins of a run that the next run has to bill.
const LEFT_MAX: usize = 4;
/// Auctions that count as a win when the budget is used up.
const FOR_A_WIN: u64 = 50;

/// A win, as known to its caller.
#[derive(Clone, Debug)]
pub struct Win {
    pub sold: Sold,
    /// The reservation was made between these Unix times, in ms.
    pub asked_ms: u64,
    pub answered_ms: u64,
    pub billed: Billed,
}

/// Whether its beacon was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Billed {
    Never,
    /// The call got no response, so the result is unknown.
    Unanswered,
    Answered,
}

pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// The callers' view of a run.
#[derive(Default)]
pub struct Seen {
    pub auctions: u64,
    pub wins: Vec<Win>,
    /// Shown, and billed in the next run.
    pub left: Vec<Win>,
    /// Shown in the previous run.
    owed: Vec<Win>,
}

impl Seen {
    fn wins_or_as_good(&self) -> u64 {
        (self.wins.len() + self.left.len()) as u64 + self.auctions / FOR_A_WIN
    }
}

/// Requests ads until `wins` were won, with more in flight, and kills the process. First bills the
/// wins of the previous run.
pub fn spend(life: Life, wins: u64, seed: u64, owed: Vec<Win>) -> Seen {
    let seen_by_all = Mutex::new(Seen { owed, ..Seen::default() });
    let seen = &seen_by_all;
    std::thread::scope(|scope| {
        let begin = |number| {
            let mut caller = life.caller();
            let mut chance = Chance::new(seed * CALLERS + number);
            scope.spawn(move || while call(&mut caller, &mut chance, seen).is_some() {})
        };
        let callers: Vec<_> = (0..CALLERS).map(begin).collect();
        while locked(seen).wins_or_as_good() < wins {
            let is_any_left = callers.iter().any(|caller| !caller.is_finished());
            assert!(is_any_left, "the process has ended by itself");
            std::thread::sleep(Duration::from_millis(1));
        }
        life.kill();
    });
    let mut seen = seen_by_all.into_inner().expect("nobody panicked");
    seen.wins.append(&mut seen.owed);
    seen
}

fn locked(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().expect("nobody panicked")
}

/// One win, billed or not. None once there is no response.
fn call(caller: &mut Caller, chance: &mut Chance, seen: &Mutex<Seen>) -> Option<()> {
    let owed = locked(seen).owed.pop();
    if let Some(win) = owed {
        return bill(win, caller, chance, seen);
    }
    let asked_ms = unix_ms();
    let sold = caller.auction()?;
    let answered_ms = unix_ms();
    let mut now = locked(seen);
    now.auctions += 1;
    let Some(sold) = sold else {
        drop(now);
        // Grants arrive gradually, and expired reservations return.
        std::thread::sleep(Duration::from_millis(1));
        return Some(());
    };
    let win = Win { sold, asked_ms, answered_ms, billed: Billed::Never };
    match chance.below(8) {
        // Never shown: it expires.
        0 => now.wins.push(win),
        1 if now.left.len() < LEFT_MAX => now.left.push(win),
        _ => {
            drop(now);
            return bill(win, caller, chance, seen);
        }
    }
    Some(())
}

fn bill(win: Win, caller: &mut Caller, chance: &mut Chance, seen: &Mutex<Seen>) -> Option<()> {
    let beacon = win.sold.beacon.clone();
    let answered = caller.bill(&beacon);
    let billed = answered.map_or(Billed::Unanswered, |()| Billed::Answered);
    locked(seen).wins.push(Win { billed, ..win });
    answered?;
    // Some are called twice.
    if chance.below(4) == 0 { caller.bill(&beacon) } else { Some(()) }
}
