//! The log thread, on a real disk and on a slow one: no shard waits for it, no wake-up is lost, and
//! it ends.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use super::{GAPS, OPTIONS, gap};
use crate::disk::{Disk, DiskFile, DiskFolder, SyncMeter};
use crate::lane::{
    BatchLimits, CloseError, LaneEvent, LaneFailure, LaneKind, LaneOptions, LaneSetup, LaneState,
    LogBuilder, LogDriver, LogOptions, LogThread, PushError, ReadScope, RingPosition,
    UnfinishedRecords,
};
use crate::{LogEntry, LogReader, LogWriter, WriterOptions};

/// Longer than any successful run.
const EVER: Duration = Duration::from_secs(60);

/// Files in memory whose syncs block while the gate is closed. Clones share the files.
#[derive(Clone, Default)]
struct Gated(Arc<Gate>);

#[derive(Default)]
struct Gate {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    closed: Mutex<bool>,
    opened: Condvar,
}

struct GatedFile(Gated, String);

impl Gated {
    fn stop(&self) {
        *self.0.closed.lock().expect("nobody panicked") = true;
    }

    fn go_on(&self) {
        *self.0.closed.lock().expect("nobody panicked") = false;
        self.0.opened.notify_all();
    }

    fn pass(&self) {
        let closed = self.0.closed.lock().expect("nobody panicked");
        drop(self.0.opened.wait_while(closed, |closed| *closed).expect("nobody panicked"));
    }

