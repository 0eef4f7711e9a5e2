//! Differences between a record and its replay, for people to read.

use std::fmt;

use super::inputs::InvalidInputs;

const CHANGES_MAX: usize = 32;

/// Why a replay differs from its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayDifference {
    /// The record names another generation.
    Generation {
        /// The record's generation.
        recorded: u64,
        /// The given generation.
        given: u64,
    },
    /// No auction can have these inputs.
    Unsound(InvalidInputs),
    /// Values differ.
    Changed {
        /// The changes, in the order of the record; at least one.
        changes: Vec<ValueChange>,
        /// Number of changes not listed.
        more: usize,
    },
}

/// One value that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueChange {
    /// The object.
    pub subject: ChangedValue,
    /// The object's name: a bid's DSP, seat and id; an impression's or deal's id.
    pub name: String,
    /// The field.
    pub field: &'static str,
    /// Its recorded value.
    pub recorded: String,
    /// Its recomputed value.
    pub recomputed: String,
}

/// The object of a changed value, by position in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangedValue {
    /// The whole auction.
    Auction,
    /// An impression.
    Imp(usize),
    /// A deal.
    Deal(usize),
    /// A DSP that was not asked.
    NotAsked(usize),
    /// A call.
    Call(usize),
    /// A bid.
    Bid(usize),
    /// A sale.
    Sale(usize),
}

impl ReplayDifference {
    pub(super) fn of(mut changes: Vec<ValueChange>) -> Option<Self> {
        let more = changes.len().saturating_sub(CHANGES_MAX);
        changes.truncate(CHANGES_MAX);
        (!changes.is_empty()).then_some(Self::Changed { changes, more })
    }
}

impl std::error::Error for ReplayDifference {}

impl fmt::Display for ReplayDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generation { recorded, given } => write!(
                f,
                "it was held by generation {recorded} of the configuration, this is {given}"
            ),
            Self::Unsound(unsound) => write!(f, "it cannot have been an auction: {unsound}"),
            Self::Changed { changes, more } => {
                for (index, change) in changes.iter().enumerate() {
                    let end = if index > 0 { "\n" } else { "" };
                    write!(f, "{end}{change}")?;
                }
                if *more > 0 {
                    write!(f, "\n… and {more} more")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for ValueChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, name, field, recorded, recomputed } = self;
        match subject {
            ChangedValue::Auction => f.write_str("auction")?,
            ChangedValue::Imp(at) => write!(f, "imps[{at}]")?,
            ChangedValue::Deal(at) => write!(f, "deals[{at}]")?,
            ChangedValue::NotAsked(at) => write!(f, "not_asked[{at}]")?,
            ChangedValue::Call(at) => write!(f, "calls[{at}]")?,
            ChangedValue::Bid(at) => write!(f, "bids[{at}]")?,
            ChangedValue::Sale(at) => write!(f, "sales[{at}]")?,
        }
        if !name.is_empty() {
            write!(f, " ({name})")?;
        }
        write!(f, " {field}: recorded {recorded}, recomputed {recomputed}")
    }
}
