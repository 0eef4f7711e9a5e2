//! The store's file, and what is done when its disk fails. Every call blocks.
//!
//! A failed commit has an unknown outcome, and the file is closed. [`StoreEngine::reopen`] opens it
//! again. After a failed sync, pages in the cache may never reach the medium even if later syncs
//! succeed: so the file is first copied to a new one, which then replaces it. A start after an
//! unclean end does the same; the file `open` marks it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use pacer_core::store::{CommitOutcome, StoreAnswer, StoreDenial, StoreFault, StoreRequest};
use redb::{Builder, Database};

use super::directory::StoreDirectory;
use super::error::{DiskFailure, StoreOpenError};
use super::tables::{self, FORMAT, RequestResult, StoreTables};
use super::watched::{DiskWatch, WatchedFile};

pub(crate) const FILE_NAME: &str = "ledger.redb";
const NEW_NAME: &str = "ledger.redb.new";
/// Exists while a process has the store open, and after an unclean end. It is not synced: if the
/// name is lost, so is the page cache that it warns of.
const OPEN_NAME: &str = "open";
/// Memory for redb's cache: the rows of some hours. Older rows are seldom read.
const CACHE_BYTES: usize = 16 << 20;
const PIECE_BYTES: usize = 1 << 20;

/// Whether a directory has a store, or an incomplete one. Locks and opens nothing.
pub(crate) fn is_begun(directory: &Path) -> bool {
    [FILE_NAME, NEW_NAME].iter().any(|name| directory.join(name).exists())
}

pub(crate) struct StoreEngine<P: StoreDirectory> {
    place: P,
    watch: Arc<DiskWatch>,
    /// `Err` while its disk fails.
    database: Result<Database, DiskFailure>,
    commits: u64,
    _lock: P::Lock,
}

enum OpenFailure {
    Failed(DiskFailure),
    Newer(u64),
}

