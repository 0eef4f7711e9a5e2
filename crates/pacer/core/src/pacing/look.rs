//! What a look at a campaign knows besides the campaign.

use crate::calendar::Calendar;
use crate::ledger::ZoneId;
use crate::strategy::ZoneOffsets;

/// The clocks of a zone, in both ways in which they are asked.
pub(super) struct AccountClocks {
    /// Of its name: the same in every process, which its number is not.
    pub(super) digest: u64,
    pub(super) calendar: Calendar,
    pub(super) zone: ZoneOffsets,
}

/// An account as far as its campaigns' plans depend on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct PayingAccount {
    pub(super) zone: ZoneId,
    /// Changes with its limits: then plans are made anew.
    pub(super) version: u64,
}

/// What a look at a campaign knows besides it.
pub(super) struct PacingContext<'a> {
    pub(super) now_ms: u64,
    pub(super) slot_ms: u64,
    /// How far into a slot its own begin.
    pub(super) phase_ms: u64,
    pub(super) payer: PayingAccount,
    pub(super) clocks: &'a AccountClocks,
}
