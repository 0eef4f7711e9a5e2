//! The one log thread: opens both lanes, steps the keeper, parks, and ends in bounded time.
//!
//! Owns clocks and the thread. What is due is the keeper's to say.

use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::keeper::{Keeper, Left};
use super::report::Reporter;
use super::ring::{DurableRing, FirehoseRing, Tell};
use super::schedule::{Next, Now};
use super::scribe::Setup;
use super::status::Lane;
use super::watermark::{LaneFormats, Watermark, WatermarkFormat};
use super::{LaneKind, LaneOptions, Start};
use crate::disk::{Disk, Folder, SyncMeter, Timed};
use crate::item::{Item, ReadError};
use crate::reader::newest;
use crate::writer::{OpenError, Recovery, Writer};

/// How long the end of a thread is waited for that was not told.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// How long a call of the file system may take at the end, beyond what the thread was given.
const GRACE: Duration = Duration::from_secs(1);

/// How both lanes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The durable lane.
    pub durable: LaneOptions,
    /// The firehose.
    pub firehose: LaneOptions,
    /// The longest that the thread sleeps when nobody wakes it.
    pub park_max: Duration,
}

impl LogOptions {
    /// Of a node alone.
    pub const DEFAULT: Self = Self {
        durable: LaneOptions::DURABLE,
        firehose: LaneOptions::FIREHOSE,
        park_max: Duration::from_secs(1),
    };
}

impl Default for LogOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Why a log was not opened.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A lane's directory cannot be made.
    #[error("cannot create {place}: {source}")]
    Directory {
        /// Which.
        place: String,
        /// What the file system said.
        source: io::Error,
    },
    /// What is in it cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// What a start found in each lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recoveries {
    /// In the durable one.
    pub durable: Recovery,
    /// In the firehose.
    pub firehose: Recovery,
    /// How far the firehose was durable, by the durable lane. None if that does not say.
    pub watermark: Option<KnownReach>,
}

/// How far the firehose is known to have been durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownReach {
    /// So far.
    pub watermark: Watermark,
    /// When that was written, in Unix milliseconds: what came after is not bounded by it.
    pub time_ms: u64,
}

impl KnownReach {
    /// The newest that a durable lane tells. To be read before the firehose is listed, so that it says
    /// less than that.
    ///
    /// # Errors
    /// A segment cannot be read, or is of a later release.
    pub fn read<D: Disk>(
        disk: &D,
        kind: u8,
        decode: impl Fn(&[u8]) -> Option<Watermark>,
    ) -> Result<Option<Self>, ReadError> {
        newest(disk, kind, |record| {
            let watermark = decode(&record.payload)?;
            Some(Self { watermark, time_ms: record.time_ms })
        })
    }
}

/// A log that was opened and is not written yet: rings are added to it.
pub struct Log {
    keeper: Keeper<Timed<Folder>>,
    park_max: Duration,
}

impl Log {
    /// Opens both lanes, each in its directory under `root`. `visit` is shown what is read of them,
    /// the durable lane first; it must not act on it before this returns. `formats` is how the log's own
    /// records stand in it, `report` hears from the thread what an operator should know.
    ///
    /// # Errors
    /// A directory cannot be made, or a log in it cannot be opened.
    pub fn open(
        root: &Path,
        options: &LogOptions,
        formats: impl Into<LaneFormats>,
        report: Reporter,
        mut visit: impl FnMut(LaneKind, Item),
    ) -> Result<(Self, Recoveries), LogError> {
        let formats = formats.into();
        let mut lane = |kind: LaneKind, options: LaneOptions, proven: u64| {
            let path = root.join(kind.name());
            let place = path.display().to_string();
            let folder =
                Folder::new(path).map_err(|source| LogError::Directory { place, source })?;
            let meter = Arc::<SyncMeter>::default();
            let disk = Timed::new(folder, Arc::clone(&meter));
            let visit = |item| visit(kind, item);
            let reading = (options.start == Start::Everything, proven);
            let (writer, recovery) = Writer::open_proven(disk, options.writer, reading, visit)?;
            Ok::<_, LogError>((Setup { writer, options, meter }, recovery))
        };
        let (durable, of_durable) = lane(LaneKind::Durable, options.durable, 0)?;
        let watermark = known_reach(root, formats.watermarks)?;
        let proven = watermark.map_or(0, |known| known.watermark.sequence);
        let (firehose, of_firehose) = lane(LaneKind::Firehose, options.firehose, proven)?;
        let keeper = Keeper::new(durable, firehose, formats, report);
        let recoveries = Recoveries { durable: of_durable, firehose: of_firehose, watermark };
        Ok((Self { keeper, park_max: options.park_max }, recoveries))
    }