impl<E: Into<DiskFailure>> From<E> for OpenFailure {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl<P: StoreDirectory> StoreEngine<P> {
    pub(crate) fn open(place: P) -> Result<Self, StoreOpenError> {
        let disk = |error: io::Error| open_error(&place, &error.into());
        let lock = place.lock().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                StoreOpenError::InUse { place: place.name(), holder: error.to_string() }
            }
            _ => disk(error),
        })?;
        let watch = Arc::new(DiskWatch::default());
        let failed = |failure: DiskFailure| open_error(&place, &failure);
        let ended_badly = place.has(OPEN_NAME).map_err(disk)?;
        let is_there = place.has(FILE_NAME).map_err(disk)?;
        if !is_there {
            if ended_badly && !place.has(NEW_NAME).map_err(disk)? {
                return Err(failed(DiskFailure::damaged("it is gone")));
            }
            // Durable before the name `open`: otherwise a store that never existed looks lost.
            drop(place.open(NEW_NAME).map_err(disk)?);
            place.sync().map_err(disk)?;
        }
        watch.set_suspect(ended_badly);
        drop(place.open(OPEN_NAME).map_err(disk)?);
        if !is_there {
            create_store(&place, &watch).map_err(failed)?;
        }
        match open_file(&place, &watch) {
            Ok(database) => {
                Ok(Self { place, watch, database: Ok(database), commits: 0, _lock: lock })
            }
            Err(OpenFailure::Failed(failure)) => Err(open_error(&place, &failure)),
            Err(OpenFailure::Newer(found)) => {
                Err(StoreOpenError::Newer { file: file_of(&place), found, known: FORMAT })
            }
        }
    }

    pub(crate) fn failing(&self) -> Option<StoreFault> {
        self.database.as_ref().err().map(|failure| failure.cause)
    }

    pub(crate) const fn commits(&self) -> u64 {
        self.commits
    }

    /// Reopens the file, unless it is damaged: restoring a copy requires ending this process first.
    pub(crate) fn reopen(&mut self) {
        let Err(DiskFailure { cause: StoreFault::DiskFull | StoreFault::Disk, .. }) =
            &self.database
        else {
            return;
        };
        self.database = open_file(&self.place, &self.watch).map_err(|closed| match closed {
            OpenFailure::Failed(failure) => failure,
            OpenFailure::Newer(_) => DiskFailure::damaged("another format"),
        });
    }

    /// Answers requests in order; consecutive writes share a transaction.
    pub(crate) fn serve(&mut self, requests: &[StoreRequest]) -> Vec<StoreAnswer> {
        let mut answers = Vec::with_capacity(requests.len());
        let is_read = |request: &StoreRequest| matches!(request, StoreRequest::Read(_));
        for group in requests.chunk_by(|one, next| is_read(one) == is_read(next)) {
            if is_read(&group[0]) {
                answers.extend(group.iter().map(|request| self.read(request)));
            } else {
                self.write(group, &mut answers);
            }
        }
        answers
    }

    fn read(&mut self, request: &StoreRequest) -> StoreAnswer {
        let StoreRequest::Read(query) = request else { unreachable!("a group of reads") };
        let read = match &self.database {
            Ok(database) => guarded(&self.watch, || tables::read(database, query)),
            Err(DiskFailure { cause, .. }) => {
                return StoreAnswer::Read(Err(StoreDenial::Failing(*cause)));
            }
        };
        StoreAnswer::Read(read.map_err(|failure| StoreDenial::Failing(self.fail(failure))))
    }

    fn write(&mut self, group: &[StoreRequest], answers: &mut Vec<StoreAnswer>) {
        let written = match &self.database {
            Ok(database) => guarded(&self.watch, || Ok(commit(database, group))),
            Err(DiskFailure { cause, .. }) => return answers.extend(refuse(group, *cause)),
        };
        match written.unwrap_or_else(GroupOutcome::Unknown) {
            GroupOutcome::All(written) => {
                self.commits += 1;
                answers.extend(
                    group.iter().zip(written).map(|(request, written)| done(request, written)),
                );
            }
            GroupOutcome::Nothing(failure) => answers.extend(refuse(group, self.fail(failure))),
            GroupOutcome::Unknown(failure) => {
                let failing = StoreDenial::Failing(self.fail(failure));
                answers.extend(group.iter().map(|request| match request {
                    StoreRequest::Begin(node, _) => {
                        StoreAnswer::Begun { node: *node, begun: Err(failing.clone()) }
                    }
                    _ => request.answer(CommitOutcome::Unknown, None),
                }));
            }
        }
    }

    /// Closes the file. The disk's first error says more than redb's.
    fn fail(&mut self, failure: DiskFailure) -> StoreFault {
        let first = self.watch.take();
        let cause = match (failure.cause, first) {
            (StoreFault::Damaged, _) | (_, None) => failure.cause,
            (_, Some((cause, _))) => cause,
        };
        let closed = std::mem::replace(&mut self.database, Err(DiskFailure { cause, ..failure }));
        // redb writes nothing after a failure, but may find its own state broken.
        if catch_unwind(AssertUnwindSafe(|| drop(closed))).is_err() {
            self.watch.set_suspect(true);
        }
        cause
    }

    /// Closes cleanly: the next start trusts the file.
    pub(crate) fn close(self) -> Result<(), StoreFault> {
        let Self { place, watch, database, _lock, .. } = self;
        let database = database.map_err(|failure| failure.cause)?;
        let closed = guarded(&watch, || Ok(database.close().map_err(redb::Error::from)?));
        closed.map_err(|failure| failure.cause)?;
        place.remove(OPEN_NAME).map_err(|error| DiskFailure::from(error).cause)
    }
}

fn file_of(place: &impl StoreDirectory) -> String {
    format!("{}/{FILE_NAME}", place.name())
}

pub(super) fn open_error(place: &impl StoreDirectory, failure: &DiskFailure) -> StoreOpenError {
    let (place, file, detail) = (place.name(), file_of(place), failure.detail.clone());
    match failure.cause {
        StoreFault::DiskFull => StoreOpenError::Full { place },
        StoreFault::Damaged => StoreOpenError::Damaged { file, detail },
        StoreFault::Disk => StoreOpenError::Disk { place, error: detail },
    }
}

/// Calls redb, which may panic over a file that is not as it wrote it: that is damage like any
/// other, and the file is not trusted then.
fn guarded<T>(
    watch: &DiskWatch,
    run: impl FnOnce() -> Result<T, DiskFailure>,
) -> Result<T, DiskFailure> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        watch.set_suspect(true);
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        let detail = said.unwrap_or("it cannot be understood").to_owned();
        Err(DiskFailure::damaged(detail))
    })
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    // Verify every page's checksum before trusting any.
    builder.set_check_integrity_on_open(true).set_cache_size(CACHE_BYTES);
    builder
}

fn open_database(
    place: &impl StoreDirectory,
    watch: &Arc<DiskWatch>,
    name: &str,
) -> Result<Database, DiskFailure> {
    let file = place.open(name)?;
    let watched = WatchedFile { file, watch: Arc::clone(watch) };
    let opened =
        guarded(watch, || Ok(builder().create_with_backend(watched).map_err(redb::Error::from)?));
    match (opened, watch.take()) {
        (Err(failure), Some((cause, detail))) if failure.cause == StoreFault::Disk => {
            Err(DiskFailure { cause, detail })
        }
        (opened, _) => opened,
    }
}

