//! Figures as bytes and back, to the bit: little-endian, none left out, each checked on its way back.
//!
//! Owns how a figure is written. What the figures are is said by whoever writes them.

pub(crate) mod leb128;

use std::ops::RangeInclusive;

/// Why bytes are not what was written. Order is precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateDecodeError {
    /// They end too early.
    #[error("it ends too early")]
    Truncated,
    /// Another release wrote them.
    #[error("it has version {found}, this program reads {known}")]
    Version {
        /// Theirs.
        found: u8,
        /// The one that is read.
        known: u8,
    },
    /// A figure that none has.
    #[error("{0} is out of its range")]
    Range(&'static str),
    /// More bytes than were written.
    #[error("it goes on behind its end")]
    Trailing,
}

/// Writes figures behind what stands there.
pub(crate) struct StateEncoder<'a>(pub(crate) &'a mut Vec<u8>);

impl StateEncoder<'_> {
    pub(crate) fn u8(&mut self, figure: u8) {
        self.0.push(figure);
    }

    pub(crate) fn u32(&mut self, figure: u32) {
        self.0.extend_from_slice(&figure.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, figure: u64) {
        self.0.extend_from_slice(&figure.to_le_bytes());
    }

    /// By its bits: it comes back as it is.
    pub(crate) fn f64(&mut self, figure: f64) {
        self.u64(figure.to_bits());
    }

    pub(crate) fn flag(&mut self, is_so: bool) {
        self.u8(u8::from(is_so));
    }
}

/// Reads figures in their order.
pub(crate) struct StateDecoder<'a>(pub(crate) &'a [u8]);

impl StateDecoder<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], StateDecodeError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(StateDecodeError::Truncated)?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, StateDecodeError> {
        Ok(u8::from_le_bytes(self.bytes()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, StateDecodeError> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, StateDecodeError> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    /// At most so much.
    pub(crate) fn u64_to(
        &mut self,
        name: &'static str,
        most: u64,
    ) -> Result<u64, StateDecodeError> {
        self.u64().and_then(|figure| ranged(name, figure, figure <= most))
    }

    /// A number within a range: never none.
    pub(crate) fn f64_in(
        &mut self,
        name: &'static str,
        range: RangeInclusive<f64>,
    ) -> Result<f64, StateDecodeError> {
        let figure = f64::from_bits(self.u64()?);
        ranged(name, figure, range.contains(&figure))
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> Result<bool, StateDecodeError> {
        self.u8().and_then(|byte| ranged(name, byte == 1, byte <= 1))
    }

    /// There is nothing more.
    pub(crate) const fn end(self) -> Result<(), StateDecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(StateDecodeError::Trailing) }
    }
}

/// The figure, where it is one that can be.
pub(crate) fn ranged<T>(
    name: &'static str,
    figure: T,
    is_in_range: bool,
) -> Result<T, StateDecodeError> {
    if is_in_range { Ok(figure) } else { Err(StateDecodeError::Range(name)) }
}
