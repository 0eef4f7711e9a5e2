//! One export: which file a row goes to, when files are complete, and how they get their places.
//!
//! Knows neither how rows are encoded nor what the file system is.

use std::collections::BTreeSet;
use std::error::Error;
use std::io;

use serde::{Serialize, de::DeserializeOwned};

use crate::error::ExportError;
use crate::hour::{self, Hour};
use crate::item::{Item, Position};
use crate::name::{self, FileId, UNFINISHED};
use crate::options::Options;
use crate::sheet::{Columns, Sheet, SheetError};
use crate::state::{State, failed};
use crate::store::Store;

/// Writes all of `items` that is not exported yet. See [`crate::export`].
pub(crate) fn run<S: Store, R, E>(
    store: &S,
    items: impl IntoIterator<Item = Result<Item<R>, E>>,
    options: &Options,
    stop: impl FnMut() -> bool,
) -> Result<Summary, ExportError>
where
    R: Serialize + DeserializeOwned,
    E: Error + Send + Sync + 'static,
{
    let columns = Columns::of::<R>()?;
    let mut run = Run::start(store, options, columns)?;
    let summary = run.through(items, stop);
    if summary.is_err() {
        // Room for others where it ran out. The next export would do the same.
        run.open.clear();
        let _ = run.clear_unfinished();
    }
    summary
}

/// What an export came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Through which record everything is complete; `None` when there was none.
    pub position: Option<Position>,
    /// Where it went on; `None` when it began with the log.
    pub resumed: Option<Position>,
    /// The first record that was taken. Where its sequence is not the next after `resumed`, records
    /// between were gone from the log, or not wanted.
    pub first: Option<Position>,
    /// Records that were taken, with or without a row.
    pub records: u64,
    /// Rows that were written.
    pub rows: u64,
    /// Gaps that stood in the log.
    pub gaps: u64,
    /// Records that these gaps stand for: they were never written to the log.
    pub shed: u64,
    /// Files that are new.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Whether it was told to stop before the end.
    pub is_stopped: bool,
}

/// An export under way.
struct Run<'s, S: Store> {
    store: &'s S,
    options: &'s Options,
    columns: Columns,
    /// As it stands on disk, or was to.
    state: State,
    /// Under way, the one that was written to last at the end.
    open: Vec<Open<S>>,
    /// Written and synced, but not named by the state.
    finished: Vec<FileId>,
    /// The last record that was taken.
    reached: Option<Position>,
    /// Rows since the state was written.
    rows: u64,
    /// Bytes of their records.
    bytes: u64,
    summary: Summary,
    _lock: S::Lock,
}

struct Open<S: Store> {
    id: FileId,
    sheet: Sheet<S::File>,
}

impl<'s, S: Store> Run<'s, S> {
    /// Takes the node's desk, brings what an export before left behind to its end, and finds where
    /// to go on.
    fn start(store: &'s S, options: &'s Options, columns: Columns) -> Result<Self, ExportError> {
        let node = options.node;
        let desk = name::desk(node);
        // Its name is durable before anything gets its place: see `publish`.
        let made = store.make_folder(&desk);
        made.map_err(|source| failed(store, &desk, "made", source))?;
        let lock = lock(store, node)?;
        agree_with_others(store, options)?;
        let before = State::read(store, node)?;
        let is_new = before.is_none();
        let state = before.unwrap_or_else(|| State::new(node, options.format, &options.filter));
        agree(store, &state, options)?;
        let (open, finished, reached) = (Vec::new(), Vec::new(), state.position);
        let summary = Summary { position: reached, resumed: reached, ..Summary::default() };
        let mut run = Self {
            store,
            options,
            columns,
            state,
            open,
            finished,
            reached,
            rows: 0,
            bytes: 0,
            summary,
            _lock: lock,
        };
        run.publish()?;
        run.clear_unfinished()?;
        run.refuse_unknown()?;
        if is_new {
            // From here on files of ours have a state that knows them.
            run.state.write(store)?;
        }
        Ok(run)
    }

