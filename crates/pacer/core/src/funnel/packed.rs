//! Past counts in few bytes: most steps of most campaigns are zero.
//!
//! Entries in order of time, about 12 bytes each, all LEB128: the distance from the previous entry
//! in ten minutes, whether it is a whole hour, the set of nonzero steps, and their counts.

use units::Nanos;

use super::{FunnelCounts, FunnelStep};
use crate::encoding::leb128::{put, take};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PastPart {
    /// In units of ten minutes since 1970.
    pub(super) part: u32,
    pub(super) is_hour: bool,
    pub(super) counts: FunnelCounts,
}

/// The bit of the amount spent, after those of the steps.
const SPENT: u32 = 1 << FunnelStep::ALL.len();

pub(super) fn pack(parts: &[PastPart]) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(parts.len() * 16);
    let mut before = 0;
    for PastPart { part, is_hour, counts } in parts {
        assert!(before <= *part, "entries are in order of time");
        let since = u64::from(part - before);
        before = *part;
        put(&mut bytes, since << 1 | u64::from(*is_hour));
        let told = FunnelStep::ALL.into_iter().filter(|step| counts.get(*step) > 0);
        let mut set = told.clone().fold(0, |set, step| set | 1 << step as u32);
        if counts.spent > Nanos::ZERO {
            set |= SPENT;
        }
        put(&mut bytes, u64::from(set));
        told.for_each(|step| put(&mut bytes, u64::from(counts.get(step))));
        if set & SPENT != 0 {
            put(&mut bytes, counts.spent.get());
        }
    }
    bytes.into()
}

pub(super) fn unpack(mut bytes: &[u8]) -> Vec<PastPart> {
    let mut parts = Vec::new();
    let mut before = 0;
    let small = |word: u64| u32::try_from(word).expect("it was packed from 32 bits");
    while !bytes.is_empty() {
        let begin = take(&mut bytes);
        let set = small(take(&mut bytes));
        let mut counts = FunnelCounts::default();
        for step in FunnelStep::ALL.into_iter().filter(|step| set >> *step as u32 & 1 == 1) {
            counts.count(step, small(take(&mut bytes)));
        }
        if set & SPENT != 0 {
            counts.spent = Nanos::new(take(&mut bytes));
        }
        before += small(begin >> 1);
        parts.push(PastPart { part: before, is_hour: begin & 1 == 1, counts });
    }
    parts
}
