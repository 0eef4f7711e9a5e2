//! A disk in memory that fails as real disks do, by a seed.
//!
//! Reads see a write at once, but only a sync makes it durable. A power loss keeps any part of the
//! unsynced writes, in any order and torn within a write; names of files are durable apart from
//! their contents. A failed sync loses data, and a later successful one does not bring it back. The
//! code under test uses the disk through a trait of its own.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::chance::Chance;

/// Default unit in which writes tear.
const SECTOR_BYTES: usize = 64;
/// Longer reads are short reads.
const SHORT_READ_BYTES: usize = 1_000;

/// One call in this many fails; 0 means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFaults {
    /// Writes fail with EIO, possibly after a part.
    pub write: u64,
    /// Syncs of files fail.
    pub sync: u64,
    /// Truncations, renames, reservations of space and directory syncs fail.
    pub other: u64,
}

#[derive(Clone, Debug)]
enum DiskOperation {
    Write { offset: usize, bytes: Vec<u8> },
    Resize { length: usize },
}

#[derive(Clone, Debug, Default)]
struct Inode {
    visible: Vec<u8>,
    /// What a power loss certainly leaves.
    durable: Vec<u8>,
    unsynced: Vec<DiskOperation>,
    /// Reserved space from the first byte on, whatever the length.
    reserved: usize,
}

impl Inode {
    /// Bytes occupied on the disk.
    fn room(&self) -> usize {
        self.visible.len().max(self.reserved)
    }
}

/// Names bound or unbound in one step.
type Renamed = Vec<(String, Option<usize>)>;

#[derive(Clone, Debug)]
struct DiskState {
    chance: Chance,
    /// The unit in which writes tear.
    sector_bytes: usize,
    faults: DiskFaults,
    inodes: Vec<Inode>,
    visible: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    /// Since the last sync of the directory.
    unsynced: Vec<Renamed>,
    is_locked: bool,
    /// Changes with every start, which invalidates the handles of the previous process.
    boot: u64,
    space: Option<usize>,
    /// Calls left until everything fails.
    fuse: Option<u64>,
    calls: u64,
    bytes_read: u64,
    longest_read: usize,
}

/// A disk with one directory of files. Clones share it.
#[derive(Clone, Debug)]
pub struct FaultDisk(Arc<Mutex<DiskState>>);

/// A file on it.
#[derive(Debug)]
pub struct FaultFile {
    disk: FaultDisk,
    inode: usize,
    boot: u64,
}

/// The lock of the directory.
#[derive(Debug)]
pub struct FaultLock {
    disk: FaultDisk,
    boot: u64,
}

impl Drop for FaultLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.boot == self.boot {
            state.is_locked = false;
        }
    }
}

impl FaultDisk {
    /// An empty disk, with faults drawn from `seed`.
    pub fn new(seed: u64) -> Self {
        Self::with_sectors(seed, SECTOR_BYTES)
    }

    /// As [`Self::new`], with writes that tear into units of `sector_bytes`.
    pub fn with_sectors(seed: u64, sector_bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(DiskState {
            chance: Chance::new(seed),
            sector_bytes,
            faults: DiskFaults::default(),
            inodes: Vec::new(),
            visible: BTreeMap::new(),
            durable: BTreeMap::new(),
            unsynced: Vec::new(),
            is_locked: false,
            boot: 0,
            space: None,
            fuse: None,
            calls: 0,
            bytes_read: 0,
            longest_read: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().expect("nobody panics while holding it")
    }

    /// Sets how often calls fail.
    pub fn set_faults(&self, faults: DiskFaults) {
        self.state().faults = faults;
    }

    /// Limits the total size of all files.
    pub fn set_space(&self, bytes: Option<usize>) {
        self.state().space = bytes;
    }

    /// Total size of all files.
    pub fn used(&self) -> usize {
        self.state().used()
    }

    /// Stops the machine after this many calls. The last one may be done in part.
    pub fn stop_after(&self, calls: Option<u64>) {
        self.state().fuse = calls;
    }

    /// Whether the machine has stopped.
    pub fn has_stopped(&self) -> bool {
        self.state().fuse == Some(0)
    }

    /// Number of calls that changed something or tried to.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Number of bytes read from files.
    pub fn bytes_read(&self) -> u64 {
        self.state().bytes_read
    }

    /// Length of the longest read.
    pub fn longest_read(&self) -> usize {
        self.state().longest_read
    }

    /// An independent copy with the same content and future.
    #[must_use]
    pub fn copy(&self) -> Self {
        let state = self.state().clone();
        Self(Arc::new(Mutex::new(state)))
    }

    /// Restarts the process. The machine keeps running, so reads still see all writes.
    pub fn restart_process(&self) {
        let mut state = self.state();
        state.boot += 1;
        state.is_locked = false;
        state.fuse = None;
    }

    /// Loses power. Any part of the unsynced changes survives.
    pub fn lose_power(&self) {
        self.restart_process();
        let state = &mut *self.state();
        for inode in &mut state.inodes {
            keep_part(&mut state.chance, state.sector_bytes, inode);
            inode.visible.clone_from(&inode.durable);
        }
        keep_names(state);
        state.visible = state.durable.clone();
    }

    /// The bytes of a file as reads see them.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        Some(state.inodes[*state.visible.get(name)?].visible.clone())
    }

    /// Puts a durable file in place of whatever was there.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let state = &mut *self.state();
        let (visible, durable) = (bytes.to_vec(), bytes.to_vec());
        state.inodes.push(Inode { visible, durable, unsynced: Vec::new(), reserved: 0 });
        let renamed = vec![(name.to_owned(), Some(state.inodes.len() - 1))];
        bind(&mut state.visible, &renamed);
        bind(&mut state.durable, &renamed);
    }

