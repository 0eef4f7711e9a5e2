//! Outbound requests: spans of the inbound bytes, and inserts.
//!
//! An [`Editor`] collects the edits once per auction, and marks what differs between DSPs; the
//! resulting [`Outbound`] is read once per DSP with an [`OutboundView`]. Only inserts are copied.
//! Which impressions and deals a DSP sees is the caller's decision.

mod added_data;
mod added_deals;

pub use added_data::{DataMembers, DataPlace, DataSpot};

use std::borrow::Cow;
use std::ops::Range;

use serde_json::value::RawValue;

use crate::imp::{DEALS_MAX, IMPS_MAX};
use crate::json::span_of;
use crate::members::string;
use crate::members::{entries, named};
use crate::request::BidRequest;

/// A set of impressions, by position in the request.
pub type ImpMask = u64;

/// A set of deals, by position over all impressions of the request.
pub type DealMask = u128;

const _: () = assert!(IMPS_MAX <= ImpMask::BITS as usize, "an impression has a bit");
const _: () = assert!(DEALS_MAX <= DealMask::BITS as usize, "a deal has a bit");

/// What one DSP sees.
#[derive(Clone, Copy, Debug)]
pub struct OutboundView<'v> {
    /// The impressions on offer to it; at least one.
    pub imps: ImpMask,
    /// The deals on offer to it.
    pub deals: DealMask,
    /// The value of `tmax`: milliseconds, as decimal text.
    pub tmax: &'v str,
    /// The value of `cur`: a JSON array.
    pub cur: &'v str,
    /// What the DSP calls the user: a JSON string.
    pub buyeruid: Option<&'v str>,
    /// The DSP's name among bidders with parameters in the request, see [`Outbound::names_bidder`].
    pub bidder: Option<&'v str>,
    /// Whether it gets the limited values of [`Editor::limit`].
    pub is_limited: bool,
}

impl OutboundView<'_> {
    const fn offers_imp(&self, imp: u8) -> bool {
        self.imps >> imp & 1 == 1
    }

    const fn offers_deal(&self, deal: u8) -> bool {
        self.deals >> deal & 1 == 1
    }

    /// Whether any of these deals is on offer.
    const fn offers_any(&self, deals: DealRange) -> bool {
        self.deals & deals.mask() != 0
    }
}

/// Deals by position: those from `start` on, before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DealRange {
    start: u8,
    end: u8,
}

impl DealRange {
    fn new(range: Range<usize>) -> Self {
        let position = |at| u8::try_from(at).expect("deals are at most DEALS_MAX");
        Self { start: position(range.start), end: position(range.end) }
    }

    const fn mask(self) -> DealMask {
        Self::below(self.end) & !Self::below(self.start)
    }

    const fn below(end: u8) -> DealMask {
        match (1 as DealMask).checked_shl(end as u32) {
            Some(bit) => bit - 1,
            None => DealMask::MAX,
        }
    }
}

/// Which DSPs receive a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceGate {
    Everyone,
    /// DSPs with an unlimited view.
    Unlimited,
    /// DSPs with a limited view.
    Limited,
    Imp(u8),
    Deal {
        imp: u8,
        deal: u8,
    },
    /// DSPs that see this impression and an earlier one.
    BeforeImp(u8),
    /// DSPs that see this deal and an earlier one of the same impression, whose deals start at
    /// `first`.
    BeforeDeal {
        imp: u8,
        first: u8,
        deal: u8,
    },
    /// DSPs that see any of the impression's added deals.
    Added {
        imp: u8,
        added: DealRange,
    },
    /// DSPs that see the impression, but none of its added deals.
    NoneAdded {
        imp: u8,
        added: DealRange,
    },
    /// DSPs that see this added deal and another one before it: of the request, or added.
    BeforeAdded {
        imp: u8,
        own: DealRange,
        earlier: DealRange,
        deal: u8,
    },
}

