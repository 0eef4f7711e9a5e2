//! The log thread: opens both lanes, steps them, parks, and ends in bounded time.

use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::driver::{LogDriver, UnfinishedRecords};
use super::lane_writer::LaneSetup;
use super::report::LaneReporter;
use super::rings::{AddedRing, LogRings};
use super::schedule::{LaneTime, NextStep};
use super::status::LaneHandle;
use super::watermark::{LaneFormats, LaneWatermark, WatermarkFormat};
use super::{LaneKind, LaneOptions};
use crate::disk::{Disk, DiskFolder, SyncMeter, TimedDisk};
use crate::item::{LogEntry, LogReadError};
use crate::reader::newest;
use crate::writer::{LogOpenError, LogWriter, Recovery};

/// How long a dropped thread may take to end.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// How long the last call of the file system may exceed the time given.
const GRACE: Duration = Duration::from_secs(1);

/// Options of both lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The durable lane.
    pub durable: LaneOptions,
    /// The firehose.
    pub firehose: LaneOptions,
    /// The longest that the thread sleeps without being woken.
    pub park_max: Duration,
}

impl LogOptions {
    /// For a single node.
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

/// Why the lanes were not opened.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A lane's directory cannot be created.
    #[error("cannot create {place}: {source}")]
    Directory {
        /// The directory.
        place: String,
        /// The cause.
        source: io::Error,
    },
    /// A log cannot be opened.
    #[error(transparent)]
    Open(#[from] LogOpenError),
}

/// What opening found in each lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recoveries {
    /// In the durable lane.
    pub durable: Recovery,
    /// In the firehose.
    pub firehose: Recovery,
    /// How far the firehose was durable, by the durable lane. None if there is no watermark.
    pub watermark: Option<KnownReach>,
}

/// How far the firehose is known to have been durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownReach {
    /// The watermark.
    pub watermark: LaneWatermark,
    /// When it was written, in Unix milliseconds. It says nothing of later records.
    pub time_ms: u64,
}

impl KnownReach {
    /// The newest watermark of a durable lane. Read it before listing the firehose, which then
    /// holds at least as much.
    pub fn read<D: Disk>(
        disk: &D,
        kind: u8,
        decode: impl Fn(&[u8]) -> Option<LaneWatermark>,
    ) -> Result<Option<Self>, LogReadError> {
        newest(disk, kind, |record| {
            let watermark = decode(&record.payload)?;
            Some(Self { watermark, time_ms: record.time_ms })
        })
    }
}

/// Two opened lanes that are not written yet.
pub struct LogBuilder {
    driver: LogDriver<TimedDisk<DiskFolder>>,
    park_max: Duration,
}

impl LogBuilder {
    /// Opens both lanes, each in its directory under `root`. `visit` gets everything that is read,
    /// the durable lane first; it must not act on it before this returns. `formats` encodes the
    /// log's own records; `report` gets what an operator should know.
    pub fn open(
        root: &Path,
        options: &LogOptions,
        formats: impl Into<LaneFormats>,
        report: LaneReporter,
        mut visit: impl FnMut(LaneKind, LogEntry),
    ) -> Result<(Self, Recoveries), LogError> {
        let formats = formats.into();
        let mut lane = |kind: LaneKind, options: LaneOptions, proven: u64| {
            let path = root.join(kind.name());
            let place = path.display().to_string();
            let folder =
                DiskFolder::new(path).map_err(|source| LogError::Directory { place, source })?;
            let meter = Arc::<SyncMeter>::default();
            let disk = TimedDisk::new(folder, Arc::clone(&meter));
            let visit = |item| visit(kind, item);
            let (writer, recovery) =
                LogWriter::open_proven(disk, options.writer, options.start, proven, visit)?;
            Ok::<_, LogError>((LaneSetup { writer, options, meter }, recovery))
        };
        let (durable, of_durable) = lane(LaneKind::Durable, options.durable, 0)?;
        let watermark = known_reach(root, formats.watermarks)?;
        let proven = watermark.map_or(0, |known| known.watermark.sequence);
        let (firehose, of_firehose) = lane(LaneKind::Firehose, options.firehose, proven)?;
        let driver = LogDriver::new(durable, firehose, formats, report);
        let recoveries = Recoveries { durable: of_durable, firehose: of_firehose, watermark };
        Ok((Self { driver, park_max: options.park_max }, recoveries))
    }

