//! Reservations of one time to live, without a record of each: two bits per reservation, and one
//! sum per time bucket and book. A book is one campaign in one period.
//!
//! A bucket takes the reservations of a sixteenth of the time to live, and expires one time to live
//! after the last: so a reservation lasts up to a sixteenth longer. Buckets end in the order of
//! their start, and so do their numbers: bits and sums are in rings. However clocks jump, no sum
//! mixes periods, and a bucket need not end when an hour does.

use std::collections::VecDeque;
use std::time::Duration;

use units::Tick;

use super::outcome::{ReservationState, TokenRejection};
use super::token::ReservationToken;
use crate::messages::index;

pub(super) const PARTS: u32 = 16;

const WORD: u64 = 32;

const OPEN: u64 = 0;
const CLAIMED: u64 = 1;
const WON: u64 = 2;
const RELEASED: u64 = 3;

#[derive(Clone, Copy, Debug)]
pub(super) struct ClassCapacity {
    /// Open or remembered reservations: a power of two, at least [`WORD`].
    pub reservations: usize,
    /// Sums of open buckets: a power of two.
    pub lines: usize,
    pub buckets: usize,
    pub books: usize,
}

impl ClassCapacity {
    pub const fn bytes(&self) -> usize {
        self.reservations / 4
            + self.lines * size_of::<BucketTotal>()
            + self.buckets * size_of::<ExpiryBucket>()
            + self.books * size_of::<u64>()
    }
}

#[derive(Clone, Copy, Debug)]
struct BucketTotal {
    book: u32,
    reserved: u64,
}

#[derive(Debug)]
struct ExpiryBucket {
    serial: u32,
    sequences: u32,
    lines: u32,
    sequence_first: u64,
    line_first: u64,
    /// The bucket takes no more from then on.
    full: Tick,
    /// Open reservations expire then.
    expires: Tick,
    /// The bucket is dropped then.
    forgotten: Tick,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ReservationPlace {
    pub bucket: u32,
    pub sequence: u32,
    pub line: u32,
    pub expires: Tick,
}

/// Where a token's state and sum are.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenPlace {
    /// Its number in this epoch.
    pub sequence: u64,
    /// Position of its sum. None if its time is over, or if it names a sum that never was.
    line: Option<usize>,
    is_over: bool,
}

#[derive(Debug)]
pub(super) struct ExpiryClass {
    ttl: Duration,
    width: Duration,
    late_window: Duration,
    /// Two bits per reservation, by its number.
    bits: Box<[u64]>,
    /// Numbers used in this epoch.
    sequences: u64,
    /// A ring of `lines_max`. It grows line by line, so that unneeded memory is never touched.
    lines: Vec<BucketTotal>,
    lines_max: usize,
    /// Lines begun in this epoch; the first is number 1.
    lines_begun: u64,
    /// By book: the number of its latest line.
    line_of: Box<[u64]>,
    /// In order of time; the first `expired` of them are over but remembered.
    buckets: VecDeque<ExpiryBucket>,
    buckets_max: usize,
    expired: usize,
    serial: u32,
}

impl ExpiryClass {
    pub fn new(ttl: Duration, late_window: Duration, room: &ClassCapacity) -> Self {
        let words = room.reservations / usize::try_from(WORD).expect("few");
        let mut lines = Vec::with_capacity(room.lines);
        // Line 0 is unused.
        lines.push(BucketTotal { book: 0, reserved: 0 });
        Self {
            ttl,
            width: ttl / PARTS,
            late_window,
            bits: vec![0; words].into_boxed_slice(),
            sequences: 0,
            lines,
            lines_max: room.lines,
            lines_begun: 1,
            line_of: vec![0; room.books].into_boxed_slice(),
            buckets: VecDeque::with_capacity(room.buckets),
            buckets_max: room.buckets,
            expired: 0,
            serial: 0,
        }
    }

    /// When the next bucket expires or is forgotten.
    pub fn due(&self) -> Option<Tick> {
        let expires = self.buckets.get(self.expired).map(|bucket| bucket.expires);
        let first = self.buckets.front().map(|bucket| bucket.forgotten);
        expires.into_iter().chain(first).min()
    }