    fn through<R: Serialize, E: Error + Send + Sync + 'static>(
        &mut self,
        items: impl IntoIterator<Item = Result<Item<R>, E>>,
        mut stop: impl FnMut() -> bool,
    ) -> Result<Summary, ExportError> {
        let mut failure = None;
        let mut items = items.into_iter();
        loop {
            if stop() {
                self.summary.is_stopped = true;
                break;
            }
            match items.next() {
                Some(Ok(item)) => self.take(&item)?,
                Some(Err(error)) => {
                    failure = Some(ExportError::Source(Box::new(error)));
                    break;
                }
                None => break,
            }
        }
        self.commit()?;
        self.summary.position = self.state.position;
        failure.map_or(Ok(self.summary), Err)
    }

    fn take<R: Serialize>(&mut self, item: &Item<R>) -> Result<(), ExportError> {
        match item {
            Item::Row { place, time_us, bytes, row } => {
                if !self.reach(*place)? {
                    return Ok(());
                }
                let hour = Hour::of_unix_us(*time_us);
                self.bring_up(FileId { hour, epoch: place.epoch, first: place.sequence })?;
                let Open { id, sheet } = self.open.last_mut().expect("it was brought up");
                let id = *id;
                sheet.push(*bytes, row).map_err(|error| self.sheet_failed(id, error))?;
                self.summary.rows += 1;
                self.rows += 1;
                self.bytes += *bytes as u64;
                self.commit_when_due()
            }
            Item::Passed(place) => self.reach(*place).map(drop),
            Item::Gap { place, records } => {
                if self.reach(*place)? {
                    self.summary.gaps += 1;
                    self.summary.shed += records;
                }
                Ok(())
            }
        }
    }

    /// Moves on to a record, and tells whether it is a new one.
    fn reach(&mut self, place: Position) -> Result<bool, ExportError> {
        if let Some(reached) = self.reached {
            if place.epoch < reached.epoch && place.sequence >= reached.sequence {
                return Err(ExportError::OtherLog {
                    out: self.store.show(""),
                    sequence: place.sequence,
                    before: reached.epoch,
                    now: place.epoch,
                });
            }
            if place <= reached {
                return Ok(false);
            }
        }
        self.reached = Some(place);
        self.summary.first.get_or_insert(place);
        self.summary.records += 1;
        Ok(true)
    }

    /// Puts the file of an hour last in `open`; begins `id` when there is none.
    fn bring_up(&mut self, id: FileId) -> Result<(), ExportError> {
        if let Some(at) = self.open.iter().position(|open| open.id.hour == id.hour) {
            self.open[at..].rotate_left(1);
            return Ok(());
        }
        if self.open.len() >= self.options.limits.hours_open.max(1) {
            let open = self.open.remove(0);
            self.finish(open)?;
        }
        let path = id.unfinished(self.options.node, self.options.format);
        let file = self.store.create(&path);
        let file = file.map_err(|source| failed(self.store, &path, "made", source))?;
        let sheet = Sheet::new(file, self.options.format, &self.columns, &self.options.limits);
        let sheet = sheet.map_err(|error| self.sheet_failed(id, error))?;
        self.open.push(Open { id, sheet });
        Ok(())
    }

    fn finish(&mut self, Open { id, sheet }: Open<S>) -> Result<(), ExportError> {
        let (file, bytes) = sheet.finish().map_err(|error| self.sheet_failed(id, error))?;
        let synced = self.store.sync(file).map_err(SheetError::Io);
        synced.map_err(|error| self.sheet_failed(id, error))?;
        self.finished.push(id);
        self.summary.files += 1;
        self.summary.bytes += bytes;
        Ok(())
    }

    fn commit_when_due(&mut self) -> Result<(), ExportError> {
        let limits = &self.options.limits;
        let is_due = self.rows >= limits.commit_rows
            || self.bytes >= limits.commit_bytes
            || self.finished.len() >= limits.commit_files;
        if is_due { self.commit() } else { Ok(()) }
    }

    /// Makes everything through the last record complete.
    fn commit(&mut self) -> Result<(), ExportError> {
        for open in std::mem::take(&mut self.open) {
            self.finish(open)?;
        }
        if self.finished.is_empty() && self.reached == self.state.position {
            return Ok(());
        }
        (self.rows, self.bytes) = (0, 0);
        let desk = name::desk(self.options.node);
        // What the state names must be there before it says so.
        let synced = self.store.sync_folder(&desk);
        synced.map_err(|source| failed(self.store, &desk, "synced", source))?;
        self.state.position = self.reached;
        self.state.publishing = std::mem::take(&mut self.finished);
        self.state.write(self.store)?;
        self.publish()
    }

    /// Gives the files that the state names their places, unless they have them, and has it forget
    /// them.
    fn publish(&mut self) -> Result<(), ExportError> {
        if self.state.publishing.is_empty() {
            return Ok(());
        }
        let (node, format) = (self.options.node, self.options.format);
        let desk = name::desk(node);
        let aside: BTreeSet<String> = self.list(&desk)?.into_iter().collect();
        let hours: BTreeSet<Hour> = self.state.publishing.iter().map(|id| id.hour).collect();
        let made = hours.iter().try_for_each(|hour| self.store.make_folder(&hour.folder()));
        // A file must not go into a folder that may be forgotten.
        let made = made.and_then(|()| self.store.sync_folder(""));
        made.map_err(|source| failed(self.store, "", "added to", source))?;
        for hour in hours {
            let folder = hour.folder();
            let there: BTreeSet<String> = self.list(&folder)?.into_iter().collect();
            for id in self.state.publishing.iter().filter(|id| id.hour == hour) {
                let (from, to) = (id.unfinished(node, format), id.path(node, format));
                match (aside.contains(base(&from)), there.contains(base(&to))) {
                    (true, false) => {
                        let moved = self.store.rename(&from, &to);
                        moved.map_err(|source| failed(self.store, &to, "put there", source))?;
                    }
                    (false, true) => (),
                    (true, true) => return Err(self.unknown(&to)),
                    (false, false) => {
                        return Err(ExportError::Lost { file: self.store.show(&to) });
                    }
                }
            }
            let synced = self.store.sync_folder(&folder);
            synced.map_err(|source| failed(self.store, &folder, "synced", source))?;
        }
        let synced = self.store.sync_folder(&desk);
        synced.map_err(|source| failed(self.store, &desk, "synced", source))?;
        self.state.publishing.clear();
        self.state.write(self.store)
    }

    /// Removes what is under way at the desk and not named by the state.
    fn clear_unfinished(&self) -> Result<(), ExportError> {
        let (node, format) = (self.options.node, self.options.format);
        let named: BTreeSet<String> =
            self.state.publishing.iter().map(|id| id.unfinished(node, format)).collect();
        let desk = name::desk(node);
        for name in self.list(&desk)? {
            let path = format!("{desk}/{name}");
            if name.ends_with(UNFINISHED) && !named.contains(&path) {
                let removed = self.store.remove(&path);
                removed.map_err(|source| failed(self.store, &path, "removed", source))?;
            }
        }
        Ok(())
    }

    /// Files of ours that begin behind what is exported come from another state: their rows would
    /// be written once more.
    fn refuse_unknown(&self) -> Result<(), ExportError> {
        for folder in self.list("")?.iter().filter(|name| name.starts_with(hour::PREFIX)) {
            for file in self.list(folder)? {
                if let Some((node, first)) = name::written_by(&file)
                    && node == self.options.node
                    && Some(first) > self.state.position
                {
                    return Err(self.unknown(&format!("{folder}/{file}")));
                }
            }
        }
        Ok(())
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, ExportError> {
        self.store.list(folder).map_err(|source| failed(self.store, folder, "listed", source))
    }

    fn unknown(&self, file: &str) -> ExportError {
        let state = self.store.show(&name::state(self.options.node));
        ExportError::Unknown { file: self.store.show(file), state }
    }

    fn sheet_failed(&self, id: FileId, error: SheetError) -> ExportError {
        match error {
            SheetError::Io(source) => {
                let path = id.unfinished(self.options.node, self.options.format);
                failed(self.store, &path, "written", source)
            }
            SheetError::Row(reason) => {
                let sequence = self.reached.map_or(0, |reached| reached.sequence);
                let what = format!("record {sequence}");
                ExportError::Row { what, format: self.options.format, reason }
            }
        }
    }
}

