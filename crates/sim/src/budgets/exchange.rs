//! The simulated exchanges: they reserve at clearing and later report wins and losses, in time or
//! not. Tokens are opaque text to them.

use std::collections::{BTreeMap, BTreeSet};

use units::Nanos;

use super::log::SimTokenId;
use super::options::{LATE_WINDOW, Manners, TTLS};
use faults::Chance;

/// How a reservation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReservationEnd {
    /// Won at a price. The exchange repeats the notice until it is acknowledged.
    Win(Nanos),
    /// Lost. The exchange sends the notice once.
    Release,
}

/// A notice that an exchange sends.
#[derive(Clone, Debug)]
pub(super) struct SimNotice {
    pub(super) id: SimTokenId,
    pub(super) text: Vec<u8>,
    pub(super) act: ReservationEnd,
    /// Whether a byte of the token was changed.
    pub(super) is_altered: bool,
    /// Whether it is a retry, which is dropped if the win is acknowledged by then.
    pub(super) is_again: bool,
}

/// All exchanges together.
#[derive(Debug, Default)]
pub(super) struct SimExchange {
    due: BTreeMap<(u64, u64), SimNotice>,
    said: u64,
    acknowledged: BTreeSet<SimTokenId>,
}

/// A reservation as the exchange knows it.
pub(super) struct SimReservation {
    pub(super) id: SimTokenId,
    pub(super) text: Vec<u8>,
    pub(super) amount: u64,
    pub(super) class: usize,
    pub(super) at_ms: u64,
}

impl SimExchange {
    /// Whether all notices are sent.
    pub(super) fn is_done(&self) -> bool {
        self.due.is_empty()
    }

    /// The next notice that is due. None if there is none yet.
    pub(super) fn next(&mut self, now_ms: u64) -> Option<SimNotice> {
        loop {
            let first = self.due.first_entry().filter(|entry| entry.key().0 <= now_ms)?;
            let notice = first.remove();
            if !(notice.is_again && self.acknowledged.contains(&notice.id)) {
                return Some(notice);
            }
        }
    }

    /// Stops the retries of a win.
    pub(super) fn acknowledge(&mut self, id: SimTokenId) {
        self.acknowledged.insert(id);
    }

    /// Schedules a retry of a win.
    pub(super) fn again(&mut self, notice: &SimNotice, now_ms: u64, chance: &mut Chance) {
        if matches!(notice.act, ReservationEnd::Win(_)) && !notice.is_altered {
            let at_ms = now_ms + chance.within(1_000..=4_000);
            self.say(at_ms, SimNotice { is_again: true, ..notice.clone() });
        }
    }

    /// Draws how a reservation ends, and schedules its notices.
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
            // Only the first matching outcome counts.
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

/// Changes one byte of the token.
fn altered(win: &SimNotice, chance: &mut Chance) -> SimNotice {
    let mut text = win.text.clone();
    let last = text.len() as u64 - 1;
    let at = usize::try_from(chance.within(0..=last)).expect("an index");
    text[at] = if text[at] == b'A' { b'B' } else { b'A' };
    SimNotice { text, is_altered: true, ..win.clone() }
}