impl PieceGate {
    fn opens(self, view: &OutboundView<'_>) -> bool {
        match self {
            Self::Everyone => true,
            Self::Unlimited => !view.is_limited,
            Self::Limited => view.is_limited,
            Self::Imp(imp) => view.offers_imp(imp),
            Self::Deal { imp, deal } => view.offers_imp(imp) && view.offers_deal(deal),
            Self::BeforeImp(imp) => view.offers_imp(imp) && view.imps & ((1 << imp) - 1) != 0,
            Self::BeforeDeal { imp, first, deal } => {
                let earlier = ((1u128 << deal) - 1) >> first << first;
                view.offers_imp(imp) && view.offers_deal(deal) && view.deals & earlier != 0
            }
            Self::Added { imp, added } => view.offers_imp(imp) && view.offers_any(added),
            Self::NoneAdded { imp, added } => view.offers_imp(imp) && !view.offers_any(added),
            Self::BeforeAdded { imp, own, earlier, deal } => {
                let has_earlier = view.offers_any(own) || view.offers_any(earlier);
                view.offers_imp(imp) && view.offers_deal(deal) && has_earlier
            }
        }
    }
}

#[derive(Clone, Debug)]
enum PieceContent {
    Inbound(Range<usize>),
    Insert(Range<usize>),
    Tmax,
    Cur,
    /// A whole member, with a comma if others follow, or nothing.
    BuyerUid {
        others_follow: bool,
    },
    /// An object with only the DSP's own member of these, which are sorted by name.
    Bidder(Range<usize>),
}

#[derive(Clone, Debug)]
struct BodyPiece {
    what: PieceContent,
    gate: PieceGate,
}

#[derive(Clone, Debug)]
struct BodyEdit {
    replaced: Range<usize>,
    what: PieceContent,
    /// Who receives it. None: the DSPs that see its place.
    gate: Option<PieceGate>,
}

impl BodyEdit {
    /// An edit for all DSPs that see its place.
    const fn new(replaced: Range<usize>, what: PieceContent) -> Self {
        Self { replaced, what, gate: None }
    }
}

/// Collects the edits of a request.
#[derive(Debug)]
pub struct Editor<'a> {
    body: &'a str,
    request: &'a BidRequest<'a>,
    inserts: String,
    edits: Vec<BodyEdit>,
    /// Places of values that some DSPs get in a limited form, and that form among the inserts.
    limited: Vec<(Range<usize>, Range<usize>)>,
    bidders: Vec<BidderParams<'a>>,
}

/// A bidder's name, and the place of its member in the request.
#[derive(Clone, Debug)]
struct BidderParams<'a> {
    name: Cow<'a, str>,
    member: Range<usize>,
}

impl<'a> Editor<'a> {
    /// `request` was parsed from `body`.
    pub fn new(body: &'a str, request: &'a BidRequest<'a>) -> Self {
        Self::with_room(body, request, 0)
    }

    /// As [`Self::new`], with room for so many bytes of added data.
    pub fn with_room(body: &'a str, request: &'a BidRequest<'a>, data: usize) -> Self {
        let mut editor = Self {
            body,
            request,
            inserts: String::with_capacity(512 + data),
            edits: Vec::with_capacity(16),
            limited: Vec::new(),
            bidders: Vec::new(),
        };
        let removed = request.fields.removals.iter();
        let removed = removed.map(|span| BodyEdit::new(span.clone(), PieceContent::Insert(0..0)));
        editor.edits.extend(removed);
        editor.mark_tmax();
        editor.mark_cur();
        editor.mark_buyeruid();
        editor.mark_bidders();
        editor
    }

    /// Replaces the request's member `key` for DSPs with a limited view, by the result of `limited`
    /// or an empty object.
    pub fn limit(&mut self, key: &str, limited: impl FnOnce(&str) -> Option<String>) {
        let Some(value) = named(Some(self.body.trim_ascii_start()), key).next() else { return };
        let (span, start) = (self.span_of(value), self.inserts.len());
        let value = self.without_removals(&span);
        self.inserts.push_str(limited(&value).as_deref().unwrap_or("{}"));
        self.limited.push((span, start..self.inserts.len()));
    }

    /// Replaces the JSON value at `span`.
    pub fn replace(&mut self, span: Range<usize>, value: &str) {
        self.replace_for(span, None, |inserts| inserts.push_str(value));
    }

    fn replace_for(
        &mut self,
        span: Range<usize>,
        gate: Option<PieceGate>,
        write: impl FnOnce(&mut String),
    ) {
        let start = self.inserts.len();
        write(&mut self.inserts);
        let what = PieceContent::Insert(start..self.inserts.len());
        self.edits.push(BodyEdit { gate, ..BodyEdit::new(span, what) });
    }

