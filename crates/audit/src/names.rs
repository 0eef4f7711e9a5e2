//! Names of DSPs and seats, which records store as positions in a generation of the configuration.

use std::borrow::Cow;

use exchange_core::record::{AuctionRecord, GenerationRecord};

/// Names, if the generation is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DspNames<'g>(pub Option<&'g GenerationRecord>);

impl<'g> DspNames<'g> {
    /// Uses `generation` if it is the one that the record names.
    pub fn of(record: &AuctionRecord<'_>, generation: Option<&'g GenerationRecord>) -> Self {
        Self(generation.filter(|facts| facts.number == record.generation))
    }

    /// A DSP's id, or `#` and its position.
    pub fn dsp(self, dsp: usize) -> Cow<'g, str> {
        let known = self.0.and_then(|facts| facts.dsps.get(dsp));
        known.map_or_else(|| unknown(dsp), |dsp| Cow::Borrowed(&*dsp.id))
    }

    /// A seat's name, or `#` and its position.
    pub fn seat(self, dsp: usize, seat: usize) -> Cow<'g, str> {
        let known = self.0.and_then(|facts| facts.dsps.get(dsp));
        let known = known.and_then(|dsp| dsp.seats.get(seat));
        known.map_or_else(|| unknown(seat), |seat| Cow::Borrowed(&**seat))
    }
}

fn unknown(position: usize) -> Cow<'static, str> {
    Cow::Owned(format!("#{position}"))
}
