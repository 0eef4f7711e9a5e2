//! The catalogue: the campaigns that a client may name, and their states.

use units::Currency;
use zerocopy::FromBytes as _;
use zerocopy::IntoBytes as _;
use zerocopy::little_endian::{U16, U32, U64};

use crate::codes::DecisionCode;
use crate::frame::{EntryLayout, FrameError, FrameKind, HEAD_BYTES, RawFrame, begin, finish};
use crate::layout::{CatalogueEntry, CatalogueFields};

/// Every earlier row is void: the catalogue begins anew.
const COMPLETE: u8 = 1;
/// The last frame of its generation.
const LAST: u8 = 2;
/// Prices are micros of the currency per 1000 impressions.
const MICROS_CPM: u8 = 1;
/// Position of the flags in a frame.
const FLAGS_AT: usize = HEAD_BYTES + 10;

/// A row of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogueRow<'b> {
    /// The campaign's handle, never reused while the server runs.
    pub handle: u32,
    /// [`DecisionCode::Authorised`] if it may spend, otherwise why not;
    /// [`DecisionCode::Unknown`] if it is removed.
    pub state: DecisionCode,
    /// Currency of its account, and of its prices.
    pub currency: Currency,
    /// Id of its account; at most 255 bytes.
    pub account: &'b str,
    /// Its own id; at most 255 bytes.
    pub campaign: &'b str,
}

/// A frame of the catalogue.
#[derive(Clone, Debug)]
pub struct CatalogueChange<'b> {
    /// Number of the catalogue.
    pub generation: u64,
    /// Frames that the client may have unanswered.
    pub credit: u16,
    /// Whether every earlier row is void.
    pub is_complete: bool,
    /// Whether it is the last frame of its generation.
    pub is_last: bool,
    entries: &'b [u8],
    stride: usize,
    names: &'b [u8],
}

impl<'b> CatalogueChange<'b> {
    /// Checks a frame of the catalogue. Rows are checked when they are read.
    ///
    /// # Errors
    /// Its lengths.
    pub fn decode(frame: &RawFrame<'b>) -> Result<Self, FrameError> {
        let fields = frame.fixed::<CatalogueFields>()?;
        let (entries, stride) = match frame.head.count.get() {
            0 => (&[][..], size_of::<CatalogueEntry>()),
            _ => (frame.entries::<CatalogueEntry>()?, frame.head.block_len.into()),
        };
        Ok(Self {
            generation: fields.generation.get(),
            credit: fields.credit.get(),
            is_complete: fields.flags & COMPLETE != 0,
            is_last: fields.flags & LAST != 0,
            entries,
            stride,
            names: frame.tail(),
        })
    }

    fn row(&mut self, entry: &'b [u8]) -> Result<Option<CatalogueRow<'b>>, FrameError> {
        let (entry, _) = CatalogueEntry::ref_from_prefix(entry).map_err(|_| FrameError::Length)?;
        let mut name = |length: u8| {
            let (name, rest) =
                self.names.split_at_checked(length.into()).ok_or(FrameError::Length)?;
            self.names = rest;
            str::from_utf8(name).map_err(|_| FrameError::Text)
        };
        let (account, campaign) = (name(entry.account_len)?, name(entry.campaign_len)?);
        let currency = str::from_utf8(&entry.currency).map_err(|_| FrameError::Text)?;
        if entry.unit != MICROS_CPM {
            return Ok(None);
        }
        Ok(Some(CatalogueRow {
            handle: entry.campaign.get(),
            state: DecisionCode::from_number(entry.state).unwrap_or(DecisionCode::Unavailable),
            currency: Currency::parse(currency).ok_or(FrameError::Text)?,
            account,
            campaign,
        }))
    }
}

impl<'b> Iterator for CatalogueChange<'b> {
    type Item = Result<CatalogueRow<'b>, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.entries.is_empty() {
                return None;
            }
            let (entry, rest) = self.entries.split_at(self.stride);
            self.entries = rest;
            // A row whose unit is unknown is left out.
            if let Some(row) = self.row(entry).transpose() {
                return Some(row);
            }
        }
    }
}

/// Writes a catalogue, in as many frames as it needs.
#[derive(Debug)]
pub struct CatalogueWriter<'o> {
    out: &'o mut Vec<u8>,
    fields: CatalogueFields,
    frame_bytes_max: usize,
    start: usize,
    rows: Vec<CatalogueEntry>,
    names: Vec<u8>,
}

impl<'o> CatalogueWriter<'o> {
    /// Begins frames of at most `frame_bytes_max`. With `is_complete` the first one voids every
    /// earlier row.
    pub fn new(
        out: &'o mut Vec<u8>,
        generation: u64,
        credit: u16,
        is_complete: bool,
        frame_bytes_max: u32,
    ) -> Self {
        let fields = CatalogueFields {
            generation: U64::new(generation),
            credit: U16::new(credit),
            flags: if is_complete { COMPLETE } else { 0 },
            reserved: [0; 5],
        };
        let frame_bytes_max = usize::try_from(frame_bytes_max).unwrap_or(usize::MAX);
        let start = out.len();
        Self { out, fields, frame_bytes_max, start, rows: Vec::new(), names: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If a name is longer than 255 bytes.
    pub fn put(&mut self, row: &CatalogueRow<'_>) {
        let CatalogueRow { account, campaign, .. } = *row;
        let length = |name: &str| u8::try_from(name.len()).expect("at most 255 bytes");
        let entry = CatalogueEntry {
            campaign: U32::new(row.handle),
            state: row.state as u8,
            unit: MICROS_CPM,
            currency: row.currency.code().as_bytes().try_into().expect("a code has 3 letters"),
            account_len: length(account),
            campaign_len: length(campaign),
            reserved: 0,
        };
        let rows = (self.rows.len() + 1) * size_of::<CatalogueEntry>();
        let names = self.names.len() + account.len() + campaign.len();
        let fixed = HEAD_BYTES + size_of::<CatalogueFields>();
        let is_full = self.rows.len() == usize::from(u16::MAX);
        if is_full || fixed + rows + names > self.frame_bytes_max {
            self.flush();
        }
        self.rows.push(entry);
        self.names.extend_from_slice(account.as_bytes());
        self.names.extend_from_slice(campaign.as_bytes());
    }

    /// Completes the last frame.
    pub fn finish(mut self) {
        self.flush();
        let start = self.start;
        self.out[start + FLAGS_AT] |= LAST;
        finish(self.out, start);
    }

    fn flush(&mut self) {
        let entries = EntryLayout::of::<CatalogueEntry>(self.rows.len());
        self.start = begin(self.out, FrameKind::Catalogue, 0, &self.fields, entries);
        self.out.extend_from_slice(self.rows.as_bytes());
        self.out.extend_from_slice(&self.names);
        finish(self.out, self.start);
        self.fields.flags &= !COMPLETE;
        self.rows.clear();
        self.names.clear();
    }
}