    fn with<T>(&self, name: &str, change: impl FnOnce(&mut Vec<u8>) -> T) -> io::Result<T> {
        let mut files = self.0.files.lock().expect("nobody panicked");
        files.get_mut(name).map(change).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for Gated {
    type File = GatedFile;
    type Lock = ();

    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn lock(&self) -> io::Result<()> {
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.files.lock().expect("nobody panicked").keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<GatedFile> {
        self.0.files.lock().expect("nobody panicked").insert(name.to_owned(), Vec::new());
        self.open(name)
    }

    fn open(&self, name: &str) -> io::Result<GatedFile> {
        self.with(name, |_| GatedFile(self.clone(), name.to_owned()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.files.lock().expect("nobody panicked").remove(name);
        Ok(())
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.0.files.lock().expect("nobody panicked");
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for GatedFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.with(&self.1, |file| {
            let offset = usize::try_from(offset).expect("files fit memory");
            file.resize(file.len().max(offset + bytes.len()), 0);
            file[offset..offset + bytes.len()].copy_from_slice(bytes);
        })
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.with(&self.1, |file| {
            let offset = usize::try_from(offset).expect("files fit memory").min(file.len());
            let count = bytes.len().min(file.len() - offset);
            bytes[..count].copy_from_slice(&file[offset..offset + count]);
            count
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.0.with(&self.1, |file| file.len() as u64)
    }

    fn allocate(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        let bytes = usize::try_from(bytes).expect("files fit memory");
        self.0.with(&self.1, |file| file.resize(bytes, 0))
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.0.pass();
        Ok(())
    }
}

/// Immediate commits and long segments.
const AT_ONCE: LaneOptions = LaneOptions {
    writer: WriterOptions { batch_bytes_max: 1 << 20, segment_bytes: 1 << 20, ..OPTIONS.writer },
    gather: BatchLimits { after: Duration::ZERO, bytes: 1 << 16 },
    commit: LaneOptions::DURABLE.commit,
    ..OPTIONS
};

fn driver(durable: &Gated, firehose: &Gated) -> LogDriver<Gated> {
    keeper_of([durable, firehose], AT_ONCE)
}

fn keeper_of(disks: [&Gated; 2], options: LaneOptions) -> LogDriver<Gated> {
    let [durable, firehose] = disks.map(|disk| {
        let opened = LogWriter::open(disk.clone(), options.writer, |_| ());
        let writer = opened.expect("it is empty").0;
        LaneSetup { writer, options, meter: Arc::<SyncMeter>::default() }
    });
    LogDriver::new(durable, firehose, GAPS, Box::new(|_, _| ()))
}

/// Per shard: its records and gaps; each entry is the number of its first record.
fn whole(disk: &impl Disk, shards: usize) -> Vec<u64> {
    let mut next = vec![1; shards];
    for item in LogReader::new(disk).expect("a directory") {
        let LogEntry::Record(record) = item.expect("it is read") else {
            panic!("nothing is damaged")
        };
        if record.kind == GAPS.kind {
            let gap = gap(&record.payload);
            next[usize::try_from(gap.shard).expect("few")] += gap.lost;
            continue;
        }
        let shard = usize::from(record.payload[0]);
        let serial = u64::from_le_bytes(*record.payload[1..].first_chunk().expect("a serial"));
        assert_eq!(serial, next[shard], "of shard {shard}");
        next[shard] += 1;
    }
    next
}

fn payload(shard: u8, serial: u64) -> Vec<u8> {
    let mut payload = vec![shard];
    payload.extend(serial.to_le_bytes());
    payload.resize(9 + usize::from(shard) * 50, b'x');
    payload
}

fn options(start: ReadScope) -> LogOptions {
    let durable = LaneOptions { start, ..LaneOptions::DURABLE };
    LogOptions {
        durable,
        firehose: LaneOptions { start, ..LaneOptions::FIREHOSE },
        ..LogOptions::DEFAULT
    }
}

fn open(root: &Path) -> LogBuilder {
    let opened = LogBuilder::open(
        root,
        &options(ReadScope::Newest),
        GAPS,
        Box::new(|_, report| panic!("{report:?}")),
        |_, _| (),
    );
    opened.expect("it is ours").0
}

#[test]
fn shards_write_a_log_on_a_real_disk() {
    const SHARDS: u8 = 3;
    const RECORDS: u64 = 2_000;
    let temporary = tempfile::tempdir().unwrap();
    for life in 0..2 {
        let log = open(temporary.path());
        let lanes = [LaneKind::Durable, LaneKind::Firehose].map(|kind| log.lane(kind));
        let thread = log.start().unwrap();
        let rings = thread.rings();
        let shards: Vec<_> = (0..SHARDS)
            .map(|shard| {
                let (tell, told) = mpsc::channel();
                let tell = move |what| tell.send(what).expect("the shard listens");
                let durable = rings.durable_ring(4_000, Some(Box::new(tell)));
                (shard, durable, rings.firehose_ring(shard.into(), 4_000), told)
            })
            .collect();
        let run = |(shard, mut durable, mut firehose, told): (u8, _, _, mpsc::Receiver<_>)| {
            let durable: &mut crate::lane::DurableRing = &mut durable;
            let firehose: &mut crate::lane::FirehoseRing = &mut firehose;
            let mut last = RingPosition(0);
            for serial in life * RECORDS + 1..=(life + 1) * RECORDS {
                firehose.offer(1, serial, &payload(shard, serial));
                while let Err(refused) = durable.push(1, serial, &payload(shard, serial)) {
                    assert_eq!(refused, PushError::Full);
                    // A shard would refuse its caller; the test waits for space.
                    told.recv_timeout(EVER).expect("commits go on");
                }
                last.0 += 1;
            }
            while !durable.is_durable(last) {
                told.recv_timeout(EVER).expect("commits go on");
            }
        };
        std::thread::scope(|scope| {
            shards.into_iter().for_each(|shard| drop(scope.spawn(|| run(shard))));
        });
        assert_eq!(thread.close(EVER), Ok(UnfinishedRecords::default()));
        let [durable, firehose] = lanes.map(|lane| lane.counters());
        assert_eq!(durable.records, u64::from(SHARDS) * RECORDS);
        assert!(durable.syncs >= durable.commits && durable.sync_time > Duration::ZERO);
        assert_eq!(firehose.records + firehose.lost, u64::from(SHARDS) * RECORDS);
        assert_eq!(firehose.lost, firehose.shed);
    }
    for kind in [LaneKind::Durable, LaneKind::Firehose] {
        let folder = DiskFolder::read_only(temporary.path().join(kind.name()));
        assert_eq!(whole(&folder, SHARDS.into()), [2 * RECORDS + 1; 3], "{}", kind.name());
    }
    let mut seen = [0_u64; 2];
    let visit = |kind, _| seen[usize::from(kind == LaneKind::Firehose)] += 1;
    let report = Box::new(|_, report: crate::lane::LaneReport<'_>| panic!("{report:?}"));
    let (log, found) =
        LogBuilder::open(temporary.path(), &options(ReadScope::Everything), GAPS, report, visit)
            .unwrap();
    assert_eq!(seen, [found.durable.records, found.firehose.records]);
    assert_eq!(found.durable.records, 2 * u64::from(SHARDS) * RECORDS);
    assert_eq!(log.lane(LaneKind::Durable).sequence(), found.durable.records);
    let again = LogBuilder::open(
        temporary.path(),
        &options(ReadScope::Newest),
        GAPS,
        Box::new(|_, _| ()),
        |_, _| (),
    );
    let error = again.err().expect("it is in use").to_string();
    assert!(error.contains("durable is in use by process"), "{error}");
}

/// A reader sees each record soon after it was offered.
#[test]
fn a_log_is_followed_while_it_is_written() {
    const RECORDS: u64 = 5_000;
    let temporary = tempfile::tempdir().unwrap();
    let thread = open(temporary.path()).start().unwrap();
    let mut ring = thread.rings().firehose_ring(0, 1 << 20);
    let folder = DiskFolder::read_only(temporary.path().join(LaneKind::Firehose.name()));
    let shard = std::thread::spawn(move || {
        for serial in 1..=RECORDS {
            assert!(ring.offer(1, 0, &payload(0, serial)), "its ring is large");
        }
    });
    let mut reader = LogReader::new(&folder).unwrap().follow();
    let mut next = 1;
    while next <= RECORDS {
        for item in reader.by_ref() {
            let Ok(LogEntry::Record(record)) = item else { panic!("{item:?}") };
            assert_eq!(record.payload, payload(0, next));
            next += 1;
        }
        std::thread::yield_now();
        reader.refresh().unwrap();
    }
    shard.join().unwrap();
    assert_eq!(thread.close(EVER), Ok(UnfinishedRecords::default()));
}

/// Each record is offered just as the thread may fall asleep. A lost wake-up would hang the test.
#[test]
fn no_wake_is_lost() {
    let mut driver = driver(&Gated::default(), &Gated::default());
    let (tell, told) = mpsc::channel();
    let tell = move |what| tell.send(what).expect("somebody listens");
    let mut ring = driver.durable_ring(1_000, Some(Box::new(tell)));
    let mut firehose = driver.firehose_ring(0, 300);
    let thread = LogThread::start(driver, Duration::from_secs(3_600)).unwrap();
    for round in 0..20_000_u64 {
        // At varying intervals.
        for _ in 0..round % 64 {
            std::hint::spin_loop();
        }
        if round % 3 == 0 {
            firehose.offer(1, 0, &[0; 200]);
        }
        let position = ring.push(1, 0, b"x").unwrap();
        let Ok(LaneEvent::Durable { through, .. }) = told.recv_timeout(EVER) else {
            panic!("record {round} wakes nobody")
        };
        assert!(through == position && ring.is_durable(position));
    }
    assert_eq!(thread.close(EVER), Ok(UnfinishedRecords::default()));
}

/// A shard offers faster than the thread writes. The gaps are exact while both run.
#[test]
fn gaps_are_exact_while_both_ends_run() {
    const RECORDS: u64 = 100_000;
    let disk = Gated::default();
    let mut driver = driver(&Gated::default(), &disk);
    let lane = driver.lane(LaneKind::Firehose);
    let mut rings = [0, 1].map(|shard| driver.firehose_ring(shard, 700));
    let thread = LogThread::start(driver, EVER).unwrap();
    std::thread::scope(|scope| {
        for (shard, ring) in (0..).zip(&mut rings) {
            scope.spawn(move || {
                for serial in 1..=RECORDS {
                    ring.offer(1, 0, &payload(shard, serial));
                }
            });
        }
    });
    assert_eq!(thread.close(EVER), Ok(UnfinishedRecords::default()));
    assert_eq!(whole(&disk, 2), [RECORDS + 1; 2]);
    let counters = lane.counters();
    assert_eq!(counters.records + counters.lost, 2 * RECORDS);
    assert!(counters.shed > 0 && counters.lost == counters.shed, "{counters:?}");
}

/// While the disk is blocked, shards are refused at once; afterwards the log recovers.
#[test]
fn nobody_waits_for_a_slow_disk() {
    let disk = Gated::default();
    let mut driver = driver(&disk, &disk);
    let lane = driver.lane(LaneKind::Durable);
    let (tell, told) = mpsc::channel();
    let tell = move |what| tell.send(what).expect("somebody listens");
    let mut ring = driver.durable_ring(1_000, Some(Box::new(tell)));
    let mut firehose = driver.firehose_ring(0, 1_000);
    let thread = LogThread::start(driver, EVER).unwrap();
    disk.stop();
    // This thread finishes although nothing is written meanwhile.
    let mut last = RingPosition(0);
    while let Ok(position) = ring.push(1, 0, &[0; 100]) {
        last = position;
    }
    assert_eq!((ring.state(), lane.state()), (LaneState::Full, LaneState::Full));
    assert_eq!(ring.durable(), RingPosition(0));
    let shed = (0..100).filter(|_| !firehose.offer(1, 0, &[0; 100])).count();
    assert!(shed >= 90, "{shed}");
    assert!(told.try_recv().is_err());
    disk.go_on();
    while !ring.is_durable(last) {
        told.recv_timeout(EVER).expect("it goes on");
    }
    assert_eq!(ring.state(), LaneState::Writing);
    assert!(ring.push(1, 0, b"after").is_ok());
    assert_eq!(thread.close(EVER), Ok(UnfinishedRecords::default()));
    assert_eq!(ring.state(), LaneState::Closed);
}

#[test]
fn the_end_does_not_wait_for_a_disk_that_hangs() {
    let disk = Gated::default();
    let mut driver = driver(&disk, &Gated::default());
    let mut ring = driver.durable_ring(1_000, None);
    let thread = LogThread::start(driver, EVER).unwrap();
    disk.stop();
    let position = ring.push(1, 0, b"stuck").unwrap();
    assert_eq!(thread.close(Duration::ZERO), Err(CloseError::Hung));
    assert!(!ring.is_durable(position));
    disk.go_on();
}

/// The close commits waiting records at once.
#[test]
fn the_end_waits_for_nothing_more() {
    let (durable, firehose) = (Gated::default(), Gated::default());
    let pace = BatchLimits { after: EVER * 60, bytes: 1 << 20 };
    let options = LaneOptions { gather: pace, commit: pace, ..AT_ONCE };
    let mut driver = keeper_of([&durable, &firehose], options);
    let mut rings = (driver.durable_ring(1_000, None), driver.firehose_ring(0, 1_000));
    let thread = LogThread::start(driver, EVER * 60).unwrap();
    let position = rings.0.push(1, 0, &payload(0, 1)).unwrap();
    assert!(rings.1.offer(1, 0, &payload(0, 1)));
    assert_eq!(thread.close(EVER), Ok(UnfinishedRecords::default()));
    assert!(rings.0.is_durable(position));
    assert_eq!((whole(&durable, 1), whole(&firehose, 1)), (vec![2], vec![2]));
}

/// The close does not wait for the next retry of the disk.
#[test]
fn the_end_comes_while_the_disk_fails() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().join("log");
    let lane = LaneOptions { retry_min: EVER * 2, retry_max: EVER * 2, ..LaneOptions::DURABLE };
    let options = LogOptions { durable: lane, park_max: EVER * 2, ..LogOptions::DEFAULT };
    let (log, _) = LogBuilder::open(&root, &options, GAPS, Box::new(|_, _| ()), |_, _| ()).unwrap();
    let (tell, told) = mpsc::channel();
    let tell = move |what| tell.send(what).expect("the shard listens");
    let thread = log.start().unwrap();
    let mut ring = thread.rings().durable_ring(1_000, Some(Box::new(tell)));
    std::fs::remove_dir_all(&root).unwrap();
    ring.push(1, 0, b"stuck").unwrap();
    assert!(matches!(
        told.recv_timeout(EVER),
        Ok(LaneEvent::Failing { cause: LaneFailure::Disk, .. })
    ));
    let left = UnfinishedRecords { durable: 1, firehose: 0 };
    assert_eq!(thread.close(Duration::from_millis(20)), Ok(left), "within what it was given");
}

/// If a callback panics, the lanes close and authorise nothing more.
#[test]
fn a_thread_that_panics_closes_its_lanes() {
    let mut driver = driver(&Gated::default(), &Gated::default());
    let (heard, hear) = mpsc::channel::<()>();
    let tell = move |_| {
        let _kept = &heard;
        panic!("a rule is broken");
    };
    let mut ring = driver.durable_ring(1_000, Some(Box::new(tell)));
    let lane = driver.lane(LaneKind::Firehose);
    let thread = LogThread::start(driver, EVER).unwrap();
    ring.push(1, 0, b"a").unwrap();
    assert_eq!(hear.recv_timeout(EVER), Err(mpsc::RecvTimeoutError::Disconnected));
    assert_eq!(thread.close(EVER), Err(CloseError::Panicked));
    assert_eq!((ring.state(), lane.state()), (LaneState::Closed, LaneState::Closed));
    assert_eq!(ring.push(1, 0, b"b"), Err(PushError::Closed));
}

/// Records are pushed before the thread knows of their ring.
#[test]
fn rings_are_added_while_the_thread_sleeps() {
    let (durable, firehose) = (Gated::default(), Gated::default());
    let driver = driver(&durable, &firehose);
    let thread = LogThread::start(driver, EVER * 60).unwrap();
    let rings = thread.rings().clone();
    for round in 0..1_000_u64 {
        let (tell, told) = mpsc::channel();
        let tell = move |what| tell.send(what).expect("somebody listens");
        let mut ring = rings.durable_ring(1_000, Some(Box::new(tell)));
        let position = ring.push(1, 0, b"x").unwrap();
        let Ok(LaneEvent::Durable { through, .. }) = told.recv_timeout(EVER) else {
            panic!("ring {round} is not read")
        };
        assert!(through == position && ring.is_durable(position));
        assert!(rings.firehose_ring(0, 300).offer(1, 0, b"y"));
    }
    assert_eq!(thread.close(EVER), Ok(UnfinishedRecords::default()));
    let count = |disk: &Gated| LogReader::new(disk).unwrap().count();
    assert_eq!((count(&durable), count(&firehose)), (1_000, 1_000));
    assert_eq!(rings.durable_ring(1_000, None).push(1, 0, b"late"), Err(PushError::Closed));
    assert!(!rings.firehose_ring(0, 300).offer(1, 0, b"late"));
}
