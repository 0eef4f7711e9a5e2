//! Frames as their receivers read them: without a copy, each part checked before it is used.

use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::codes::{DecisionCode, ProtocolError, SettlementCode};
use crate::frame::{FrameError, FrameKind, RawFrame};
use crate::layout::{
    BatchFields, BidRequestEntry, CandidateEntry, DecisionEntry, DecisionsFields, ErrorFields,
    HeartbeatFields, SettledEntry, SettledFields, SettlementEntry, TOKEN_BYTES,
};

/// Entries that lie one behind the other, each at least as long as a `T`.
#[derive(Debug)]
pub struct Entries<'b, T> {
    bytes: &'b [u8],
    stride: usize,
    layout: PhantomData<&'b T>,
}

impl<T> Clone for Entries<'_, T> {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes, stride: self.stride, layout: PhantomData }
    }
}

impl<'b, T> Entries<'b, T> {
    fn new(bytes: &'b [u8], stride: usize) -> Self {
        Self { bytes, stride, layout: PhantomData }
    }

    /// All entries of a frame.
    fn of(frame: &RawFrame<'b>) -> Result<Self, FrameError> {
        Ok(Self::new(frame.entries::<T>()?, frame.head.block_len.into()))
    }

    /// Takes the first `count` entries.
    fn take_first(&mut self, count: usize) -> Self {
        let (first, rest) = self.bytes.split_at(count * self.stride);
        self.bytes = rest;
        Self::new(first, self.stride)
    }
}

impl<'b, T: FromBytes + KnownLayout + Immutable + Unaligned> Iterator for Entries<'b, T> {
    type Item = &'b T;

    fn next(&mut self) -> Option<&'b T> {
        if self.bytes.is_empty() {
            return None;
        }
        let (entry, rest) = self.bytes.split_at(self.stride);
        self.bytes = rest;
        let (entry, _) = T::ref_from_prefix(entry).expect("a stride is at least one entry");
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.bytes.len().checked_div(self.stride).unwrap_or(0);
        (left, Some(left))
    }
}

impl<T: FromBytes + KnownLayout + Immutable + Unaligned> ExactSizeIterator for Entries<'_, T> {}

/// Bid requests, each with its candidates.
#[derive(Clone, Debug)]
pub struct BatchFrame<'b> {
    /// Microseconds from the receipt of the frame until its decisions must have left.
    pub deadline_us: u32,
    requests: Entries<'b, BidRequestEntry>,
    candidates: Entries<'b, CandidateEntry>,
}

/// A bid request.
#[derive(Clone, Debug)]
pub struct BatchRequest<'b> {
    /// The request.
    pub request: &'b BidRequestEntry,
    /// At least one.
    pub candidates: Entries<'b, CandidateEntry>,
}

impl<'b> BatchFrame<'b> {
    /// Checks a batch of at most `requests_max` requests with `candidates_max` candidates each.
    ///
    /// # Errors
    /// Lengths and counts.
    pub fn decode(
        frame: &RawFrame<'b>,
        requests_max: u16,
        candidates_max: u16,
    ) -> Result<Self, FrameError> {
        let fields = frame.fixed::<BatchFields>()?;
        frame.count(requests_max)?;
        let requests = Entries::<BidRequestEntry>::of(frame)?;
        let stride = usize::from(fields.candidate_len);
        let expected = usize::from(fields.candidates.get()) * stride;
        if stride < size_of::<CandidateEntry>() || frame.tail().len() != expected {
            return Err(FrameError::Length);
        }
        let mut total = 0_u32;
        for request in requests.clone() {
            let count = u16::from(request.candidates);
            if count == 0 || count > candidates_max {
                return Err(FrameError::Count(count));
            }
            total += u32::from(count);
        }
        if total != u32::from(fields.candidates.get()) {
            return Err(FrameError::Count(fields.candidates.get()));
        }
        let candidates = Entries::new(frame.tail(), stride);
        Ok(Self { deadline_us: fields.deadline_us.get(), requests, candidates })
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether it has no request left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The candidates of all requests that are left.
    pub fn candidates(&self) -> Entries<'b, CandidateEntry> {
        self.candidates.clone()
    }
}

impl<'b> Iterator for BatchFrame<'b> {
    type Item = BatchRequest<'b>;

    #[inline]
    fn next(&mut self) -> Option<BatchRequest<'b>> {
        let request = self.requests.next()?;
        let candidates = self.candidates.take_first(request.candidates.into());
        Some(BatchRequest { request, candidates })
    }
}

