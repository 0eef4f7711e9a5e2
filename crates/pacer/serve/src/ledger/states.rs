//! The file `pacing.states`, which keeps strategies' states.
//!
//! Owns its format and atomic replacement; a damaged row does not affect others. The contents are
//! pacer-core's. None of it is money, and no error here may prevent a start: so the file is
//! separate from the ledger's store. It holds all campaigns each time, and nobody waits for it.
//!
//! Integers are little-endian. A head of 32 bytes: `vkstates`, then format, node, epoch and number
//! of rows (4 bytes each), and their digest (8). Then rows: length (4), digest of length and row
//! (8), row.

use std::hash::Hasher as _;
use std::io;

use pacer_core::pacing::SNAPSHOT_BYTES_MAX;
use pacer_core::store::StoreWriter;
use redb::StorageBackend;
use siphasher::sip::SipHasher13;

use crate::store::directory::StoreDirectory;

pub(crate) const FILE_NAME: &str = "pacing.states";
/// The file while it is incomplete.
pub(crate) const NEW_NAME: &str = "pacing.states.new";
const MAGIC: [u8; 8] = *b"vkstates";
const FORMAT: u32 = 1;
pub(crate) const HEAD_BYTES: usize = 32;
pub(crate) const ROW_HEAD_BYTES: usize = 12;
const PIECE_BYTES: usize = 1 << 20;

const _: () =
    assert!(ROW_HEAD_BYTES + SNAPSHOT_BYTES_MAX <= PIECE_BYTES, "a piece has a row at least");

#[derive(Debug, thiserror::Error)]
pub(crate) enum StatesError {
    #[error("it cannot be read: {0}")]
    Disk(#[from] io::Error),
    #[error("it is damaged")]
    Damaged,
    #[error("it has format {0}, this program reads {FORMAT}")]
    Format(u32),
    /// Its numbers denote other campaigns.
    #[error("it is another ledger's")]
    Foreign,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadStates {
    pub(crate) taken: u64,
    pub(crate) damaged: u64,
}

pub(crate) fn append(rows: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    let at = rows.len();
    rows.extend([0; ROW_HEAD_BYTES]);
    encode(rows);
    let length = rows.len() - at - ROW_HEAD_BYTES;
    let length = u32::try_from(length).expect("a row is short").to_le_bytes();
    let digest = digest(&[&length, &rows[at + ROW_HEAD_BYTES..]]);
    rows[at..at + 4].copy_from_slice(&length);
    rows[at + 4..at + ROW_HEAD_BYTES].copy_from_slice(&digest);
}

fn digest(parts: &[&[u8]]) -> [u8; 8] {
    let mut hasher = SipHasher13::new();
    parts.iter().for_each(|part| hasher.write(part));
    hasher.finish().to_le_bytes()
}

fn head(writer: StoreWriter, rows: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&MAGIC);
    let figures = [FORMAT, writer.node, writer.epoch.0, rows];
    for (at, figure) in head[8..24].chunks_exact_mut(4).zip(figures) {
        at.copy_from_slice(&figure.to_le_bytes());
    }
    let sum = digest(&[&head[..24]]);
    head[24..].copy_from_slice(&sum);
    head
}

pub(crate) struct NewStates {
    file: Box<dyn StorageBackend>,
    length: u64,
    rows: u32,
}

impl NewStates {
    pub(crate) fn begin(place: &impl StoreDirectory) -> io::Result<Self> {
        let file = place.open(NEW_NAME)?;
        file.set_len(0)?;
        Ok(Self { file, length: HEAD_BYTES as u64, rows: 0 })
    }

    pub(crate) fn add(&mut self, bytes: &[u8], rows: u32) -> io::Result<()> {
        self.file.set_len(self.length + bytes.len() as u64)?;
        self.file.write(self.length, bytes)?;
        self.length += bytes.len() as u64;
        self.rows += rows;
        Ok(())
    }

    /// Puts the file durably in place. A later start finds this one or the one before, whole.
    pub(crate) fn put(self, place: &impl StoreDirectory, writer: StoreWriter) -> io::Result<()> {
        let Self { file, length, rows } = self;
        file.set_len(length)?;
        file.write(0, &head(writer, rows))?;
        file.sync_data()?;
        drop(file);
        place.rename(NEW_NAME, FILE_NAME)?;
        place.sync()
    }
}

/// Reads the file that an earlier epoch of the same node wrote; `take` returns whether it
/// understands a row. Empty if there is no file.
pub(crate) fn read(
    place: &impl StoreDirectory,
    writer: StoreWriter,
    mut take: impl FnMut(&[u8]) -> bool,
) -> Result<ReadStates, StatesError> {
    if !place.has(FILE_NAME)? {
        return Ok(ReadStates::default());
    }
    let file = place.open(FILE_NAME)?;
    let mut from = FilePieces { end: file.len()?, file, at: 0, piece: Vec::new(), read: 0 };
    let rows = rows_of(from.next(HEAD_BYTES)?.ok_or(StatesError::Damaged)?, writer)?;
    let mut taken = 0;
    for _ in 0..rows {
        let Some(row_head) = from.next(ROW_HEAD_BYTES)? else { break };
        let (length, sum) = row_head.split_first_chunk().expect("it has twelve bytes");
        let (length, sum) = (*length, sum.to_vec());
        let bytes = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if bytes > SNAPSHOT_BYTES_MAX {
            break; // The start of the next row is unknown.
        }
        let Some(row) = from.next(bytes)? else { break };
        if digest(&[&length, row])[..] == sum && take(row) {
            taken += 1;
        }
    }
    Ok(ReadStates { taken, damaged: u64::from(rows) - taken })
}

fn rows_of(head: &[u8], writer: StoreWriter) -> Result<u32, StatesError> {
    let (said, sum) = head.split_at(24);
    if said[..8] != MAGIC || digest(&[said])[..] != *sum {
        return Err(StatesError::Damaged);
    }
    let mut figures = said[8..]
        .chunks_exact(4)
        .map(|bytes| u32::from_le_bytes(*bytes.first_chunk().expect("four bytes")));
    let mut next = || figures.next().expect("four figures");
    let (format, node, epoch, rows) = (next(), next(), next(), next());
    match format {
        FORMAT if node != writer.node || writer.epoch.0 <= epoch => Err(StatesError::Foreign),
        FORMAT => Ok(rows),
        other => Err(StatesError::Format(other)),
    }
}

struct FilePieces {
    file: Box<dyn StorageBackend>,
    end: u64,
    read: u64,
    piece: Vec<u8>,
    at: usize,
}

impl FilePieces {
    /// The next bytes, at most a piece. None if the file ends before.
    fn next(&mut self, bytes: usize) -> io::Result<Option<&[u8]>> {
        if self.piece.len() < self.at + bytes {
            self.piece.drain(..self.at);
            self.at = 0;
            let (kept, left) = (self.piece.len(), self.end - self.read);
            let more = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
            self.piece.resize(kept + more, 0);
            self.file.read(self.read, &mut self.piece[kept..])?;
            self.read += more as u64;
        }
        let next = self.piece.get(self.at..self.at + bytes);
        self.at += next.map_or(0, <[u8]>::len);
        Ok(next)
    }
}

#[cfg(test)]
mod tests;
