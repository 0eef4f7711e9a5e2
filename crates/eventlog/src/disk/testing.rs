//! A disk in memory that does what disks do at the worst moment, by a seed.
//!
//! What was written is seen at once and durable only after a sync. A loss of power keeps any part
//! of the unsynced writes, in any order and torn within a write; names of files are durable apart
//! from their contents. A failed sync forgets what it should have kept, and a second one succeeds
//! at nothing. Single-threaded, like the loops it is put under.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use super::{Disk, DiskFile};

/// The unit in which writes tear.
const SECTOR_BYTES: usize = 64;
/// Longer reads are done in part.
const SHORT_READ_BYTES: usize = 1_000;

/// One call in how many fails; 0 never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Writes fail with EIO, after a part of them.
    pub write: u64,
    /// Syncs of files fail.
    pub sync: u64,
    /// Creation and removal of files, truncation and syncs of the directory fail.
    pub other: u64,
}

/// A chain of chances that a seed decides (SplitMix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The chain of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below `limit`, which is positive.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit
    }

    /// As [`Self::below`], for positions.
    pub fn index(&mut self, limit: usize) -> usize {
        let index = self.below(limit as u64);
        usize::try_from(index).expect("below a usize")
    }

    /// True once in `n` times; never for 0.
    pub fn once_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }
}

#[derive(Clone, Debug)]
enum Op {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { length: usize },
}

#[derive(Clone, Debug, Default)]
struct Inode {
    /// What reads see.
    visible: Vec<u8>,
    /// What a loss of power leaves for certain.
    durable: Vec<u8>,
    unsynced: Vec<Op>,
}

#[derive(Clone, Debug)]
struct State {
    chance: Chance,
    faults: Faults,
    inodes: Vec<Inode>,
    visible: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    /// Names bound or unbound since the directory was synced.
    unsynced: Vec<(String, Option<usize>)>,
    locked: bool,
    /// Changes with every start: handles of the process before are worth nothing.
    boot: u64,
    space: Option<usize>,
    /// Calls until everything fails.
    fuse: Option<u64>,
    calls: u64,
    bytes_read: u64,
    longest_read: usize,
}

/// The disk. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct FaultDisk(Rc<RefCell<State>>);

/// A file on it.
#[derive(Debug)]
pub struct FaultFile {
    disk: FaultDisk,
    inode: usize,
    boot: u64,
}

/// The directory, held.
#[derive(Debug)]
pub struct FaultLock {
    disk: FaultDisk,
    boot: u64,
}

impl Drop for FaultLock {
    fn drop(&mut self) {
        let mut state = self.disk.0.borrow_mut();
        if state.boot == self.boot {
            state.locked = false;
        }
    }
}

impl FaultDisk {
    /// An empty disk whose chances `seed` decides.
    pub fn new(seed: u64) -> Self {
        Self(Rc::new(RefCell::new(State {
            chance: Chance::new(seed),
            faults: Faults::default(),
            inodes: Vec::new(),
            visible: BTreeMap::new(),
            durable: BTreeMap::new(),
            unsynced: Vec::new(),
            locked: false,
            boot: 0,
            space: None,
            fuse: None,
            calls: 0,
            bytes_read: 0,
            longest_read: 0,
        })))
    }

    /// From now on calls fail so often.
    pub fn set_faults(&self, faults: Faults) {
        self.0.borrow_mut().faults = faults;
    }

    /// From now on all files together hold at most `bytes`.
    pub fn set_space(&self, bytes: Option<usize>) {
        self.0.borrow_mut().space = bytes;
    }

    /// After `calls` more calls the machine stops: the call it stops in may be done in part.
    pub fn stop_after(&self, calls: u64) {
        self.0.borrow_mut().fuse = Some(calls);
    }

    /// Whether the machine has stopped.
    pub fn has_stopped(&self) -> bool {
        self.0.borrow().fuse == Some(0)
    }

    /// Calls that changed something or were to, so far.
    pub fn calls(&self) -> u64 {
        self.0.borrow().calls
    }

    /// Bytes that were read from files so far.
    pub fn bytes_read(&self) -> u64 {
        self.0.borrow().bytes_read
    }

    /// The most bytes that a single call was to read so far.
    pub fn longest_read(&self) -> usize {
        self.0.borrow().longest_read
    }

