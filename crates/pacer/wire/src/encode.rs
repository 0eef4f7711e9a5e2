//! Writes frames behind what a buffer already contains, without allocating if it has room.

use zerocopy::IntoBytes as _;
use zerocopy::little_endian::{U16, U32, U64};

use crate::codes::{DecisionCode, ProtocolError, SettlementCode};
use crate::frame::{EntryLayout, FrameKind, HEAD_BYTES, begin, finish};
use crate::layout::{
    BatchFields, BidRequestEntry, CandidateEntry, DecisionEntry, DecisionsFields, ErrorFields,
    HeartbeatFields, SettledEntry, SettledFields, SettlementEntry, TOKEN_BYTES,
};

const DECISION_BYTES: usize = size_of::<DecisionEntry>();
const SETTLED_BYTES: usize = size_of::<SettledEntry>();

/// A request to send, with its candidates.
#[derive(Clone, Copy, Debug)]
pub struct BatchItem<'r> {
    /// The request; its number of candidates is set when it is written.
    pub request: BidRequestEntry,
    /// At least one.
    pub candidates: &'r [CandidateEntry],
}

/// Writes a batch, whose decisions must leave the server within `deadline_us` of its receipt.
///
/// # Panics
/// If a request has no candidate or more than 255, or the batch more than 65,535 of either.
pub fn write_batch<'r>(
    out: &mut Vec<u8>,
    sequence: u64,
    deadline_us: u32,
    requests: impl ExactSizeIterator<Item = BatchItem<'r>> + Clone,
) {
    let candidates: usize = requests.clone().map(|request| request.candidates.len()).sum();
    let fields = BatchFields {
        deadline_us: U32::new(deadline_us),
        candidates: U16::new(u16::try_from(candidates).expect("at most 65,535 candidates")),
        candidate_len: u8::try_from(size_of::<CandidateEntry>()).expect("it is short"),
        reserved: 0,
    };
    let entries = EntryLayout::of::<BidRequestEntry>(requests.len());
    let start = begin(out, FrameKind::Batch, sequence, &fields, entries);
    for BatchItem { request, candidates } in requests.clone() {
        let candidates = u8::try_from(candidates.len()).expect("at most 255 candidates");
        assert!(candidates > 0, "a request has a candidate");
        out.extend_from_slice(BidRequestEntry { candidates, ..request }.as_bytes());
    }
    requests.for_each(|request| out.extend_from_slice(request.candidates.as_bytes()));
    finish(out, start);
}

/// Writes settlements.
///
/// # Panics
/// If there are more than 65,535.
pub fn write_settle(out: &mut Vec<u8>, sequence: u64, settlements: &[SettlementEntry]) {
    let entries = EntryLayout::of::<SettlementEntry>(settlements.len());
    let start = begin(out, FrameKind::Settle, sequence, &[0_u8; 0], entries);
    out.extend_from_slice(settlements.as_bytes());
    finish(out, start);
}

/// Writes a heartbeat. `credit` is zero from a client.
pub fn write_heartbeat(out: &mut Vec<u8>, sequence: u64, unix_ns: u64, credit: u16) {
    let (unix_ns, credit) = (U64::new(unix_ns), U16::new(credit));
    let fields = HeartbeatFields { unix_ns, credit, reserved: [0; 6] };
    let start = begin(out, FrameKind::Heartbeat, sequence, &fields, EntryLayout::NONE);
    finish(out, start);
}

/// Writes the last frame of a connection: why it closes. A long text is cut.
pub fn write_error(out: &mut Vec<u8>, sequence: u64, code: ProtocolError, text: &str) {
    let text = &text[..text.floor_char_boundary(200)];
    let text_len = U16::new(u16::try_from(text.len()).expect("it is cut"));
    let fields = ErrorFields { code: U16::new((code as u8).into()), text_len };
    let start = begin(out, FrameKind::Error, sequence, &fields, EntryLayout::NONE);
    out.extend_from_slice(text.as_bytes());
    finish(out, start);
}