    /// A handle to a lane.
    pub fn lane(&self, kind: LaneKind) -> LaneHandle {
        self.driver.lane(kind)
    }

    /// Starts the thread.
    pub fn start(self) -> io::Result<LogThread> {
        LogThread::start(self.driver, self.park_max)
    }
}

fn known_reach(
    root: &Path,
    format: Option<WatermarkFormat>,
) -> Result<Option<KnownReach>, LogError> {
    let Some(WatermarkFormat { kind, decode, .. }) = format else { return Ok(None) };
    let folder = DiskFolder::read_only(root.join(LaneKind::Durable.name()));
    let place = folder.place();
    let known = KnownReach::read(&folder, kind, decode);
    known.map_err(|source| LogOpenError::Read { place, source }.into())
}

/// Why it is unknown what the thread left unwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseError {
    /// The thread waits for the file system and was left behind.
    #[error("the log thread waits for its disk and was left behind")]
    Hung,
    /// The thread had panicked.
    #[error("the log thread had panicked")]
    Panicked,
}

/// The log thread. It ends when this is dropped, or, with a result, by [`Self::close`].
#[derive(Debug)]
pub struct LogThread {
    rings: LogRings,
    orders: mpsc::Sender<Duration>,
    ended: mpsc::Receiver<UnfinishedRecords>,
    join: Option<JoinHandle<()>>,
}

impl LogThread {
    pub(crate) fn start<D>(driver: LogDriver<D>, park_max: Duration) -> io::Result<Self>
    where
        D: Disk + Send + 'static,
        D::File: Send,
        D::Lock: Send,
    {
        let (orders, received) = mpsc::channel();
        let (added, rings) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let maker = driver.ring_maker().clone();
        let join = std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            driver.ring_maker().waker.attach_current_thread();
            let inputs = LogInputs { orders: received, rings };
            // The receiver may be gone.
            let _unheard = end.send(run(driver, park_max, &inputs));
        })?;
        let rings = LogRings { maker, added, thread: join.thread().clone() };
        Ok(Self { rings, orders, ended, join: Some(join) })
    }

    /// Makes rings, also after the thread has ended.
    pub fn rings(&self) -> &LogRings {
        &self.rings
    }

    /// Accepts no more records, commits those accepted, and ends the thread. Returns what did not
    /// become durable in time. End the producing shards first.
    pub fn close(mut self, within: Duration) -> Result<UnfinishedRecords, CloseError> {
        self.end(within)
    }

    fn end(&mut self, within: Duration) -> Result<UnfinishedRecords, CloseError> {
        let Some(join) = self.join.take() else { return Err(CloseError::Panicked) };
        // If the send fails, the thread has ended.
        let _unheard = self.orders.send(within);
        self.rings.thread.unpark();
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
            // A caller that wants the result calls `close`.
            let _unknown = self.end(CLOSE_WITHIN);
        }
    }
}

/// What other threads send to the log thread.
struct LogInputs {
    /// To close within this time.
    orders: mpsc::Receiver<Duration>,
    rings: mpsc::Receiver<AddedRing>,
}

fn run<D: Disk>(
    mut driver: LogDriver<D>,
    park_max: Duration,
    LogInputs { orders, rings }: &LogInputs,
) -> UnfinishedRecords {
    let origin = Instant::now();
    let mut deadline = None;
    loop {
        rings.try_iter().for_each(|ring| driver.add(ring));
        let next = driver.step(now(origin));
        if deadline.is_none()
            && let Ok(within) = orders.try_recv()
        {
            deadline = Some(origin.elapsed() + within);
            driver.close();
            continue;
        }
        if let Some(deadline) = deadline
            && (driver.is_drained() || origin.elapsed() >= deadline)
        {
            driver.seal(now(origin));
            return driver.unfinished();
        }
        let most =
            deadline.map_or(park_max, |at| at.saturating_sub(origin.elapsed()).min(park_max));
        match next {
            NextStep::Now => (),
            NextStep::At(at) => {
                std::thread::park_timeout(at.saturating_sub(origin.elapsed()).min(most));
            }
            NextStep::Woken => std::thread::park_timeout(most),
        }
    }
}

fn now(origin: Instant) -> LaneTime {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unix_ms = u64::try_from(unix.as_millis()).unwrap_or(u64::MAX);
    LaneTime { tick: origin.elapsed(), unix_ms }
}
