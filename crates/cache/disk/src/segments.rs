//! The files of the segments, as readers find them.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use eventlog::disk::DiskFile;

use crate::format::{
    DiskRecordKind, RECORD_HEADER_BYTES, RecordHeader, RecordPlace, RecordSubject,
};
use crate::index::{KeyHash, Location};

/// The segments that exist. The lock is held while one is looked up, added or taken away.
#[derive(Debug)]
pub(crate) struct Segments<F>(RwLock<BTreeMap<u32, Segment<F>>>);

/// A segment, for readers.
#[derive(Debug)]
pub(crate) struct Segment<F> {
    pub file: Arc<F>,
    /// Of the file.
    pub bytes: u64,
    /// The newest purge when it began.
    pub purged_through: u64,
    /// Of its header.
    pub nonce: u32,
}

impl<F> Default for Segments<F> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<F> Segments<F> {
    pub(crate) fn insert(&self, number: u32, segment: Segment<F>) {
        self.write().insert(number, segment);
    }

    pub(crate) fn set_bytes(&self, number: u32, bytes: u64) {
        if let Some(segment) = self.write().get_mut(&number) {
            segment.bytes = bytes;
        }
    }

    /// Takes a segment away. Reads that have begun end.
    pub(crate) fn remove(&self, number: u32) {
        self.write().remove(&number);
    }

    /// For reading, with its random number. None if there is no such segment.
    fn file(&self, number: u32) -> Option<(Arc<F>, u32)> {
        self.read().get(&number).map(|segment| (Arc::clone(&segment.file), segment.nonce))
    }

    /// How many there are: each has a file open.
    pub(crate) fn count(&self) -> usize {
        self.read().len()
    }

    /// The oldest, with the newest purge when it began. None while there are no segments.
    pub(crate) fn oldest(&self) -> Option<(u32, u64)> {
        let segments = self.read();
        segments.first_key_value().map(|(number, segment)| (*number, segment.purged_through))
    }

    /// Of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.read().values().map(|segment| segment.bytes).sum()
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<u32, Segment<F>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<u32, Segment<F>>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: DiskFile> Segments<F> {
    /// The payload of a resource's record. None if the segment was evicted meanwhile.
    ///
    /// # Errors
    /// What the disk says, or [`io::ErrorKind::InvalidData`] if the record is damaged.
    pub(crate) fn payload(&self, hash: KeyHash, location: Location) -> io::Result<Option<Bytes>> {
        let Location { segment, offset, bytes } = location;
        let Some((file, nonce)) = self.file(segment) else { return Ok(None) };
        let mut record = vec![0; RECORD_HEADER_BYTES + bytes as usize];
        read_exact(&*file, offset.into(), &mut record)?;
        let place = RecordPlace { segment, nonce, offset };
        let header = record.first_chunk().and_then(|bytes| RecordHeader::decode(bytes, place));
        let payload = Bytes::from(record).slice(RECORD_HEADER_BYTES..);
        let is_whole = header.is_some_and(|header| {
            let RecordSubject { kind, hash: of, .. } = header.subject;
            (kind, of, header.bytes) == (DiskRecordKind::Resource, hash.0, bytes)
                && header.check == crc32c::crc32c(&payload)
        });
        is_whole.then_some(Some(payload)).ok_or_else(damaged)
    }
}

/// Reads until the buffer is full.
pub(crate) fn read_exact(file: &impl DiskFile, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(offset + read as u64, &mut buffer[read..])? {
            0 => return Err(damaged()),
            count => read += count,
        }
    }
    Ok(())
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the record is damaged")
}
