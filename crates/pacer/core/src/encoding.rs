//! The binary encoding of state: exact, little-endian, complete, and checked on decoding.
//!
//! Owns how a figure is encoded; callers choose the figures.

pub(crate) mod leb128;

use std::ops::RangeInclusive;

/// Why bytes are invalid, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum StateDecodeError {
    /// They end too early.
    #[error("it ends too early")]
    Truncated,
    /// Another release wrote them.
    #[error("it has version {found}, this program reads {known}")]
    Version { found: u8, known: u8 },
    /// A figure is out of range.
    #[error("{0} is out of its range")]
    Range(&'static str),
    /// Bytes remain after the end.
    #[error("it goes on behind its end")]
    Trailing,
}

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

    /// By its bits, so that it decodes exactly.
    pub(crate) fn f64(&mut self, figure: f64) {
        self.u64(figure.to_bits());
    }

    pub(crate) fn flag(&mut self, is_so: bool) {
        self.u8(u8::from(is_so));
    }
}

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

    pub(crate) fn u64_to(
        &mut self,
        name: &'static str,
        most: u64,
    ) -> Result<u64, StateDecodeError> {
        self.u64().and_then(|figure| ranged(name, figure, figure <= most))
    }

    /// A number within a range, so never NaN.
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

    pub(crate) const fn end(self) -> Result<(), StateDecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(StateDecodeError::Trailing) }
    }
}

pub(crate) fn ranged<T>(
    name: &'static str,
    figure: T,
    is_in_range: bool,
) -> Result<T, StateDecodeError> {
    if is_in_range { Ok(figure) } else { Err(StateDecodeError::Range(name)) }
}
