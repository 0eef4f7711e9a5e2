//! The head of a connection's requests. Its constant fields are sent once, and then named by their
//! indexes; each request adds its own, and its `content-length`.

use crate::frame::{
    self, END_HEADERS, END_STREAM, FRAME_HEADER_BYTES, FrameHeader, FrameType, PAYLOAD_BYTES_MAX,
};
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
    /// A head of these fields, without `content-length`. If requests have pseudo-header fields of
    /// their own, it may have no others.
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
    /// The constant fields of the next request, if they differ from those of later ones.
    first: Option<Vec<u8>>,
    later: Vec<u8>,
    /// The name of `content-length`.
    length_name: Vec<u8>,
}

impl HeadEncoder {
    pub(super) fn new(head: &RequestHead) -> Self {
        let mut length_name = Vec::new();
        write_literal_name(&mut length_name, b"content-length", Indexing::Without);
        let mut encoder = Self {
            head: head.clone(),
            table_bytes: TABLE_BYTES_DEFAULT,
            first: None,
            later: Vec::new(),
            length_name,
        };
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
        (self.first, self.later) = (Some(first), later);
    }

    /// Appends the head of a request, whose own `fields` follow the constant ones, with a body of
    /// `length` bytes. Without a body it ends the stream.
    pub(super) fn write(
        &mut self,
        out: &mut Vec<u8>,
        stream: u32,
        fields: &[(&str, &str)],
        length: usize,
    ) {
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        out.extend_from_slice(self.first.as_ref().unwrap_or(&self.later));
        self.first = None;
        for (name, value) in fields {
            write_literal(out, name.as_bytes(), value.as_bytes(), Indexing::Without);
        }
        if length > 0 {
            let mut digits = itoa::Buffer::new();
            out.extend_from_slice(&self.length_name);
            write_string(out, digits.format(length).as_bytes());
        }
        let end_stream = length == 0;
        let block = &out[start + FRAME_HEADER_BYTES..];
        if block.len() > PAYLOAD_BYTES_MAX {
            let block = block.to_vec();
            out.truncate(start);
            return frame::write_headers(out, stream, &block, end_stream);
        }
        let kind = FrameType::Headers as u8;
        let flags = if end_stream { END_HEADERS | END_STREAM } else { END_HEADERS };
        let header = FrameHeader { length: block.len(), kind, flags, stream };
        out[start..start + FRAME_HEADER_BYTES].copy_from_slice(&header.to_bytes());
    }
}