    /// Reads a book's latest sum. The result means nothing.
    #[inline]
    pub fn warm(&self, book: u32) -> u64 {
        let line = self.line_of.get(index(book)).map(|line| self.line_at(*line));
        line.and_then(|at| self.lines.get(at)).map_or(0, |line| line.reserved)
    }

    /// Reads a token's state and sum. The result means nothing.
    #[inline]
    pub fn warm_token(&self, token: &ReservationToken) -> u64 {
        let bucket = self.bucket_at(token).ok().and_then(|at| self.buckets.get(at));
        let Some(bucket) = bucket else { return 0 };
        let state = self.state(bucket.sequence_first + u64::from(token.sequence));
        let at = self.line_at(bucket.line_first + u64::from(token.line));
        state ^ self.lines.get(at).map_or(0, |line| line.reserved)
    }

    /// Takes a reservation. None if there is no room; then nothing has changed.
    #[inline]
    pub fn place(&mut self, book: u32, amount: u64, now: Tick) -> Option<ReservationPlace> {
        let is_begun = self.buckets.back().is_some_and(|bucket| now < bucket.full);
        let newest = if is_begun { self.buckets.back() } else { None };
        let line_first = newest.map_or(self.lines_begun, |bucket| bucket.line_first);
        let line = self.line_of[index(book)];
        let line = (line >= line_first).then_some(line);
        let is_full = self.sequences - self.sequence_oldest() >= self.bits.len() as u64 * WORD;
        if is_full || (line.is_none() && !self.has_line()) || (!is_begun && !self.has_bucket()) {
            return None;
        }
        if !is_begun {
            self.begin(now);
        }
        let line = line.unwrap_or_else(|| self.begin_line(book));
        let at = self.line_at(line);
        self.lines[at].reserved += amount;
        let sequence = self.sequences;
        self.set(sequence, OPEN);
        self.sequences += 1;
        let bucket = self.buckets.back_mut().expect("one has begun");
        bucket.sequences = narrow(self.sequences - bucket.sequence_first);
        Some(ReservationPlace {
            bucket: bucket.serial,
            sequence: narrow(sequence - bucket.sequence_first),
            line: narrow(line - bucket.line_first),
            expires: bucket.expires,
        })
    }

    /// Where a token of this class is. Valid until the next change.
    pub fn find(&self, token: &ReservationToken) -> Result<TokenPlace, TokenRejection> {
        let at = self.bucket_at(token)?;
        let bucket = &self.buckets[at];
        if token.sequence >= bucket.sequences {
            return Err(TokenRejection::NeverMade);
        }
        let is_over = at < self.expired;
        let line = (!is_over && token.line < bucket.lines)
            .then(|| self.line_at(bucket.line_first + u64::from(token.line)));
        Ok(TokenPlace {
            sequence: bucket.sequence_first + u64::from(token.sequence),
            line,
            is_over,
        })
    }

    /// The state of the token there.
    pub fn standing(&self, place: &TokenPlace) -> ReservationState {
        match self.state(place.sequence) {
            OPEN if place.is_over => ReservationState::Expired,
            OPEN => ReservationState::Open,
            CLAIMED => ReservationState::Claimed,
            WON => ReservationState::Won,
            _ => ReservationState::Released,
        }
    }

    /// Whether an open token's amount is part of the sum that it names.
    pub fn covers(&self, place: &TokenPlace, amount: u64, book: u32) -> bool {
        let line = place.line.map(|at| self.lines[at]);
        line.is_some_and(|line| line.book == book && line.reserved >= amount)
    }

    /// Claims or releases the open reservation there: from now on it does not expire.
    pub fn take_out(&mut self, place: &TokenPlace, amount: u64, standing: ReservationState) {
        self.set(place.sequence, state_of(standing));
        let at = place.line.expect("an open token's sum is there");
        let reserved = self.lines[at].reserved.checked_sub(amount);
        self.lines[at].reserved = reserved.expect("a sum covers every open reservation");
    }

    /// Reopens a claimed reservation. Returns false if its time is over.
    pub fn put_back(&mut self, token: &ReservationToken) -> bool {
        let Ok(place) = self.find(token) else { return false };
        self.set(place.sequence, OPEN);
        if !place.is_over {
            let at = place.line.expect("an open bucket's sums are there");
            self.lines[at].reserved += token.amount.get();
        }
        !place.is_over
    }

