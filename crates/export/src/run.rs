//! One export: assigns rows to files, completes files and publishes them.

use std::collections::BTreeSet;
use std::error::Error;
use std::io;

use serde::{Serialize, de::DeserializeOwned};

use crate::error::ExportError;
use crate::hour::{self, HourPartition};
use crate::item::{ExportItem, LogPosition};
use crate::name::{self, FileId, UNFINISHED};
use crate::options::ExportOptions;
use crate::sheet::{RowFile, RowFileError, TableColumns};
use crate::state::{ExportState, failed};
use crate::store::ExportStore;

/// Writes the `items` that are not exported yet. See [`crate::export`].
pub(crate) fn run<S: ExportStore, R, E>(
    store: &S,
    items: impl IntoIterator<Item = Result<ExportItem<R>, E>>,
    options: &ExportOptions,
    stop: impl FnMut() -> bool,
) -> Result<ExportSummary, ExportError>
where
    R: Serialize + DeserializeOwned,
    E: Error + Send + Sync + 'static,
{
    let columns = TableColumns::of::<R>()?;
    let mut run = ExportRun::start(store, options, columns)?;
    let summary = run.through(items, stop);
    if summary.is_err() {
        // Frees space, which may have run out. The next export would do the same.
        run.open.clear();
        let _ = run.clear_unfinished();
    }
    summary
}

/// Result of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportSummary {
    /// The last record covered by complete files. None if there is none.
    pub position: Option<LogPosition>,
    /// Where it continued. None if it began with the log.
    pub resumed: Option<LogPosition>,
    /// The first record read. If its sequence does not follow `resumed`, records between were gone
    /// from the log, or not wanted.
    pub first: Option<LogPosition>,
    /// Records read, with or without a row.
    pub records: u64,
    /// Rows written.
    pub rows: u64,
    /// Gaps read.
    pub gaps: u64,
    /// Records these gaps stand for, which were never logged.
    pub shed: u64,
    /// New files.
    pub files: u64,
    /// Their total length.
    pub bytes: u64,
    /// Whether it was stopped before the end.
    pub is_stopped: bool,
}

/// A running export.
struct ExportRun<'s, S: ExportStore> {
    store: &'s S,
    options: &'s ExportOptions,
    columns: TableColumns,
    /// The state on disk, or about to be.
    state: ExportState,
    /// Open files, the most recently written last.
    open: Vec<OpenFile<S>>,
    /// Synced files that the state does not name yet.
    finished: Vec<FileId>,
    /// The last record read.
    reached: Option<LogPosition>,
    /// Rows since the last commit.
    rows: u64,
    /// Record bytes since the last commit.
    bytes: u64,
    summary: ExportSummary,
    _lock: S::Lock,
}

struct OpenFile<S: ExportStore> {
    id: FileId,
    sheet: RowFile<S::File>,
}