    /// Another disk with the same on it, and the same before it.
    pub fn copy(&self) -> Self {
        Self(Rc::new(RefCell::new(self.0.borrow().clone())))
    }

    /// The process ended and starts again; the machine went on, and shows what was written.
    pub fn restart_process(&self) {
        let mut state = self.0.borrow_mut();
        state.boot += 1;
        state.locked = false;
        state.fuse = None;
    }

    /// Power was lost and came back: of what was not synced any part is there.
    pub fn lose_power(&self) {
        self.restart_process();
        let state = &mut *self.0.borrow_mut();
        for inode in &mut state.inodes {
            keep_part(&mut state.chance, inode);
            inode.visible.clone_from(&inode.durable);
        }
        keep_names(state);
        state.visible = state.durable.clone();
    }

    /// Bytes of a file as they are seen.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.0.borrow();
        Some(state.inodes[*state.visible.get(name)?].visible.clone())
    }

    /// Puts a file there, durably, whatever was there before.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let state = &mut *self.0.borrow_mut();
        let (visible, durable) = (bytes.to_vec(), bytes.to_vec());
        state.inodes.push(Inode { visible, durable, unsynced: Vec::new() });
        let inode = state.inodes.len() - 1;
        state.visible.insert(name.to_owned(), inode);
        state.durable.insert(name.to_owned(), inode);
    }

    /// Names of the files that are seen, in order.
    pub fn names(&self) -> Vec<String> {
        self.0.borrow().visible.keys().cloned().collect()
    }
}

/// A failed or interrupted sync, or a loss of power: some of the unsynced writes reach the medium.
fn keep_part(chance: &mut Chance, inode: &mut Inode) {
    let mode = chance.below(4);
    let ops = std::mem::take(&mut inode.unsynced);
    let whole = chance.index(ops.len() + 1);
    for (index, op) in ops.into_iter().enumerate() {
        match mode {
            0 => (),
            1 => apply(&mut inode.durable, &op),
            2 if index < whole => apply(&mut inode.durable, &op),
            2 => (),
            _ => keep_sectors(chance, &mut inode.durable, &op),
        }
    }
}

fn keep_sectors(chance: &mut Chance, bytes: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Truncate { .. } if chance.once_in(2) => apply(bytes, op),
        Op::Truncate { .. } => (),
        Op::Write { offset, bytes: written } => {
            for (index, sector) in written.chunks(SECTOR_BYTES).enumerate() {
                if chance.once_in(2) {
                    let offset = offset + index * SECTOR_BYTES;
                    apply(bytes, &Op::Write { offset, bytes: sector.to_vec() });
                }
            }
        }
    }
}

fn apply(file: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Truncate { length } => file.resize(*length, 0),
        Op::Write { offset, bytes } => {
            let end = offset + bytes.len();
            if file.len() < end {
                file.resize(end, 0);
            }
            file[*offset..end].copy_from_slice(bytes);
        }
    }
}

fn keep_names(state: &mut State) {
    for (name, inode) in std::mem::take(&mut state.unsynced) {
        if state.chance.once_in(2) {
            bind(&mut state.durable, name, inode);
        }
    }
}

fn bind(names: &mut BTreeMap<String, usize>, name: String, inode: Option<usize>) {
    match inode {
        Some(inode) => drop(names.insert(name, inode)),
        None => drop(names.remove(&name)),
    }
}

fn eio() -> io::Error {
    io::Error::other("input/output error")
}

impl State {
    /// Whether the call may go on; burns the fuse.
    fn enter(&mut self, boot: u64) -> io::Result<()> {
        self.calls += 1;
        if let Some(fuse) = &mut self.fuse {
            *fuse = fuse.saturating_sub(1);
        }
        if boot != self.boot || self.fuse == Some(0) {
            return Err(io::Error::other("the machine has stopped"));
        }
        Ok(())
    }

    fn chance_of(&mut self, once_in: u64) -> io::Result<()> {
        if self.chance.once_in(once_in) { Err(eio()) } else { Ok(()) }
    }

    fn used(&self) -> usize {
        self.visible.values().map(|inode| self.inodes[*inode].visible.len()).sum()
    }