/// A decision for each request of a batch.
#[derive(Clone, Debug)]
pub struct DecisionsFrame<'b> {
    /// The catalogue with which the whole batch was decided.
    pub generation: u64,
    /// Frames that the client may have unanswered.
    pub credit: u16,
    decisions: Entries<'b, DecisionEntry>,
    tokens: &'b [u8],
    token_len: usize,
}

impl<'b> DecisionsFrame<'b> {
    /// Checks decisions.
    ///
    /// # Errors
    /// Lengths and counts; a code that this version does not know.
    pub fn decode(frame: &RawFrame<'b>) -> Result<Self, FrameError> {
        let fields = frame.fixed::<DecisionsFields>()?;
        frame.count(u16::MAX)?;
        let decisions = Entries::<DecisionEntry>::of(frame)?;
        let (tokens, token_len) = (fields.tokens.get(), usize::from(fields.token_len));
        if token_len < TOKEN_BYTES || frame.tail().len() != usize::from(tokens) * token_len {
            return Err(FrameError::Length);
        }
        let authorised = DecisionCode::Authorised as u8;
        if decisions.clone().filter(|decision| decision.code == authorised).count()
            != usize::from(tokens)
        {
            return Err(FrameError::Count(tokens));
        }
        Ok(Self {
            generation: fields.generation.get(),
            credit: fields.credit.get(),
            decisions,
            tokens: frame.tail(),
            token_len,
        })
    }

    /// Number of decisions.
    pub fn len(&self) -> usize {
        self.decisions.len()
    }

    /// Whether it has no decision left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'b> Iterator for DecisionsFrame<'b> {
    /// With a token if authorised.
    type Item = (&'b DecisionEntry, Option<&'b [u8; TOKEN_BYTES]>);

    fn next(&mut self) -> Option<Self::Item> {
        let decision = self.decisions.next()?;
        if decision.code != DecisionCode::Authorised as u8 {
            return Some((decision, None));
        }
        let (token, rest) = self.tokens.split_at(self.token_len);
        self.tokens = rest;
        Some((decision, token.first_chunk()))
    }
}

/// Reservations that were won or lost.
#[derive(Clone, Debug)]
pub struct SettleFrame<'b>(Entries<'b, SettlementEntry>);

impl<'b> SettleFrame<'b> {
    /// Checks at most `settlements_max` settlements.
    ///
    /// # Errors
    /// Lengths and counts.
    pub fn decode(frame: &RawFrame<'b>, settlements_max: u16) -> Result<Self, FrameError> {
        frame.count(settlements_max)?;
        if !frame.tail().is_empty() {
            return Err(FrameError::Length);
        }
        Entries::of(frame).map(Self)
    }

    /// The settlements.
    pub fn entries(&self) -> Entries<'b, SettlementEntry> {
        self.0.clone()
    }
}

/// The result of each settlement of a frame.
#[derive(Clone, Debug)]
pub struct SettledFrame<'b> {
    /// Frames that the client may have unanswered.
    pub credit: u16,
    codes: Entries<'b, SettledEntry>,
}

impl<'b> SettledFrame<'b> {
    /// Checks results.
    ///
    /// # Errors
    /// Lengths and counts.
    pub fn decode(frame: &RawFrame<'b>) -> Result<Self, FrameError> {
        let fields = frame.fixed::<SettledFields>()?;
        frame.count(u16::MAX)?;
        Ok(Self { credit: fields.credit.get(), codes: Entries::of(frame)? })
    }

    /// The results in the order of the settlements. None for one that this version does not know.
    pub fn codes(&self) -> impl ExactSizeIterator<Item = Option<SettlementCode>> + use<'b> {
        self.codes.clone().map(|entry| SettlementCode::from_number(entry.code))
    }
}

impl<'b> RawFrame<'b> {
    /// The fixed part of a heartbeat.
    ///
    /// # Errors
    /// Its length.
    pub fn heartbeat(&self) -> Result<&'b HeartbeatFields, FrameError> {
        self.fixed()
    }

    /// Code and text of an error. The code is None if this version does not know it.
    ///
    /// # Errors
    /// Its length; a text that is not UTF-8.
    pub fn error(&self) -> Result<(Option<ProtocolError>, &'b str), FrameError> {
        let fields = self.fixed::<ErrorFields>()?;
        let text = self.tail().get(..fields.text_len.get().into()).ok_or(FrameError::Length)?;
        let text = str::from_utf8(text).map_err(|_| FrameError::Text)?;
        let code = u8::try_from(fields.code.get()).ok().and_then(ProtocolError::from_number);
        Ok((code, text))
    }

    /// Whether a client may send this kind after its hello.
    pub const fn is_of_client(&self) -> bool {
        matches!(self.kind, FrameKind::Batch | FrameKind::Settle | FrameKind::Heartbeat)
    }
}