    /// Names of all visible files, sorted.
    pub fn names(&self) -> Vec<String> {
        self.state().visible.keys().cloned().collect()
    }

    /// The inode of a name. None if there is no such file.
    pub fn inode(&self, name: &str) -> Option<usize> {
        self.state().visible.get(name).copied()
    }

    /// Locks the directory.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] while it is locked, by "process 7".
    pub fn lock(&self) -> io::Result<FaultLock> {
        let mut state = self.state();
        if state.is_locked {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "process 7"));
        }
        state.is_locked = true;
        Ok(FaultLock { disk: self.clone(), boot: state.boot })
    }

    /// Creates a file.
    ///
    /// # Errors
    /// By chance, or if the name exists.
    pub fn create(&self, name: &str) -> io::Result<FaultFile> {
        let state = &mut *self.state();
        state.enter(state.boot, state.faults.other)?;
        if state.visible.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.inodes.push(Inode::default());
        let inode = state.inodes.len() - 1;
        state.rename(vec![(name.to_owned(), Some(inode))]);
        Ok(FaultFile { disk: self.clone(), inode, boot: state.boot })
    }

    /// Opens an existing file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`].
    pub fn open(&self, name: &str) -> io::Result<FaultFile> {
        let state = self.state();
        let inode = *state.visible.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(FaultFile { disk: self.clone(), inode, boot: state.boot })
    }

    /// Removes a file.
    ///
    /// # Errors
    /// By chance; [`io::ErrorKind::NotFound`].
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let state = &mut *self.state();
        state.enter(state.boot, state.faults.other)?;
        if !state.visible.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.rename(vec![(name.to_owned(), None)]);
        Ok(())
    }

    /// Renames a file over another.
    ///
    /// # Errors
    /// By chance; [`io::ErrorKind::NotFound`].
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let state = &mut *self.state();
        state.enter(state.boot, state.faults.other)?;
        let inode = *state.visible.get(from).ok_or(io::ErrorKind::NotFound)?;
        state.rename(vec![(from.to_owned(), None), (to.to_owned(), Some(inode))]);
        Ok(())
    }

    /// Makes names durable.
    ///
    /// # Errors
    /// By chance. Then some names are durable and the others are lost.
    pub fn sync_directory(&self) -> io::Result<()> {
        let state = &mut *self.state();
        state.enter(state.boot, 0)?;
        if state.chance.once_in(state.faults.other) {
            keep_names(state);
            return Err(eio());
        }
        for renamed in std::mem::take(&mut state.unsynced) {
            bind(&mut state.durable, &renamed);
        }
        Ok(())
    }
}

/// After a failed or interrupted sync, or a power loss, keeps some of the unsynced writes.
fn keep_part(chance: &mut Chance, sector_bytes: usize, inode: &mut Inode) {
    let mode = chance.below(4);
    let ops = std::mem::take(&mut inode.unsynced);
    let whole = chance.index(ops.len() + 1);
    for (index, op) in ops.into_iter().enumerate() {
        match mode {
            0 => (),
            1 => apply(&mut inode.durable, &op),
            2 if index < whole => apply(&mut inode.durable, &op),
            2 => (),
            _ => keep_sectors(chance, sector_bytes, &mut inode.durable, &op),
        }
    }
}

fn keep_sectors(chance: &mut Chance, sector_bytes: usize, bytes: &mut Vec<u8>, op: &DiskOperation) {
    match op {
        DiskOperation::Resize { .. } if chance.once_in(2) => apply(bytes, op),
        DiskOperation::Resize { .. } => (),
        DiskOperation::Write { offset, bytes: written } => {
            for (index, sector) in written.chunks(sector_bytes).enumerate() {
                if chance.once_in(2) {
                    let offset = offset + index * sector_bytes;
                    apply(bytes, &DiskOperation::Write { offset, bytes: sector.to_vec() });
                }
            }
        }
    }
}

fn apply(file: &mut Vec<u8>, op: &DiskOperation) {
    match op {
        DiskOperation::Resize { length } => file.resize(*length, 0),
        DiskOperation::Write { offset, bytes } => {
            let end = offset + bytes.len();
            if file.len() < end {
                file.resize(end, 0);
            }
            file[*offset..end].copy_from_slice(bytes);
        }
    }
}

fn keep_names(state: &mut DiskState) {
    for renamed in std::mem::take(&mut state.unsynced) {
        if state.chance.once_in(2) {
            bind(&mut state.durable, &renamed);
        }
    }
}

