//! A disk in memory under redb that does what disks do at the worst moment, by a seed.
//!
//! What was written is seen at once and durable only after a sync. A loss of power keeps any part of
//! the unsynced writes, in any order and torn within a write; names are durable apart from contents.
//! A failed sync forgets what it should have kept, and a second one succeeds at nothing.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use pacer_core::store::Chance;
use redb::StorageBackend;

use crate::place::Place;

/// The unit in which writes tear.
const SECTOR_BYTES: usize = 512;

/// One call in how many fails; 0 never.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// Writes, after a part of them.
    pub write: u64,
    /// Syncs of files.
    pub sync: u64,
    /// Changes of lengths and names, and syncs of the directory.
    pub other: u64,
}

#[derive(Clone, Debug)]
enum Op {
    Write { offset: usize, bytes: Vec<u8> },
    Resize { length: usize },
}

#[derive(Clone, Debug, Default)]
struct Inode {
    visible: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Op>,
}

/// Names bound or unbound at once.
type Renamed = Vec<(String, Option<usize>)>;

#[derive(Clone, Debug)]
struct State {
    chance: Chance,
    faults: Faults,
    inodes: Vec<Inode>,
    visible: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    unsynced: Vec<Renamed>,
    locked: bool,
    /// Changes with every start: files of the process before are worth nothing.
    boot: u64,
    space: Option<usize>,
    /// Calls until everything fails.
    fuse: Option<u64>,
}

/// The disk. Clones are the same disk.
#[derive(Clone, Debug)]
pub(crate) struct FaultDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct FaultFile {
    disk: FaultDisk,
    inode: usize,
    boot: u64,
}

#[derive(Debug)]
pub(crate) struct FaultLock {
    disk: FaultDisk,
    boot: u64,
}

impl Drop for FaultLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.boot == self.boot {
            state.locked = false;
        }
    }
}

fn position(chance: &mut Chance, below: usize) -> usize {
    usize::try_from(chance.below(below as u64)).expect("below a usize")
}

impl FaultDisk {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
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
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics while holding it")
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// From now on all files together hold at most `bytes`.
    pub(crate) fn set_space(&self, bytes: Option<usize>) {
        self.state().space = bytes;
    }

    /// How much all files hold.
    pub(crate) fn used(&self) -> usize {
        self.state().used()
    }

    /// After so many more calls the machine stops: the one it stops in may be done in part.
    pub(crate) fn stop_after(&self, calls: Option<u64>) {
        self.state().fuse = calls;
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.state().fuse == Some(0)
    }

    /// Another disk with the same on it, and the same before it.
    pub(crate) fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.state().clone())))
    }

    /// The process ended and starts again; the machine went on, and shows what was written.
    pub(crate) fn kill(&self) {
        let mut state = self.state();
        state.boot += 1;
        state.locked = false;
        state.fuse = None;
    }

    /// Power was lost and came back.
    pub(crate) fn lose_power(&self) {
        self.kill();
        let state = &mut *self.state();
        for inode in &mut state.inodes {
            keep_part(&mut state.chance, inode);
            inode.visible.clone_from(&inode.durable);
        }
        for renamed in std::mem::take(&mut state.unsynced) {
            if state.chance.once_in(2) {
                bind(&mut state.durable, &renamed);
            }
        }
        state.visible = state.durable.clone();
    }

    /// Bytes of a file as they are seen.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        state.inodes[state.visible[name]].visible.clone()
    }

    /// Which file has this name.
    pub(crate) fn inode(&self, name: &str) -> usize {
        self.state().visible[name]
    }

    /// Puts a file there, durably.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let state = &mut *self.state();
        let (visible, durable) = (bytes.to_vec(), bytes.to_vec());
        state.inodes.push(Inode { visible, durable, unsynced: Vec::new() });
        let renamed = vec![(name.to_owned(), Some(state.inodes.len() - 1))];
        bind(&mut state.visible, &renamed);
        bind(&mut state.durable, &renamed);
    }

    /// What is there, by name.
    pub(crate) fn names(&self) -> Vec<String> {
        self.state().visible.keys().cloned().collect()
    }
}