/// Creates an empty store. Its name never denotes an incomplete one.
fn create_store(place: &impl StoreDirectory, watch: &Arc<DiskWatch>) -> Result<(), DiskFailure> {
    place.open(NEW_NAME)?.set_len(0)?;
    let database = open_database(place, watch, NEW_NAME)?;
    guarded(watch, || Ok(tables::create_tables(&database)?))?;
    guarded(watch, || Ok(database.close().map_err(redb::Error::from)?))?;
    put_in_place(place)
}

fn put_in_place(place: &impl StoreDirectory) -> Result<(), DiskFailure> {
    place.rename(NEW_NAME, FILE_NAME)?;
    Ok(place.sync()?)
}

fn open_file(place: &impl StoreDirectory, watch: &Arc<DiskWatch>) -> Result<Database, OpenFailure> {
    // Left over from an earlier process.
    place.remove(NEW_NAME)?;
    watch.take();
    let opened = open_whole(place, watch);
    if opened.is_err() {
        // Until the next attempt others may need its space, above all the log.
        let _removed = place.remove(NEW_NAME);
    }
    opened
}

fn open_whole(
    place: &impl StoreDirectory,
    watch: &Arc<DiskWatch>,
) -> Result<Database, OpenFailure> {
    if !place.has(FILE_NAME)? {
        return Err(DiskFailure::damaged("it is gone").into());
    }
    // redb would start anew in an empty file; here it is a store that lost everything.
    if place.open(FILE_NAME)?.len()? == 0 {
        return Err(DiskFailure::damaged("it is empty").into());
    }
    let is_anew = watch.is_suspect();
    if is_anew {
        copy(place)?;
    }
    let database = open_database(place, watch, if is_anew { NEW_NAME } else { FILE_NAME })?;
    match guarded(watch, || Ok(tables::format(&database)?))? {
        None => return Err(DiskFailure::damaged("it is no store of a ledger's").into()),
        Some(format) if format > FORMAT => return Err(OpenFailure::Newer(format)),
        Some(FORMAT) => (),
        Some(_) => guarded(watch, || Ok(tables::create_tables(&database)?))?,
    }
    if is_anew {
        put_in_place(place)?;
    }
    // Nothing in the new file predates a failed sync.
    watch.set_suspect(false);
    Ok(database)
}

/// Copies the store byte by byte as the page cache shows it. The store itself is not written: a
/// write might reach the medium without what it builds upon.
fn copy(place: &impl StoreDirectory) -> Result<(), DiskFailure> {
    let (from, to) = (place.open(FILE_NAME)?, place.open(NEW_NAME)?);
    let length = from.len()?;
    to.set_len(length)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < length {
        let left = usize::try_from(length - at).unwrap_or(PIECE_BYTES);
        let piece = &mut piece[..left.min(PIECE_BYTES)];
        from.read(at, piece)?;
        to.write(at, piece)?;
        at += piece.len() as u64;
    }
    // Opening it syncs as well, but redb does not promise that.
    Ok(to.sync_data()?)
}

enum GroupOutcome {
    All(Vec<RequestResult>),
    Nothing(DiskFailure),
    Unknown(DiskFailure),
}

fn commit(database: &Database, group: &[StoreRequest]) -> GroupOutcome {
    let nothing = |error: redb::Error| GroupOutcome::Nothing(error.into());
    let transaction = match tables::begin_write(database) {
        Ok(transaction) => transaction,
        Err(error) => return nothing(error),
    };
    let written: Result<Vec<_>, _> = StoreTables::open(&transaction)
        .and_then(|mut tables| group.iter().map(|request| tables.write(request)).collect());
    match written {
        Err(error) => nothing(error),
        Ok(written) => match transaction.commit() {
            Ok(()) => GroupOutcome::All(written),
            Err(error) => GroupOutcome::Unknown(redb::Error::from(error).into()),
        },
    }
}

fn refuse(group: &[StoreRequest], cause: StoreFault) -> impl Iterator<Item = StoreAnswer> {
    group.iter().map(move |request| {
        request.answer(CommitOutcome::Refused, Some(StoreDenial::Failing(cause)))
    })
}

fn done(request: &StoreRequest, written: RequestResult) -> StoreAnswer {
    match (request, written) {
        (StoreRequest::Begin(node, _), RequestResult::Begun(begun)) => {
            StoreAnswer::Begun { node: *node, begun: Ok(begun) }
        }
        (_, RequestResult::Ended(Err(denied))) => {
            request.answer(CommitOutcome::Refused, Some(denied))
        }
        _ => request.answer(CommitOutcome::Committed, None),
    }
}
