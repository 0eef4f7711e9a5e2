//! A file system in memory that fails at a chosen call, and loses what was not synced.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::store::ExportStore;

/// The failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// No failure.
    None,
    /// The process is killed in this call.
    Killed(u64),
    /// The disk is full at this call.
    Full(u64),
}

#[derive(Clone, Debug)]
enum Change {
    Folder(String),
    File(String, usize),
    Rename(String, String),
    Remove(String),
}

/// A change of names, and the folders to sync to make it durable.
#[derive(Clone, Debug)]
struct Pending {
    change: Change,
    unsynced: BTreeSet<String>,
}

#[derive(Clone, Debug, Default)]
struct Names {
    folders: BTreeSet<String>,
    files: BTreeMap<String, usize>,
}

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// This many of them survive.
    synced: usize,
}

#[derive(Debug)]
struct World {
    fault: Fault,
    calls: u64,
    dead: bool,
    names: Names,
    /// The state after a power loss, except for pending changes.
    durable: Names,
    pending: Vec<Pending>,
    contents: Vec<Content>,
    locked: BTreeSet<String>,
    open: usize,
    open_most: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Memory(Arc<Mutex<World>>);

pub(super) struct Handle(Memory, usize);

pub(super) struct Held(Memory, String);

fn above(path: &str) -> String {
    path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned())
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Names {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Folder(path) => drop(self.folders.insert(path.clone())),
            Change::File(path, content) => drop(self.files.insert(path.clone(), *content)),
            Change::Rename(from, to) => {
                if let Some(content) = self.files.remove(from) {
                    self.files.insert(to.clone(), content);
                }
            }
            Change::Remove(path) => drop(self.files.remove(path)),
        }
    }
}

impl World {
    /// Counts a call, which may fail.
    fn call(&mut self) -> io::Result<()> {
        let call = self.calls;
        self.calls += 1;
        if self.dead || self.fault == Fault::Killed(call) {
            self.dead = true;
            return Err(io::Error::other("the process is gone"));
        }
        if self.fault == Fault::Full(call) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn change(&mut self, change: Change) {
        self.names.apply(&change);
        let unsynced = match &change {
            Change::Folder(path) | Change::File(path, _) | Change::Remove(path) => {
                [above(path)].into()
            }
            Change::Rename(from, to) => [above(from), above(to)].into(),
        };
        self.pending.push(Pending { change, unsynced });
    }
}

impl Memory {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(World {
            fault: Fault::None,
            calls: 0,
            dead: false,
            names: Names::default(),
            durable: Names::default(),
            pending: Vec::new(),
            contents: Vec::new(),
            locked: BTreeSet::new(),
            open: 0,
            open_most: 0,
        })))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no test panicked with it")
    }

    /// Starts the next process, which sees all earlier writes.
    pub(super) fn restart(&self, fault: Fault) {
        let mut world = self.world();
        (world.fault, world.calls, world.dead) = (fault, 0, false);
        world.locked.clear();
    }

    /// Number of calls since the last start.
    pub(super) fn calls(&self) -> u64 {
        self.world().calls
    }

    /// Loses power; `keep` decides which unsynced changes survive.
    pub(super) fn lose_power(&self, mut keep: impl FnMut() -> bool) {
        let mut world = self.world();
        let pending = std::mem::take(&mut world.pending);
        for Pending { change, unsynced } in &pending {
            if unsynced.is_empty() || keep() {
                world.durable.apply(change);
            }
        }
        let Names { folders, files } = &mut world.durable;
        files.retain(|path, _| folders.contains(&above(path)));
        world.names = world.durable.clone();
        for content in &mut world.contents {
            if !keep() {
                content.bytes.truncate(content.synced);
            } else if !keep() {
                let half = usize::midpoint(content.synced, content.bytes.len());
                content.bytes.truncate(half);
            }
            content.synced = content.bytes.len();
        }
    }

    /// Most files open at the same time.
    pub(super) fn open_most(&self) -> usize {
        self.world().open_most
    }

    /// Files visible to readers of the folder.
    pub(super) fn visible(&self) -> BTreeMap<String, Vec<u8>> {
        let world = self.world();
        let seen = world.names.files.iter().filter(|(path, _)| path.starts_with("hour="));
        seen.map(|(path, content)| (path.clone(), world.contents[*content].bytes.clone())).collect()
    }

    /// Paths of all files.
    pub(super) fn paths(&self) -> Vec<String> {
        self.world().names.files.keys().cloned().collect()
    }

    pub(super) fn text(&self, path: &str) -> String {
        let world = self.world();
        let content = world.names.files[path];
        String::from_utf8(world.contents[content].bytes.clone()).expect("text")
    }

    /// Puts a file there, as another program would.
    pub(super) fn put(&self, path: &str, bytes: &[u8]) {
        let mut world = self.world();
        let content = world.contents.len();
        world.contents.push(Content { bytes: bytes.to_vec(), synced: bytes.len() });
        let folder = above(path);
        for names in [0, 1] {
            let World { names: now, durable, .. } = &mut *world;
            let names = if names == 0 { now } else { durable };
            names.folders.insert(folder.clone());
            names.files.insert(path.to_owned(), content);
        }
    }

    /// Removes a file, as another program would.
    pub(super) fn take_away(&self, path: &str) {
        let mut world = self.world();
        world.names.files.remove(path).expect("it was there");
        world.durable.files.remove(path);
    }
}

