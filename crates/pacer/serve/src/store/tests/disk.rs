//! A disk in memory that fails at the worst moment.

use std::io;

use faults::{FaultDisk, FaultFile, FaultLock};
use redb::StorageBackend;

use crate::store::directory::StoreDirectory;

/// Unit in which writes tear: a sector of the medium.
const SECTOR_BYTES: usize = 512;

pub(crate) fn empty(seed: u64) -> FaultDisk {
    FaultDisk::with_sectors(seed, SECTOR_BYTES)
}

#[derive(Debug)]
struct Backend(FaultFile);

impl StoreDirectory for FaultDisk {
    type Lock = FaultLock;

    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn lock(&self) -> io::Result<FaultLock> {
        Self::lock(self)
    }

    fn has(&self, file: &str) -> io::Result<bool> {
        Ok(self.inode(file).is_some())
    }

    fn open(&self, file: &str) -> io::Result<Box<dyn StorageBackend>> {
        let is_there = self.inode(file).is_some();
        let file = if is_there { Self::open(self, file) } else { self.create(file) };
        Ok(Box::new(Backend(file?)))
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        if self.inode(file).is_some() { Self::remove(self, file) } else { Ok(()) }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Self::rename(self, from, to)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_directory()
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.size())
    }

    fn read(&self, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
        while !out.is_empty() {
            let read = self.0.read_at(offset, out);
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            offset += read as u64;
            out = &mut out[read..];
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, data)
    }
}
