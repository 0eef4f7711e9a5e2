//! The inputs of a look besides the campaign.

use crate::calendar::Calendar;
use crate::ledger::ZoneId;
use crate::strategy::ZoneOffsets;

pub(super) struct AccountClocks {
    /// Digest of its name: the same in every process, unlike its number.
    pub(super) digest: u64,
    pub(super) calendar: Calendar,
    pub(super) zone: ZoneOffsets,
}

/// The part of an account that its campaigns' plans depend on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct PayingAccount {
    pub(super) zone: ZoneId,
    /// Changes with its limits: then plans are chosen anew.
    pub(super) version: u64,
}

pub(super) struct PacingContext<'a> {
    pub(super) now_ms: u64,
    pub(super) slot_ms: u64,
    pub(super) phase_ms: u64,
    pub(super) payer: PayingAccount,
    pub(super) clocks: &'a AccountClocks,
}