/// A path's last part.
fn base(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, base)| base)
}

fn lock<S: Store>(store: &S, node: u32) -> Result<S::Lock, ExportError> {
    let path = name::lock(node);
    store.lock(&path).map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => ExportError::InUse { path: store.show(&path), node },
        _ => failed(store, &path, "locked", source),
    })
}

/// One node's files are of one format and one filter.
fn agree<S: Store>(store: &S, state: &State, options: &Options) -> Result<(), ExportError> {
    let path = store.show(&name::state(state.node));
    if state.format != options.format {
        let (before, now) = (state.format, options.format);
        return Err(ExportError::OtherFormat { path, before, now });
    }
    if state.filter != options.filter {
        let (before, now) = (state.filter.clone(), options.filter.clone());
        return Err(ExportError::OtherFilter { path, before, now });
    }
    Ok(())
}

/// All nodes' files are of one format, so that one query reads them.
fn agree_with_others<S: Store>(store: &S, options: &Options) -> Result<(), ExportError> {
    let names = store.list("").map_err(|source| failed(store, "", "listed", source))?;
    let others = names.iter().filter_map(|name| name::desk_of(name));
    for node in others.filter(|node| *node != options.node) {
        let state = match State::read(store, node) {
            Err(error @ ExportError::Io { .. }) => return Err(error),
            // What else is wrong with it is for that node's own export to tell.
            state => state.ok().flatten(),
        };
        if let Some(state) = state.filter(|state| state.format != options.format) {
            let path = store.show(&name::state(node));
            let (before, now) = (state.format, options.format);
            return Err(ExportError::OtherFormat { path, before, now });
        }
    }
    Ok(())
}