    /// Sets a member of the object at `span`, where `key` is absent, null or empty. `value` is JSON
    /// text.
    pub fn add_member(&mut self, span: &Range<usize>, key: &str, value: &str) {
        if let Some(absent) = self.absent_member(span, key) {
            self.replace(absent, value);
            return;
        }
        self.add_absent_member(span, None, |inserts| inserts.extend(["\"", key, "\":", value]));
    }

    /// Adds a member, which `write` appends as JSON text, to the object at `span`, for DSPs that pass
    /// `gate`.
    fn add_absent_member(
        &mut self,
        span: &Range<usize>,
        gate: Option<PieceGate>,
        write: impl FnOnce(&mut String),
    ) {
        let inside = span.start + 1..span.start + 1;
        let start = self.inserts.len();
        write(&mut self.inserts);
        if self.is_empty_container(span) {
            for edit in self.edits.iter_mut().filter(|edit| edit.replaced == inside) {
                if let PieceContent::BuyerUid { others_follow } = &mut edit.what {
                    *others_follow = true;
                }
            }
        } else {
            self.inserts.push(',');
        }
        let what = PieceContent::Insert(start..self.inserts.len());
        self.edits.push(BodyEdit { gate, ..BodyEdit::new(inside, what) });
    }

    /// Appends an element, as JSON text, to the array at `span`.
    pub fn append(&mut self, span: &Range<usize>, element: &str) {
        self.append_for(span, None, |inserts| inserts.push_str(element));
    }

    fn append_for(
        &mut self,
        span: &Range<usize>,
        gate: Option<PieceGate>,
        write: impl FnOnce(&mut String),
    ) {
        let start = self.inserts.len();
        if !self.is_empty_container(span) {
            self.inserts.push(',');
        }
        write(&mut self.inserts);
        let what = PieceContent::Insert(start..self.inserts.len());
        let end = span.end - 1..span.end - 1;
        self.edits.push(BodyEdit { gate, ..BodyEdit::new(end, what) });
    }

    /// The span of the whole request.
    pub fn root(&self) -> Range<usize> {
        let start = self.body.find('{').expect("a parsed request is an object");
        start..self.body.trim_end().len()
    }

    /// The place of `part`, a slice of the body.
    pub fn span_of(&self, part: &str) -> Range<usize> {
        span_of(part, self.body)
    }

    /// The place of the value of `key` in the object at `span` if it is null or empty, which rules
    /// treat as absent. A second member with the same key would be read differently by parsers.
    fn absent_member(&self, span: &Range<usize>, key: &str) -> Option<Range<usize>> {
        let mut values = named(Some(&self.body[span.clone()]), key);
        let value = values.find(|value| matches!(*value, "null" | "\"\""))?;
        Some(self.span_of(value))
    }

    fn insert(&mut self, text: &str) -> PieceContent {
        let start = self.inserts.len();
        self.inserts.push_str(text);
        PieceContent::Insert(start..self.inserts.len())
    }

    /// Whether only removals and space are between the brackets at `span`.
    fn is_empty_container(&self, span: &Range<usize>) -> bool {
        self.without_removals(&(span.start + 1..span.end - 1)).trim_ascii().is_empty()
    }