impl ExportStore for Memory {
    type File = Handle;
    type Lock = Held;

    fn show(&self, path: &str) -> String {
        format!("out/{path}")
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        let mut world = self.world();
        world.call()?;
        if !world.names.folders.contains(path) {
            world.change(Change::Folder(path.to_owned()));
        }
        Ok(())
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let mut world = self.world();
        world.call()?;
        let Names { folders, files } = &world.names;
        let below = folders.iter().chain(files.keys()).filter(|name| above(name) == path);
        Ok(below.map(|name| name.rsplit('/').next().expect("a part").to_owned()).collect())
    }

    fn read(&self, path: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let mut world = self.world();
        world.call()?;
        let Some(content) = world.names.files.get(path) else { return Ok(None) };
        let bytes_max = usize::try_from(bytes_max).expect("small");
        let bytes = &world.contents[*content].bytes;
        Ok(Some(bytes[..bytes.len().min(bytes_max)].to_vec()))
    }

    fn create(&self, path: &str) -> io::Result<Handle> {
        let mut world = self.world();
        world.call()?;
        if !world.names.folders.contains(&above(path)) {
            return Err(missing());
        }
        let content = world.contents.len();
        world.contents.push(Content::default());
        world.change(Change::File(path.to_owned(), content));
        world.open += 1;
        world.open_most = world.open_most.max(world.open);
        Ok(Handle(self.clone(), content))
    }

    fn sync(&self, file: Handle) -> io::Result<()> {
        let mut world = self.world();
        // Its drop locks the world itself.
        let content = file.1;
        let called = world.call();
        drop(world);
        drop(file);
        called?;
        let content = &mut self.world().contents[content];
        content.synced = content.bytes.len();
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.world();
        world.call()?;
        if !world.names.files.contains_key(from) || !world.names.folders.contains(&above(to)) {
            return Err(missing());
        }
        world.change(Change::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut world = self.world();
        world.call()?;
        world.names.files.get(path).ok_or_else(missing)?;
        world.change(Change::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_folder(&self, path: &str) -> io::Result<()> {
        let mut world = self.world();
        world.call()?;
        for pending in &mut world.pending {
            pending.unsynced.remove(path);
        }
        // The first ones are durable, and need not be remembered individually.
        while world.pending.first().is_some_and(|pending| pending.unsynced.is_empty()) {
            let Pending { change, .. } = world.pending.remove(0);
            world.durable.apply(&change);
        }
        Ok(())
    }

    fn lock(&self, path: &str) -> io::Result<Held> {
        let mut world = self.world();
        world.call()?;
        if !world.locked.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Held(self.clone(), path.to_owned()))
    }
}

impl Write for Handle {
    /// The failing call writes half of its bytes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut world = self.0.world();
        let called = if world.dead { None } else { Some(world.call()) };
        let Some(called) = called else { return Err(io::Error::other("the process is gone")) };
        let kept = if called.is_ok() { bytes.len() } else { bytes.len() / 2 };
        world.contents[self.1].bytes.extend_from_slice(&bytes[..kept]);
        called.map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.world().open -= 1;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Self(disk, path) = self;
        disk.world().locked.remove(path);
    }
}
