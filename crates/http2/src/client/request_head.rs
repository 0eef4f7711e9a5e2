//! The head of a connection's requests. Its constant fields are sent once, and then named by their
//! indexes; each request adds its `content-length`.

use crate::frame::{self, END_HEADERS, FrameHeader, FrameType, PAYLOAD_BYTES_MAX};
use crate::hpack::{
    ENTRY_OVERHEAD, Indexing, STATIC_LENGTH, TABLE_BYTES_DEFAULT, static_index, write_indexed,
    write_literal, write_literal_name, write_size_update, write_string,
};

/// The constant fields of a head, pseudo-header fields first, names in lower case.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestHead(Vec<HeadField>);

/// Name and value.
type HeadField = (Box<[u8]>, Box<[u8]>);

impl std::fmt::Debug for RequestHead {
    /// Omits values, which may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestHead").field("fields", &self.0.len()).finish_non_exhaustive()
    }
}

impl RequestHead {
    /// A head of these fields, without `content-length`.
    pub fn new<'f>(fields: impl IntoIterator<Item = (&'f str, &'f str)>) -> Self {
        let field = |(name, value): (&str, &str)| {
            (name.to_ascii_lowercase().into_bytes().into(), value.as_bytes().into())
        };
        Self(fields.into_iter().map(field).collect())
    }
}

#[derive(Debug)]
pub(super) struct HeadEncoder {
    head: RequestHead,
    /// Size of the server's table that we use.
    table_bytes: usize,
    /// The fields of the next request, if they differ from those of later ones, up to the value of
    /// `content-length`.
    first: Option<Vec<u8>>,
    later: Vec<u8>,
}

impl HeadEncoder {
    pub(super) fn new(head: &RequestHead) -> Self {
        let head = head.clone();
        let mut encoder =
            Self { head, table_bytes: TABLE_BYTES_DEFAULT, first: None, later: Vec::new() };
        encoder.begin(Vec::new());
        encoder
    }

    /// The server keeps a table of `bytes`. A larger one than we use needs no change.
    pub(super) fn resize(&mut self, bytes: usize) {
        if bytes >= self.table_bytes {
            return;
        }
        let mut first = Vec::new();
        // Emptied first: what it holds is inserted again, so that its indexes are known.
        write_size_update(&mut first, 0);
        if bytes > 0 {
            write_size_update(&mut first, bytes);
        }
        self.table_bytes = bytes;
        self.begin(first);
    }

    /// Prepares the fields for an empty table; `first` has what comes before them.
    fn begin(&mut self, mut first: Vec<u8>) {
        let size = |(name, value): &HeadField| name.len() + value.len() + ENTRY_OVERHEAD;
        let mut room = self.table_bytes;
        let mut is_kept = |field: &HeadField| {
            let left = room.checked_sub(size(field));
            room = left.unwrap_or(room);
            left.is_some()
        };
        let plan = self.head.0.iter().map(|field| {
            let index = static_index(&field.0, &field.1);
            (field, index, index.is_none() && is_kept(field))
        });
        let plan: Vec<_> = plan.collect();
        let mut newer = plan.iter().filter(|(.., is_kept)| *is_kept).count();
        let mut later = Vec::new();
        for ((name, value), index, is_kept) in plan {
            match (index, is_kept) {
                (Some(index), _) => {
                    write_indexed(&mut first, index);
                    write_indexed(&mut later, index);
                }
                (None, true) => {
                    write_literal(&mut first, name, value, Indexing::Incremental);
                    write_indexed(&mut later, STATIC_LENGTH + newer);
                    newer -= 1;
                }
                (None, false) => {
                    write_literal(&mut first, name, value, Indexing::Without);
                    write_literal(&mut later, name, value, Indexing::Without);
                }
            }
        }
        for fields in [&mut first, &mut later] {
            write_literal_name(fields, b"content-length", Indexing::Without);
        }
        (self.first, self.later) = (Some(first), later);
    }

    /// Appends the header block of a request with a body of `length` bytes.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, stream: u32, length: usize) {
        let first = self.first.take();
        let fields = first.as_ref().unwrap_or(&self.later);
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(length).as_bytes();
        let length = fields.len() + 1 + digits.len();
        if length > PAYLOAD_BYTES_MAX {
            let mut block = fields.clone();
            write_string(&mut block, digits);
            return frame::write_headers(out, stream, &block, false);
        }
        let kind = FrameType::Headers as u8;
        let header = FrameHeader { length, kind, flags: END_HEADERS, stream };
        out.extend_from_slice(&header.to_bytes());
        out.extend_from_slice(fields);
        write_string(out, digits);
    }
}
