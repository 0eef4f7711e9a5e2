//! The tokens that nobody holds yet. They accrue with time, are debited before they are granted,
//! and come back when they were not used.

use std::time::Duration;

use super::limits::CallRate;

/// One token, in the unit of the level: qps × nanoseconds.
const TOKEN: u64 = 1_000_000_000;

/// A token bucket whose other part, what is outstanding, is its owner's to count.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    rate: CallRate,
    level: u64,
}

impl TokenBucket {
    /// Empty: what came before it may have used its burst a moment ago.
    pub(super) fn empty(rate: CallRate) -> Self {
        Self { rate, level: 0 }
    }

    pub(super) fn rate(&self) -> CallRate {
        self.rate
    }

    /// Whole tokens at hand.
    pub(super) fn tokens(&self) -> u64 {
        self.level / TOKEN
    }

    /// From now on at another rate. What is at hand beyond its burst is lost.
    pub(super) fn set_rate(&mut self, rate: CallRate, outstanding: u64) {
        self.rate = rate;
        self.level = self.level.min(self.room(outstanding));
    }

    /// `outstanding` is as of *before* the reports that are about to be read: a token that was
    /// used while the bucket was full leaves room for what accrues from now on, not for what would
    /// have accrued since the step before. Otherwise a burst just before a step and its refill just
    /// after would exceed the limit by a step's worth.
    pub(super) fn accrue(&mut self, elapsed: Duration, outstanding: u64) {
        let gained = u128::from(self.rate.qps.get()) * elapsed.as_nanos();
        let level = u128::from(self.level) + gained;
        let level = u64::try_from(level).unwrap_or(u64::MAX);
        self.level = level.min(self.room(outstanding).max(self.level));
    }

    /// Takes tokens out, to be granted.
    pub(super) fn debit(&mut self, tokens: u64) {
        let cost = tokens.checked_mul(TOKEN).and_then(|cost| self.level.checked_sub(cost));
        self.level = cost.expect("no more is granted than is at hand");
    }

    /// Takes back tokens that were outstanding and not used. `outstanding` is what is still.
    pub(super) fn refund(&mut self, tokens: u64, outstanding: u64) {
        let level = self.level.saturating_add(tokens.saturating_mul(TOKEN));
        // After a cut of the limit more may come back than the new burst holds.
        self.level = level.min(self.room(outstanding));
    }

    /// Stops the process where rights were minted: level + outstanding ≤ burst, unless the burst
    /// was cut below what was outstanding; then there is nothing at hand.
    pub(super) fn assert_conserved(&self, outstanding: u64) {
        assert!(
            self.level <= self.room(outstanding),
            "a rate's rights are conserved: level {} and outstanding {outstanding} exceed burst {}",
            self.tokens(),
            self.rate.burst,
        );
    }

    fn room(&self, outstanding: u64) -> u64 {
        u64::from(self.rate.burst.get()).saturating_sub(outstanding) * TOKEN
    }
}

#[cfg(test)]
mod tests;