    fn change(&mut self, inode: usize, op: Op) {
        let inode = &mut self.inodes[inode];
        apply(&mut inode.visible, &op);
        inode.unsynced.push(op);
    }
}

impl Disk for FaultDisk {
    type File = FaultFile;
    type Lock = FaultLock;

    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn lock(&self) -> io::Result<FaultLock> {
        let mut state = self.0.borrow_mut();
        if state.locked {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "process 7"));
        }
        state.locked = true;
        Ok(FaultLock { disk: self.clone(), boot: state.boot })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn create(&self, name: &str) -> io::Result<FaultFile> {
        let state = &mut *self.0.borrow_mut();
        state.enter(state.boot)?;
        state.chance_of(state.faults.other)?;
        if state.visible.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.inodes.push(Inode::default());
        let inode = state.inodes.len() - 1;
        state.visible.insert(name.to_owned(), inode);
        state.unsynced.push((name.to_owned(), Some(inode)));
        Ok(FaultFile { disk: self.clone(), inode, boot: state.boot })
    }

    fn open(&self, name: &str) -> io::Result<FaultFile> {
        let state = self.0.borrow();
        let inode = *state.visible.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(FaultFile { disk: self.clone(), inode, boot: state.boot })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        state.enter(state.boot)?;
        state.chance_of(state.faults.other)?;
        state.visible.remove(name).ok_or(io::ErrorKind::NotFound)?;
        state.unsynced.push((name.to_owned(), None));
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        state.enter(state.boot)?;
        if state.chance.once_in(state.faults.other) {
            keep_names(state);
            return Err(eio());
        }
        for (name, inode) in std::mem::take(&mut state.unsynced) {
            bind(&mut state.durable, name, inode);
        }
        Ok(())
    }
}

impl DiskFile for FaultFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let state = &mut *self.disk.0.borrow_mut();
        let offset = usize::try_from(offset).expect("files fit memory");
        let entered = state.enter(self.boot);
        if self.boot != state.boot {
            return entered;
        }
        let length = state.inodes[self.inode].visible.len();
        let free = state.space.map_or(usize::MAX, |space| space.saturating_sub(state.used()));
        let room = length.saturating_sub(offset).saturating_add(free);
        let result = entered.and_then(|()| match room {
            room if room < bytes.len() => Err(io::ErrorKind::StorageFull.into()),
            _ => state.chance_of(state.faults.write),
        });
        // A write that fails may have been done in part.
        let part = bytes.len().min(room);
        let written = if result.is_ok() { bytes.len() } else { state.chance.index(part + 1) };
        if written > 0 {
            state.change(self.inode, Op::Write { offset, bytes: bytes[..written].to_vec() });
        }
        result
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let state = &mut *self.disk.0.borrow_mut();
        let visible = &state.inodes[self.inode].visible;
        let offset = usize::try_from(offset).expect("files fit memory").min(visible.len());
        // As a kernel may, it gives less than was asked for when that is much.
        let most = if bytes.len() > SHORT_READ_BYTES { bytes.len() / 2 } else { bytes.len() };
        let count = most.min(visible.len() - offset);
        bytes[..count].copy_from_slice(&visible[offset..offset + count]);
        state.bytes_read += count as u64;
        state.longest_read = state.longest_read.max(bytes.len());
        Ok(count)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.0.borrow().inodes[self.inode].visible.len() as u64)
    }

    fn allocate(&mut self, _: u64) -> io::Result<()> {
        let state = &mut *self.disk.0.borrow_mut();
        state.enter(self.boot)?;
        state.chance_of(state.faults.other)
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        let state = &mut *self.disk.0.borrow_mut();
        state.enter(self.boot)?;
        state.chance_of(state.faults.other)?;
        let length = usize::try_from(bytes).expect("files fit memory");
        state.change(self.inode, Op::Truncate { length });
        Ok(())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        let state = &mut *self.disk.0.borrow_mut();
        state.enter(self.boot)?;
        let fails = state.chance.once_in(state.faults.sync);
        let State { chance, inodes, .. } = state;
        let inode = &mut inodes[self.inode];
        if fails {
            keep_part(chance, inode);
            return Err(eio());
        }
        for op in std::mem::take(&mut inode.unsynced) {
            apply(&mut inode.durable, &op);
        }
        Ok(())
    }
}