    /// A handle to a lane.
    pub fn lane(&self, kind: LaneKind) -> Lane {
        self.keeper.lane(kind)
    }

    /// See [`Keeper::durable_ring`].
    pub fn durable_ring(&mut self, bytes: usize, tell: Option<Tell>) -> DurableRing {
        self.keeper.durable_ring(bytes, tell)
    }

    /// See [`Keeper::firehose_ring`].
    pub fn firehose_ring(&mut self, shard: u32, bytes: usize) -> FirehoseRing {
        self.keeper.firehose_ring(shard, bytes)
    }

    /// Starts its thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(self) -> io::Result<LogThread> {
        LogThread::start(self.keeper, self.park_max)
    }
}

fn known_reach(
    root: &Path,
    format: Option<WatermarkFormat>,
) -> Result<Option<KnownReach>, LogError> {
    let Some(WatermarkFormat { kind, decode, .. }) = format else { return Ok(None) };
    let folder = Folder::read_only(root.join(LaneKind::Durable.name()));
    let place = folder.place();
    let known = KnownReach::read(&folder, kind, decode);
    known.map_err(|source| OpenError::Read { place, source }.into())
}

/// Why it is not known what a thread left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseError {
    /// It waits for the file system, and is left alone.
    #[error("the log thread waits for its disk and was left behind")]
    Hung,
    /// It had ended before, by a panic.
    #[error("the log thread had panicked")]
    Panicked,
}

/// The log thread. It ends when this is dropped, or better by [`Self::close`].
#[derive(Debug)]
pub struct LogThread {
    thread: Thread,
    orders: mpsc::Sender<Duration>,
    ended: mpsc::Receiver<Left>,
    join: Option<JoinHandle<()>>,
}

impl LogThread {
    /// Over any disk.
    pub(crate) fn start<D>(keeper: Keeper<D>, park_max: Duration) -> io::Result<Self>
    where
        D: Disk + Send + 'static,
        D::File: Send,
        D::Lock: Send,
    {
        let (orders, received) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let join = std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            keeper.bell().hang_here();
            // Nobody may be there to hear it.
            let _unheard = end.send(run(keeper, park_max, &received));
        })?;
        Ok(Self { thread: join.thread().clone(), orders, ended, join: Some(join) })
    }

    /// Takes nothing more, writes and commits what was handed over, and ends; tells what it could
    /// not make durable within the time given. Shards that hand over records should have ended.
    ///
    /// # Errors
    /// It did not end, or had ended: see [`CloseError`].
    pub fn close(mut self, within: Duration) -> Result<Left, CloseError> {
        self.end(within)
    }

    fn end(&mut self, within: Duration) -> Result<Left, CloseError> {
        let Some(join) = self.join.take() else { return Err(CloseError::Panicked) };
        // Where nobody hears it the thread has ended.
        let _unheard = self.orders.send(within);
        self.thread.unpark();
        match self.ended.recv_timeout(within + GRACE) {
            Ok(left) => join.join().map(|()| left).map_err(|_| CloseError::Panicked),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(CloseError::Hung),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(CloseError::Panicked),
        }
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        if self.join.is_some() {
            // Who wants to know closes it.
            let _unknown = self.end(CLOSE_WITHIN);
        }
    }
}

fn run<D: Disk>(
    mut keeper: Keeper<D>,
    park_max: Duration,
    orders: &mpsc::Receiver<Duration>,
) -> Left {
    let origin = Instant::now();
    let mut deadline = None;
    loop {
        let next = keeper.step(now(origin));
        if deadline.is_none()
            && let Ok(within) = orders.try_recv()
        {
            deadline = Some(origin.elapsed() + within);
            keeper.close();
            continue;
        }
        if let Some(deadline) = deadline
            && (keeper.is_settled() || origin.elapsed() >= deadline)
        {
            keeper.seal(now(origin));
            return keeper.left();
        }
        let most =
            deadline.map_or(park_max, |at| at.saturating_sub(origin.elapsed()).min(park_max));
        match next {
            Next::Now => (),
            Next::At(at) => {
                std::thread::park_timeout(at.saturating_sub(origin.elapsed()).min(most));
            }
            Next::Woken => std::thread::park_timeout(most),
        }
    }
}

fn now(origin: Instant) -> Now {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unix_ms = u64::try_from(unix.as_millis()).unwrap_or(u64::MAX);
    Now { tick: origin.elapsed(), unix_ms }
}