    /// Sets the state of the reservation with this number, if it is still remembered.
    pub fn mark(&mut self, sequence: u64, standing: ReservationState) {
        if self.sequence_oldest() <= sequence {
            self.set(sequence, state_of(standing));
        }
    }

    /// Ends what is due by `now`, and gives back what each sum has left.
    pub fn pass(&mut self, now: Tick, mut give_back: impl FnMut(u32, u64)) {
        while self.buckets.get(self.expired).is_some_and(|bucket| bucket.expires <= now) {
            self.expire(self.expired, &mut give_back);
            self.expired += 1;
        }
        while self.buckets.front().is_some_and(|bucket| bucket.forgotten <= now) {
            self.buckets.pop_front();
            self.expired -= 1;
        }
    }

    fn expire(&mut self, at: usize, give_back: &mut impl FnMut(u32, u64)) {
        let bucket = &self.buckets[at];
        for line in bucket.line_first..bucket.line_first + u64::from(bucket.lines) {
            let BucketTotal { book, reserved } = self.lines[self.line_at(line)];
            if reserved > 0 {
                give_back(book, reserved);
            }
        }
    }

    fn begin(&mut self, now: Tick) {
        let full = now.after(self.width);
        let expires = full.after(self.ttl);
        self.buckets.push_back(ExpiryBucket {
            serial: self.serial,
            sequences: 0,
            lines: 0,
            sequence_first: self.sequences,
            line_first: self.lines_begun,
            full,
            expires,
            forgotten: expires.after(self.late_window),
        });
        self.serial += 1;
    }

    fn begin_line(&mut self, book: u32) -> u64 {
        let line = self.lines_begun;
        let (at, begun) = (self.line_at(line), BucketTotal { book, reserved: 0 });
        match self.lines.get_mut(at) {
            Some(over) => *over = begun,
            None => self.lines.push(begun),
        }
        self.line_of[index(book)] = line;
        self.lines_begun += 1;
        self.buckets.back_mut().expect("one has begun").lines += 1;
        line
    }

    fn has_bucket(&self) -> bool {
        self.buckets.len() < self.buckets_max && self.serial < u32::MAX
    }

    fn has_line(&self) -> bool {
        let first = self.buckets.get(self.expired).map(|bucket| bucket.line_first);
        let used = self.lines_begun - first.unwrap_or(self.lines_begun);
        used < self.lines_max as u64
    }

    /// The first remembered number, or the next one if nothing is remembered.
    fn sequence_oldest(&self) -> u64 {
        self.buckets.front().map_or(self.sequences, |bucket| bucket.sequence_first)
    }

    fn bucket_at(&self, token: &ReservationToken) -> Result<usize, TokenRejection> {
        let first = self.buckets.front().map_or(self.serial, |bucket| bucket.serial);
        if token.bucket >= self.serial {
            return Err(TokenRejection::NeverMade);
        }
        let after = token.bucket.checked_sub(first).ok_or(TokenRejection::TooOld)?;
        Ok(index(after))
    }

    fn line_at(&self, line: u64) -> usize {
        wrap(line, self.lines_max)
    }

    fn state(&self, sequence: u64) -> u64 {
        self.bits[wrap(sequence / WORD, self.bits.len())] >> (sequence % WORD * 2) & 0b11
    }

    fn set(&mut self, sequence: u64, state: u64) {
        let word = &mut self.bits[wrap(sequence / WORD, self.bits.len())];
        let shift = sequence % WORD * 2;
        *word = *word & !(0b11 << shift) | state << shift;
    }
}

const fn state_of(standing: ReservationState) -> u64 {
    match standing {
        ReservationState::Open | ReservationState::Expired => OPEN,
        ReservationState::Claimed => CLAIMED,
        ReservationState::Won => WON,
        ReservationState::Released => RELEASED,
    }
}

/// Index in a ring whose length is a power of two.
fn wrap(number: u64, length: usize) -> usize {
    usize::try_from(number & (length as u64 - 1)).expect("it is below a length")
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).expect("a bucket holds less than 2^32 of anything")
}
