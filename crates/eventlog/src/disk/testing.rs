//! Implements the log's disk for the fault-injecting disk.

use std::io;

pub use faults::{Chance, DiskFaults, FaultDisk, FaultFile, FaultLock};

use super::{Disk, DiskFile};

impl Disk for FaultDisk {
    type File = FaultFile;
    type Lock = FaultLock;

    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn lock(&self) -> io::Result<FaultLock> {
        Self::lock(self)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn create(&self, name: &str) -> io::Result<FaultFile> {
        Self::create(self, name)
    }

    fn open(&self, name: &str) -> io::Result<FaultFile> {
        Self::open(self, name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Self::remove(self, name)
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        Self::rename(self, from, to)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Self::sync_directory(self)
    }
}

impl DiskFile for FaultFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        Self::write_at(self, offset, bytes)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(Self::read_at(self, offset, bytes))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.size())
    }

    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        Self::allocate(self, bytes)
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        Self::sync_data(self)
    }
}