fn bind(names: &mut BTreeMap<String, usize>, renamed: &Renamed) {
    for (name, inode) in renamed {
        match inode {
            Some(inode) => drop(names.insert(name.clone(), *inode)),
            None => drop(names.remove(name)),
        }
    }
}

fn eio() -> io::Error {
    io::Error::other("input/output error")
}

fn position(at: u64) -> usize {
    usize::try_from(at).expect("files fit memory")
}

impl DiskState {
    /// Whether a call succeeds: fails once in `once_in`, or when the machine has stopped.
    fn enter(&mut self, boot: u64, once_in: u64) -> io::Result<()> {
        let is_of_this_start = boot == self.boot;
        if is_of_this_start {
            self.calls += 1;
            self.fuse = self.fuse.map(|fuse| fuse.saturating_sub(1));
        }
        if !is_of_this_start || self.fuse == Some(0) {
            return Err(io::Error::other("the machine has stopped"));
        }
        if self.chance.once_in(once_in) { Err(eio()) } else { Ok(()) }
    }

    fn used(&self) -> usize {
        self.visible.values().map(|inode| self.inodes[*inode].room()).sum()
    }

    /// Free space for the file, beyond what it occupies.
    fn free(&self) -> usize {
        self.space.map_or(usize::MAX, |space| space.saturating_sub(self.used()))
    }

    fn change(&mut self, inode: usize, op: DiskOperation) {
        let inode = &mut self.inodes[inode];
        apply(&mut inode.visible, &op);
        inode.unsynced.push(op);
    }

    fn rename(&mut self, renamed: Renamed) {
        bind(&mut self.visible, &renamed);
        self.unsynced.push(renamed);
    }
}

impl FaultFile {
    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// By chance, or if the disk is full. A part may have been written.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let state = &mut *self.disk.state();
        let offset = position(offset);
        let entered = state.enter(self.boot, 0);
        if self.boot != state.boot {
            return entered;
        }
        let had = state.inodes[self.inode].room();
        let room = had.saturating_sub(offset).saturating_add(state.free());
        let result = entered.and_then(|()| match room {
            room if room < bytes.len() => Err(io::ErrorKind::StorageFull.into()),
            _ if state.chance.once_in(state.faults.write) => Err(eio()),
            _ => Ok(()),
        });
        // A failed write may have written a part.
        let part = bytes.len().min(room);
        let written = if result.is_ok() { bytes.len() } else { state.chance.index(part + 1) };
        if written > 0 {
            state.change(
                self.inode,
                DiskOperation::Write { offset, bytes: bytes[..written].to_vec() },
            );
        }
        result
    }

    /// Reads at `offset` and returns the number of bytes: as from a kernel, possibly fewer than
    /// requested, and 0 only at the end.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> usize {
        let state = &mut *self.disk.state();
        let visible = &state.inodes[self.inode].visible;
        let offset = position(offset).min(visible.len());
        let most = if bytes.len() > SHORT_READ_BYTES { bytes.len() / 2 } else { bytes.len() };
        let count = most.min(visible.len() - offset);
        bytes[..count].copy_from_slice(&visible[offset..offset + count]);
        state.bytes_read += count as u64;
        state.longest_read = state.longest_read.max(bytes.len());
        count
    }

    /// Length of the file.
    pub fn size(&self) -> u64 {
        self.disk.state().inodes[self.inode].visible.len() as u64
    }

    /// Reserves space for the first `bytes` bytes until the length is set.
    ///
    /// # Errors
    /// By chance, or if the disk is full.
    pub fn allocate(&self, bytes: u64) -> io::Result<()> {
        let state = &mut *self.disk.state();
        state.enter(self.boot, state.faults.other)?;
        let bytes = position(bytes);
        if bytes.saturating_sub(state.inodes[self.inode].room()) > state.free() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let reserved = &mut state.inodes[self.inode].reserved;
        *reserved = bytes.max(*reserved);
        Ok(())
    }

    /// Truncates the file to `bytes`, or extends it with zeros.
    ///
    /// # Errors
    /// By chance, or if the disk is full.
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        let state = &mut *self.disk.state();
        state.enter(self.boot, state.faults.other)?;
        let length = position(bytes);
        if length.saturating_sub(state.inodes[self.inode].room()) > state.free() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.inodes[self.inode].reserved = 0;
        state.change(self.inode, DiskOperation::Resize { length });
        Ok(())
    }

    /// Makes the file's bytes and length durable.
    ///
    /// # Errors
    /// By chance. Then some of it is durable, and the rest is lost although reads still see it.
    pub fn sync_data(&self) -> io::Result<()> {
        let state = &mut *self.disk.state();
        state.enter(self.boot, 0)?;
        let fails = state.chance.once_in(state.faults.sync);
        let DiskState { chance, sector_bytes, inodes, .. } = state;
        let inode = &mut inodes[self.inode];
        if fails {
            keep_part(chance, *sector_bytes, inode);
            return Err(eio());
        }
        for op in std::mem::take(&mut inode.unsynced) {
            apply(&mut inode.durable, &op);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