/// Some of the unsynced writes reach the medium.
fn keep_part(chance: &mut Chance, inode: &mut Inode) {
    let mode = chance.below(4);
    let ops = std::mem::take(&mut inode.unsynced);
    let whole = position(chance, ops.len() + 1);
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
        Op::Resize { .. } if chance.once_in(2) => apply(bytes, op),
        Op::Resize { .. } => (),
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
        Op::Resize { length } => file.resize(*length, 0),
        Op::Write { offset, bytes } => {
            let end = offset + bytes.len();
            if file.len() < end {
                file.resize(end, 0);
            }
            file[*offset..end].copy_from_slice(bytes);
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

impl State {
    fn used(&self) -> usize {
        self.visible.values().map(|inode| self.inodes[*inode].visible.len()).sum()
    }

    /// Whether the call may go on; burns the fuse.
    fn enter(&mut self, boot: u64, once_in: u64) -> io::Result<()> {
        if boot == self.boot
            && let Some(fuse) = &mut self.fuse
        {
            *fuse = fuse.saturating_sub(1);
        }
        if boot != self.boot || self.fuse == Some(0) {
            return Err(io::Error::other("the machine has stopped"));
        }
        if self.chance.once_in(once_in) {
            return Err(io::Error::other("input/output error"));
        }
        Ok(())
    }

    fn change(&mut self, inode: usize, op: Op) {
        let inode = &mut self.inodes[inode];
        apply(&mut inode.visible, &op);
        inode.unsynced.push(op);
    }

    fn rename(&mut self, renamed: Renamed) -> io::Result<()> {
        self.enter(self.boot, self.faults.other)?;
        bind(&mut self.visible, &renamed);
        self.unsynced.push(renamed);
        Ok(())
    }
}

impl Place for FaultDisk {
    type Lock = FaultLock;

    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn lock(&self) -> io::Result<FaultLock> {
        let mut state = self.state();
        if state.locked {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "process 7"));
        }
        state.locked = true;
        Ok(FaultLock { disk: self.clone(), boot: state.boot })
    }

    fn has(&self, file: &str) -> io::Result<bool> {
        Ok(self.state().visible.contains_key(file))
    }

    fn open(&self, file: &str) -> io::Result<Box<dyn StorageBackend>> {
        let mut state = self.state();
        let boot = state.boot;
        let inode = match state.visible.get(file) {
            Some(inode) => *inode,
            None => {
                state.inodes.push(Inode::default());
                let inode = state.inodes.len() - 1;
                state.rename(vec![(file.to_owned(), Some(inode))])?;
                inode
            }
        };
        Ok(Box::new(FaultFile { disk: self.clone(), inode, boot }))
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        let mut state = self.state();
        if !state.visible.contains_key(file) {
            return Ok(());
        }
        state.rename(vec![(file.to_owned(), None)])
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let inode = *state.visible.get(from).ok_or(io::ErrorKind::NotFound)?;
        state.rename(vec![(from.to_owned(), None), (to.to_owned(), Some(inode))])
    }

    fn sync(&self) -> io::Result<()> {
        let state = &mut *self.state();
        let entered = state.enter(state.boot, state.faults.other);
        let is_lost = entered.is_err();
        for renamed in std::mem::take(&mut state.unsynced) {
            if !is_lost || state.chance.once_in(2) {
                bind(&mut state.durable, &renamed);
            }
        }
        entered
    }
}

impl StorageBackend for FaultFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.state().inodes[self.inode].visible.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.disk.state();
        let offset = usize::try_from(offset).expect("files fit memory");
        let visible = &state.inodes[self.inode].visible;
        let bytes = visible.get(offset..offset + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let state = &mut *self.disk.state();
        state.enter(self.boot, state.faults.other)?;
        let length = usize::try_from(len).expect("files fit memory");
        let more = length.saturating_sub(state.inodes[self.inode].visible.len());
        if state.space.is_some_and(|space| state.used() + more > space) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.change(self.inode, Op::Resize { length });
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let state = &mut *self.disk.state();
        let entered = state.enter(self.boot, state.faults.sync);
        let State { chance, inodes, .. } = state;
        let inode = &mut inodes[self.inode];
        if entered.is_ok() {
            for op in std::mem::take(&mut inode.unsynced) {
                apply(&mut inode.durable, &op);
            }
        } else if self.boot == state.boot {
            keep_part(chance, inode);
        }
        entered
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let state = &mut *self.disk.state();
        let entered = state.enter(self.boot, state.faults.write);
        if self.boot != state.boot {
            return entered;
        }
        let offset = usize::try_from(offset).expect("files fit memory");
        // A write that fails may have been done in part.
        let written = match entered {
            Ok(()) => data.len(),
            Err(_) => position(&mut state.chance, data.len() + 1),
        };
        if written > 0 {
            state.change(self.inode, Op::Write { offset, bytes: data[..written].to_vec() });
        }
        entered
    }
}
