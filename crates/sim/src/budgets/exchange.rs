//! The other side: exchanges that reserve at clearing, and tell what became of it when they like.
//! Knows tokens by their text alone.

use std::collections::{BTreeMap, BTreeSet};

use units::Nanos;

use super::log::SimTokenId;
use super::options::{LATE_WINDOW, Manners, TTLS};
use faults::Chance;

/// What an exchange says of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReservationEnd {
    /// It was won at a price. Said until it is acknowledged.
    Win(Nanos),
    /// It was lost. Said once.
    Release,
}

/// What is said, and when it is said again.
#[derive(Clone, Debug)]
pub(super) struct SimNotice {
    pub(super) id: SimTokenId,
    pub(super) text: Vec<u8>,
    pub(super) act: ReservationEnd,
    /// Whether the text is not what was given out.
    pub(super) is_altered: bool,
    /// Whether it is said only if nobody acknowledged it yet.
    pub(super) is_again: bool,
}

/// All exchanges together.
#[derive(Debug, Default)]
pub(super) struct SimExchange {
    due: BTreeMap<(u64, u64), SimNotice>,
    said: u64,
    acknowledged: BTreeSet<SimTokenId>,
}

/// A reservation that an exchange has.
pub(super) struct SimReservation {
    pub(super) id: SimTokenId,
    pub(super) text: Vec<u8>,
    pub(super) amount: u64,
    pub(super) class: usize,
    pub(super) at_ms: u64,
}

impl SimExchange {
    /// Whether there is nothing more to be said.
    pub(super) fn is_done(&self) -> bool {
        self.due.is_empty()
    }

    /// The next one that is due.
    pub(super) fn next(&mut self, now_ms: u64) -> Option<SimNotice> {
        loop {
            let first = self.due.first_entry().filter(|entry| entry.key().0 <= now_ms)?;
            let notice = first.remove();
            if !(notice.is_again && self.acknowledged.contains(&notice.id)) {
                return Some(notice);
            }
        }
    }

    /// A win that was told is acknowledged: it is told no more.
    pub(super) fn acknowledge(&mut self, id: SimTokenId) {
        self.acknowledged.insert(id);
    }

    /// Says a win again later, unless it is acknowledged by then.
    pub(super) fn again(&mut self, notice: &SimNotice, now_ms: u64, chance: &mut Chance) {
        if matches!(notice.act, ReservationEnd::Win(_)) && !notice.is_altered {
            let at_ms = now_ms + chance.within(1_000..=4_000);
            self.say(at_ms, SimNotice { is_again: true, ..notice.clone() });
        }
    }

    /// Decides what becomes of a reservation.
    pub(super) fn plan(&mut self, of: &SimReservation, manners: &Manners, chance: &mut Chance) {
        let ttl_ms = u64::try_from(TTLS[of.class].as_millis()).expect("short");
        let window_ms = u64::try_from(LATE_WINDOW.as_millis()).expect("short");
        let soon = of.at_ms + chance.within(0..=ttl_ms / 2);
        let then = soon + chance.within(1..=3_000);
        let late = of.at_ms + ttl_ms + chance.within(ttl_ms / 16..=window_ms);
        let ancient = of.at_ms + ttl_ms + window_ms + chance.within(ttl_ms / 8..=400_000);
        let mut drawn = chance.within(0..=999_999);
        let mut falls = |share: u64| {
            let is_it = drawn < share;
            drawn = drawn.saturating_sub(share);
            // What falls to an earlier one falls to no later one.
            if is_it {
                drawn = u64::MAX;
            }
            is_it
        };
        if falls(manners.never) {
            return;
        }
        if falls(manners.released) {
            return self.say(soon, notice(of, ReservationEnd::Release));
        }
        let price = price(of.amount, manners, chance);
        let win = notice(of, ReservationEnd::Win(Nanos::new(price)));
        let win_at = if falls(manners.released_and_won) {
            self.say(soon, notice(of, ReservationEnd::Release));
            then
        } else if falls(manners.won_and_released) {
            self.say(then, notice(of, ReservationEnd::Release));
            soon
        } else if falls(manners.late) {
            late
        } else if falls(manners.ancient) {
            ancient
        } else {
            if falls(manners.altered) {
                self.say(soon, altered(&win, chance));
            }
            soon
        };
        if chance.happens(manners.twice) {
            self.say(win_at + chance.within(0..=2 * ttl_ms), win.clone());
        }
        self.say(win_at, win);
    }

    fn say(&mut self, at_ms: u64, notice: SimNotice) {
        self.said += 1;
        self.due.insert((at_ms, self.said), notice);
    }
}

fn notice(of: &SimReservation, act: ReservationEnd) -> SimNotice {
    SimNotice { id: of.id, text: of.text.clone(), act, is_altered: false, is_again: false }
}

fn price(amount: u64, manners: &Manners, chance: &mut Chance) -> u64 {
    if chance.happens(manners.over) {
        return amount + chance.within(1..=amount);
    }
    if chance.happens(250_000) { chance.within(0..=amount) } else { amount }
}

/// One letter is another.
fn altered(win: &SimNotice, chance: &mut Chance) -> SimNotice {
    let mut text = win.text.clone();
    let last = text.len() as u64 - 1;
    let at = usize::try_from(chance.within(0..=last)).expect("an index");
    text[at] = if text[at] == b'A' { b'B' } else { b'A' };
    SimNotice { text, is_altered: true, ..win.clone() }
}
