//! Tokens that are not leased: they accrue, are debited before a grant, and are refunded if unused.

use std::time::Duration;

use super::limits::CallRate;

/// One token, in the unit of the level: qps × nanoseconds.
const TOKEN: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    rate: CallRate,
    level: u64,
}

impl TokenBucket {
    /// Empty, because a previous bucket may just have used its burst.
    pub(super) fn empty(rate: CallRate) -> Self {
        Self { rate, level: 0 }
    }

    pub(super) fn rate(&self) -> CallRate {
        self.rate
    }

    pub(super) fn tokens(&self) -> u64 {
        self.level / TOKEN
    }

    /// Changes the rate. Tokens above the new burst are lost.
    pub(super) fn set_rate(&mut self, rate: CallRate, outstanding: u64) {
        self.rate = rate;
        self.level = self.level.min(self.room(outstanding));
    }

    /// Adds tokens. `outstanding` is as of *before* the reports of this step: a token used while
    /// the bucket was full leaves room only for later accrual. Otherwise a burst just before a step
    /// and its refill just after would exceed the limit by a step's worth.
    pub(super) fn accrue(&mut self, elapsed: Duration, outstanding: u64) {
        let gained = u128::from(self.rate.qps.get()) * elapsed.as_nanos();
        let level = u128::from(self.level) + gained;
        let level = u64::try_from(level).unwrap_or(u64::MAX);
        self.level = level.min(self.room(outstanding).max(self.level));
    }

    pub(super) fn debit(&mut self, tokens: u64) {
        let cost = tokens.checked_mul(TOKEN).and_then(|cost| self.level.checked_sub(cost));
        self.level = cost.expect("no more is granted than is at hand");
    }

    /// Adds unused tokens. `outstanding` excludes them.
    pub(super) fn refund(&mut self, tokens: u64, outstanding: u64) {
        let level = self.level.saturating_add(tokens.saturating_mul(TOKEN));
        // After a cut of the limit, more may return than the new burst allows.
        self.level = level.min(self.room(outstanding));
    }

    /// Panics if rights were minted: level + outstanding ≤ burst, unless the burst was cut below
    /// what was outstanding; then the level is zero.
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