impl<'s, S: ExportStore> ExportRun<'s, S> {
    /// Locks the node's state folder, finishes what an interrupted export left, and finds where to
    /// continue.
    fn start(
        store: &'s S,
        options: &'s ExportOptions,
        columns: TableColumns,
    ) -> Result<Self, ExportError> {
        let node = options.node;
        let desk = name::state_folder(node);
        // Its name is durable before any file is published: see `publish`.
        let made = store.make_folder(&desk);
        made.map_err(|source| failed(store, &desk, "made", source))?;
        let lock = lock(store, node)?;
        agree_with_others(store, options)?;
        let before = ExportState::read(store, node)?;
        let is_new = before.is_none();
        let state =
            before.unwrap_or_else(|| ExportState::new(node, options.format, &options.filter));
        agree(store, &state, options)?;
        let (open, finished, reached) = (Vec::new(), Vec::new(), state.position);
        let summary =
            ExportSummary { position: reached, resumed: reached, ..ExportSummary::default() };
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
            // From here on our files have a state that names them.
            run.state.write(store)?;
        }
        Ok(run)
    }

    fn through<R: Serialize, E: Error + Send + Sync + 'static>(
        &mut self,
        items: impl IntoIterator<Item = Result<ExportItem<R>, E>>,
        mut stop: impl FnMut() -> bool,
    ) -> Result<ExportSummary, ExportError> {
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

    fn take<R: Serialize>(&mut self, item: &ExportItem<R>) -> Result<(), ExportError> {
        match item {
            ExportItem::Row { place, time_us, bytes, row } => {
                if !self.reach(*place)? {
                    return Ok(());
                }
                let hour = HourPartition::of_unix_us(*time_us);
                self.bring_up(FileId { hour, epoch: place.epoch, first: place.sequence })?;
                let OpenFile { id, sheet } = self.open.last_mut().expect("it was brought up");
                let id = *id;
                sheet.push(*bytes, row).map_err(|error| self.sheet_failed(id, error))?;
                self.summary.rows += 1;
                self.rows += 1;
                self.bytes += *bytes as u64;
                self.commit_when_due()
            }
            ExportItem::Passed(place) => self.reach(*place).map(drop),
            ExportItem::Gap { place, records } => {
                if self.reach(*place)? {
                    self.summary.gaps += 1;
                    self.summary.shed += records;
                }
                Ok(())
            }
        }
    }

    /// Moves to a record; returns whether it is new.
    fn reach(&mut self, place: LogPosition) -> Result<bool, ExportError> {
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

    /// Makes the file of an hour the last in `open`; begins `id` if there is none.
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
        let sheet = RowFile::new(file, self.options.format, &self.columns, &self.options.limits);
        let sheet = sheet.map_err(|error| self.sheet_failed(id, error))?;
        self.open.push(OpenFile { id, sheet });
        Ok(())
    }

    fn finish(&mut self, OpenFile { id, sheet }: OpenFile<S>) -> Result<(), ExportError> {
        let (file, bytes) = sheet.finish().map_err(|error| self.sheet_failed(id, error))?;
        let synced = self.store.sync(file).map_err(RowFileError::Io);
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

    /// Completes everything up to the last record.
    fn commit(&mut self) -> Result<(), ExportError> {
        for open in std::mem::take(&mut self.open) {
            self.finish(open)?;
        }
        if self.finished.is_empty() && self.reached == self.state.position {
            return Ok(());
        }
        (self.rows, self.bytes) = (0, 0);
        let desk = name::state_folder(self.options.node);
        // Files must exist before the state names them.
        let synced = self.store.sync_folder(&desk);
        synced.map_err(|source| failed(self.store, &desk, "synced", source))?;
        self.state.position = self.reached;
        self.state.publishing = std::mem::take(&mut self.finished);
        self.state.write(self.store)?;
        self.publish()
    }

    /// Renames the files that the state names to their final names, if not done yet, and clears the
    /// list.
    fn publish(&mut self) -> Result<(), ExportError> {
        if self.state.publishing.is_empty() {
            return Ok(());
        }
        let (node, format) = (self.options.node, self.options.format);
        let desk = name::state_folder(node);
        let aside: BTreeSet<String> = self.list(&desk)?.into_iter().collect();
        let hours: BTreeSet<HourPartition> =
            self.state.publishing.iter().map(|id| id.hour).collect();
        let made = hours.iter().try_for_each(|hour| self.store.make_folder(&hour.folder()));
        // A folder's own name must be durable before a file is moved into it.
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

    /// Removes unfinished files that the state does not name.
    fn clear_unfinished(&self) -> Result<(), ExportError> {
        let (node, format) = (self.options.node, self.options.format);
        let named: BTreeSet<String> =
            self.state.publishing.iter().map(|id| id.unfinished(node, format)).collect();
        let desk = name::state_folder(node);
        for name in self.list(&desk)? {
            let path = format!("{desk}/{name}");
            if name.ends_with(UNFINISHED) && !named.contains(&path) {
                let removed = self.store.remove(&path);
                removed.map_err(|source| failed(self.store, &path, "removed", source))?;
            }
        }
        Ok(())
    }

    /// Refuses files of ours after the exported position: they belong to another state, and their
    /// rows would be written twice.
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

    fn sheet_failed(&self, id: FileId, error: RowFileError) -> ExportError {
        match error {
            RowFileError::Io(source) => {
                let path = id.unfinished(self.options.node, self.options.format);
                failed(self.store, &path, "written", source)
            }
            RowFileError::Row(reason) => {
                let sequence = self.reached.map_or(0, |reached| reached.sequence);
                let what = format!("record {sequence}");
                ExportError::Row { what, format: self.options.format, reason }
            }
        }
    }
}

/// The last part of a path.
fn base(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, base)| base)
}

fn lock<S: ExportStore>(store: &S, node: u32) -> Result<S::Lock, ExportError> {
    let path = name::lock(node);
    store.lock(&path).map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => ExportError::InUse { path: store.show(&path), node },
        _ => failed(store, &path, "locked", source),
    })
}

/// A node's files have one format and one filter.
fn agree<S: ExportStore>(
    store: &S,
    state: &ExportState,
    options: &ExportOptions,
) -> Result<(), ExportError> {
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

/// All nodes' files have one format, so that one query reads them.
fn agree_with_others<S: ExportStore>(
    store: &S,
    options: &ExportOptions,
) -> Result<(), ExportError> {
    let names = store.list("").map_err(|source| failed(store, "", "listed", source))?;
    let others = names.iter().filter_map(|name| name::node_of_state_folder(name));
    for node in others.filter(|node| *node != options.node) {
        let state = match ExportState::read(store, node) {
            Err(error @ ExportError::Io { .. }) => return Err(error),
            // Other problems are reported by that node's own export.
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