    /// The text at `span` without removals.
    fn without_removals(&self, span: &Range<usize>) -> Cow<'a, str> {
        let (mut text, mut at) = (String::new(), span.start);
        for removed in &self.request.fields.removals {
            if span.start <= removed.start && removed.end <= span.end {
                text.push_str(&self.body[at..removed.start]);
                at = removed.end;
            }
        }
        let rest = &self.body[at..span.end];
        if text.is_empty() { Cow::Borrowed(rest) } else { Cow::Owned(text + rest) }
    }

    fn mark_tmax(&mut self) {
        self.mark_value(
            self.request.tmax.as_ref().map(|tmax| tmax.span(self.body)),
            "tmax",
            PieceContent::Tmax,
        );
    }

    fn mark_cur(&mut self) {
        self.mark_value(
            self.request.cur.as_ref().map(|cur| cur.span(self.body)),
            "cur",
            PieceContent::Cur,
        );
    }

    /// Replaces the value at `span`, or adds a member to the request.
    fn mark_value(&mut self, span: Option<Range<usize>>, key: &str, what: PieceContent) {
        if let Some(replaced) = span.or_else(|| self.absent_member(&self.root(), key)) {
            self.edits.push(BodyEdit::new(replaced, what));
            return;
        }
        let inside = self.root().start + 1;
        let (key, comma) = (self.insert(&format!("\"{key}\":")), self.insert(","));
        for what in [key, what, comma] {
            self.edits.push(BodyEdit::new(inside..inside, what));
        }
    }

    /// A buyer's user id must not reach other buyers: the inbound `buyeruid` and maps of them are
    /// among the removals, and each DSP gets its own.
    fn mark_buyeruid(&mut self) {
        let Some(span) = self.request.fields.user.clone() else { return };
        let at = span.start + 1..span.start + 1;
        let others_follow = !self.is_empty_container(&span);
        self.edits.push(BodyEdit::new(at, PieceContent::BuyerUid { others_follow }));
    }

    /// Bidder parameters, as Prebid sends them, are for one bidder each: a DSP sees those under its
    /// own id.
    fn mark_bidders(&mut self) {
        let request = self.request;
        let of_imps = request.imps().iter().map(|imp| (imp.ext, "bidder"));
        let exts = of_imps.chain([(request.ext, "bidderparams"), (request.ext, "bidderconfig")]);
        for (ext, key) in exts {
            // Few requests have any. An escape may hide the key.
            let may_name = |ext: &&str| {
                memchr::memmem::find(ext.as_bytes(), b"prebid").is_some() || ext.contains('\\')
            };
            let ext = ext.map(RawValue::get).filter(may_name);
            for value in named(ext, "prebid").flat_map(|prebid| named(Some(prebid), key)) {
                let replaced = self.span_of(value);
                if value.starts_with('[') {
                    self.replace(replaced, "[]"); // `bidderconfig` lists settings, not bidders.
                    continue;
                }
                let first = self.bidders.len();
                for (name, params) in entries(Some(value), b'{') {
                    let member = self.span_of(name).start..self.span_of(params).end;
                    self.bidders.extend(string(name).map(|name| BidderParams { name, member }));
                }
                // Sorted for the look-up by each DSP.
                self.bidders[first..].sort_by(|a, b| a.name.cmp(&b.name));
                let what = PieceContent::Bidder(first..self.bidders.len());
                self.edits.push(BodyEdit::new(replaced, what));
            }
        }
    }

    /// Orders the edits into pieces.
    pub fn finish(mut self) -> Outbound<'a> {
        self.edits.sort_by_key(|edit| edit.replaced.start);
        self.limited.sort_by_key(|(span, _)| span.start);
        let body = self.body;
        // Each edit has bytes of the request before it, and so have most places of impressions.
        let pieces_usual = 2 * (self.edits.len() + self.request.imps().len()) + 8;
        let mut pieces = PieceBuilder {
            edits: self.edits.into_iter().peekable(),
            limited: self.limited.into_iter().peekable(),
            out: Vec::with_capacity(pieces_usual),
            at: 0,
        };
        let mut deal_index = 0u8;
        for (index, imp) in (0u8..).zip(self.request.imps()) {
            let span = imp.span(body);
            let before = if index == 0 { PieceGate::Everyone } else { PieceGate::BeforeImp(index) };
            pieces.until(span.start, before);
            let first = deal_index;
            for deal in imp.deals() {
                let deal_span = deal.span(body);
                let before = if deal_index == first {
                    PieceGate::Imp(index)
                } else {
                    PieceGate::BeforeDeal { imp: index, first, deal: deal_index }
                };
                pieces.until(deal_span.start, before);
                pieces.until(deal_span.end, PieceGate::Deal { imp: index, deal: deal_index });
                deal_index += 1;
            }
            pieces.until(span.end, PieceGate::Imp(index));
        }
        pieces.until(body.len(), PieceGate::Everyone);
        Outbound { body, inserts: self.inserts, pieces: pieces.out, bidders: self.bidders }
    }
}

struct PieceBuilder {
    edits: std::iter::Peekable<std::vec::IntoIter<BodyEdit>>,
    limited: std::iter::Peekable<std::vec::IntoIter<(Range<usize>, Range<usize>)>>,
    out: Vec<BodyPiece>,
    at: usize,
}