/// Length of the decisions on `requests` requests, if all are authorised.
pub const fn decisions_bytes_max(requests: usize) -> u64 {
    (HEAD_BYTES + size_of::<DecisionsFields>() + requests * (DECISION_BYTES + TOKEN_BYTES)) as u64
}

/// Writes the decisions on one batch, in its order.
#[derive(Debug)]
pub struct DecisionsWriter<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    next: usize,
    end: usize,
    tokens: u16,
}

impl<'o> DecisionsWriter<'o> {
    /// Begins the answer to the batch of `sequence`, which has `count` requests.
    pub fn new(out: &'o mut Vec<u8>, sequence: u64, generation: u64, count: usize) -> Self {
        let fields = DecisionsFields {
            generation: U64::new(generation),
            credit: U16::ZERO,
            tokens: U16::ZERO,
            token_len: u8::try_from(TOKEN_BYTES).expect("it is short"),
            reserved: [0; 3],
        };
        let entries = EntryLayout::of::<DecisionEntry>(count);
        let start = begin(out, FrameKind::Decisions, sequence, &fields, entries);
        let next = out.len();
        let end = next + count * DECISION_BYTES;
        out.resize(end, 0);
        Self { out, start, next, end, tokens: 0 }
    }

    /// The next request is refused.
    pub fn refuse(&mut self, code: DecisionCode) {
        self.put(&DecisionEntry {
            price: U64::ZERO,
            code: code as u8,
            candidate: 0,
            reservation_s: U16::ZERO,
            reserved: U32::ZERO,
        });
    }

    /// The next request may bid for `candidate`, at `amount` in the unit of its offer.
    pub fn authorise(
        &mut self,
        candidate: u8,
        amount: u64,
        reservation_s: u16,
        token: &[u8; TOKEN_BYTES],
    ) {
        self.put(&DecisionEntry {
            price: U64::new(amount),
            code: DecisionCode::Authorised as u8,
            candidate,
            reservation_s: U16::new(reservation_s),
            reserved: U32::ZERO,
        });
        self.out.extend_from_slice(token);
        self.tokens += 1;
    }

    /// Completes the frame.
    ///
    /// # Panics
    /// Unless every request has its decision.
    pub fn finish(self, credit: u16) {
        assert_eq!(self.next, self.end, "every request is decided");
        let fields = &mut self.out[self.start + HEAD_BYTES..];
        fields[8..10].copy_from_slice(&credit.to_le_bytes());
        fields[10..12].copy_from_slice(&self.tokens.to_le_bytes());
        finish(self.out, self.start);
    }

    fn put(&mut self, entry: &DecisionEntry) {
        self.out[self.next..self.next + DECISION_BYTES].copy_from_slice(entry.as_bytes());
        self.next += DECISION_BYTES;
    }
}

/// Writes the results of one frame of settlements, in its order.
#[derive(Debug)]
pub struct SettledWriter<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    end: usize,
}

impl<'o> SettledWriter<'o> {
    /// Begins the answer to the frame of `sequence`, which has `count` settlements.
    pub fn new(out: &'o mut Vec<u8>, sequence: u64, credit: u16, count: usize) -> Self {
        let fields = SettledFields { credit: U16::new(credit), reserved: [0; 6] };
        let entries = EntryLayout::of::<SettledEntry>(count);
        let start = begin(out, FrameKind::Settled, sequence, &fields, entries);
        let end = out.len() + count * SETTLED_BYTES;
        Self { out, start, end }
    }

    /// The next result.
    pub fn put(&mut self, code: SettlementCode) {
        let entry = SettledEntry { code: code as u8, reserved: [0; 3] };
        self.out.extend_from_slice(entry.as_bytes());
    }

    /// Completes the frame.
    ///
    /// # Panics
    /// Unless every settlement has its result.
    pub fn finish(self) {
        assert_eq!(self.out.len(), self.end, "every settlement has its result");
        finish(self.out, self.start);
    }
}
