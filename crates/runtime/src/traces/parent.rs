//! The `traceparent` header: the trace of a caller's request (W3C Trace Context, section 3.2).

use super::span::SpanId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) trace_id: u128,
    pub(super) span_id: SpanId,
    pub(super) is_sampled: bool,
}

impl Parent {
    /// Parses the header's value. None if it is invalid, which restarts the trace.
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let text = str::from_utf8(value).ok()?;
        let (version, rest) = field(text, 2)?;
        let (trace_id, rest) = field(rest.strip_prefix('-')?, 32)?;
        let (span_id, rest) = field(rest.strip_prefix('-')?, 16)?;
        let (flags, rest) = field(rest.strip_prefix('-')?, 2)?;
        let ends = match version {
            0 => rest.is_empty(),
            0xff => false,
            // Future versions may append fields.
            _ => rest.is_empty() || rest.starts_with('-'),
        };
        let span_id = SpanId::new(u64::try_from(span_id).ok()?)?;
        let is_valid = ends && trace_id != 0;
        is_valid.then_some(Self { trace_id, span_id, is_sampled: flags & 1 == 1 })
    }
}

/// A number of `digits` lower-case hexadecimal digits, and the rest.
fn field(text: &str, digits: usize) -> Option<(u128, &str)> {
    let (field, rest) = text.split_at_checked(digits)?;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let number = u128::from_str_radix(field, 16).ok()?;
    field.bytes().all(is_digit).then_some((number, rest))
}

#[cfg(test)]
mod tests;