impl PieceBuilder {
    /// Emits everything up to `end` under one gate, and limited values separately.
    fn until(&mut self, end: usize, gate: PieceGate) {
        while let Some((span, limited)) = self.limited.next_if(|(span, _)| span.start < end) {
            self.edited(span.start, gate);
            self.out
                .push(BodyPiece { what: PieceContent::Insert(limited), gate: PieceGate::Limited });
            self.edited(span.end, PieceGate::Unlimited);
        }
        self.edited(end, gate);
    }

    /// Emits everything up to `end` under one gate, with edits applied.
    fn edited(&mut self, end: usize, gate: PieceGate) {
        while let Some(edit) = self.edits.next_if(|edit| edit.replaced.start < end) {
            self.inbound(edit.replaced.start, gate);
            self.out.push(BodyPiece { what: edit.what, gate: edit.gate.unwrap_or(gate) });
            self.at = self.at.max(edit.replaced.end);
        }
        self.inbound(end, gate);
    }

    fn inbound(&mut self, end: usize, gate: PieceGate) {
        if self.at < end {
            self.out.push(BodyPiece { what: PieceContent::Inbound(self.at..end), gate });
            self.at = end;
        }
    }
}

/// A request ready to be read once per DSP.
#[derive(Debug)]
pub struct Outbound<'a> {
    body: &'a str,
    inserts: String,
    pieces: Vec<BodyPiece>,
    bidders: Vec<BidderParams<'a>>,
}

impl Outbound<'_> {
    /// Whether the request has parameters for the bidder of this name.
    pub fn names_bidder(&self, name: &str) -> bool {
        self.pieces.iter().any(|piece| match &piece.what {
            PieceContent::Bidder(range) => self.bidder(range, name).is_some(),
            _ => false,
        })
    }

    /// The bidder of this name in the sorted map at `range`.
    fn bidder(&self, range: &Range<usize>, name: &str) -> Option<&BidderParams<'_>> {
        let bidders = &self.bidders[range.clone()];
        let first = bidders.partition_point(|bidder| &*bidder.name < name);
        bidders.get(first).filter(|bidder| bidder.name == name)
    }

    /// Calls `slice` with the parts of what the DSP sees, in order. Adjacent spans of the inbound
    /// body are joined.
    pub fn for_each<'s>(&'s self, view: &OutboundView<'s>, mut slice: impl FnMut(&'s str)) {
        let mut pending = 0..0;
        for piece in self.pieces.iter().filter(|piece| piece.gate.opens(view)) {
            if let PieceContent::Inbound(span) = &piece.what {
                if pending.end == span.start {
                    pending.end = span.end;
                    continue;
                }
                emit(&self.body[std::mem::replace(&mut pending, span.clone())], &mut slice);
                continue;
            }
            emit(&self.body[std::mem::replace(&mut pending, 0..0)], &mut slice);
            match &piece.what {
                PieceContent::Inbound(_) => (),
                PieceContent::Insert(span) => emit(&self.inserts[span.clone()], &mut slice),
                PieceContent::Tmax => emit(view.tmax, &mut slice),
                PieceContent::Cur => emit(view.cur, &mut slice),
                PieceContent::Bidder(range) => {
                    let own = view.bidder.and_then(|name| self.bidder(range, name));
                    slice("{");
                    emit(&self.body[own.map_or(0..0, |own| own.member.clone())], &mut slice);
                    slice("}");
                }
                PieceContent::BuyerUid { others_follow } => {
                    if let Some(buyeruid) = view.buyeruid {
                        slice("\"buyeruid\":");
                        slice(buyeruid);
                        emit(if *others_follow { "," } else { "" }, &mut slice);
                    }
                }
            }
        }
        emit(&self.body[pending], &mut slice);
    }

    /// What the DSP sees, as one string.
    pub fn to_text(&self, view: &OutboundView<'_>) -> String {
        let mut text = String::with_capacity(self.body.len() + self.inserts.len());
        self.for_each(view, |slice| text.push_str(slice));
        text
    }
}

fn emit<'s>(text: &'s str, slice: &mut impl FnMut(&'s str)) {
    if !text.is_empty() {
        slice(text);
    }
}

#[cfg(test)]
mod tests;
