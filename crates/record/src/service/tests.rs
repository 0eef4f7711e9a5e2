//! A record between its start and its end, written by other services.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use eventlog::disk::DiskFolder;
use eventlog::lane::LaneState;
use eventlog::{LogEntry, LogReader};
use runtime::config::parse_loaded;
use runtime::control::Control;
use runtime::service::{Services, Shell, ShellConfig, ShellOptions};
use runtime::shutdown::Shutdown;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// Kinds of records that the log itself does not write.
const KINDS: [u8; 2] = [201, 202];

/// A service that writes the record of its node, and claims what it wrote.
struct Writer<const KIND: usize> {
    record: Record,
    _claim: RetentionClaim,
    /// The record, once it runs.
    service: OnceLock<Arc<RecordService>>,
    /// Whether the record had a claim of its own at this service's close.
    is_protected: AtomicBool,
}

impl<const KIND: usize> Service for Writer<KIND> {
    const NAME: &'static str = ["one", "two"][KIND];
    const NEEDS: &'static [&'static str] = &[RECORD.name()];

    type Config = ();

    fn read(s: &mut Section<'_>) -> Option<()> {
        s.table(Self::NAME, "A writer.", |_| ())
    }

    fn start((): (), startup: &mut Startup<'_>) -> Result<Arc<Self>, ServiceError> {
        let record = startup.ports.get(&RECORD).expect("it is needed");
        let claim = record.durable.protect();
        let (service, is_protected) = (OnceLock::new(), AtomicBool::new(false));
        Ok(Arc::new(Self { record, _claim: claim, service, is_protected }))
    }
}

impl<const KIND: usize> RunningService for Writer<KIND> {
    /// The record is still open.
    fn close(&self) -> Result<(), ServiceError> {
        let mut ring = self.record.rings.durable_ring(self.record.durable_ring_bytes, None);
        ring.push(KINDS[KIND], 1, b"closed").expect("the record closes last");
        let is_protected = self.service.get().is_some_and(|it| it.claim().is_some());
        self.is_protected.store(is_protected, Ordering::Relaxed);
        Ok(())
    }
}

fn services() -> Services {
    Services::default().with::<Writer<0>>().with::<RecordService>().with::<Writer<1>>()
}

fn start(directory: &Path, sections: &str) -> (Shell, Shutdown) {
    let text = format!(
        "[runtime]\nshards = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [record]\nnode = 7\ndirectory = {directory:?}\n{sections}"
    );
    let read = |s: &mut Section<'_>| ShellConfig::read(&services(), s);
    let loaded = parse_loaded("test.toml", &text, read).expect("a sound configuration");
    let shutdown = Shutdown::new(PATIENCE);
    let options = ShellOptions {
        effective: loaded.effective,
        file: None,
        folder: Path::new(""),
        listeners: Vec::new(),
        shutdown: shutdown.clone(),
        control: Control::start().expect("a thread"),
    };
    (Shell::start(&services(), loaded.value, options).expect("it starts"), shutdown)
}

fn kinds(directory: &Path) -> Vec<u8> {
    let disk = DiskFolder::read_only(directory.join(LaneKind::Durable.name()));
    let kind = |item| match item {
        Ok(LogEntry::Record(record)) => record.kind,
        other => panic!("{other:?}"),
    };
    LogReader::new(&disk).expect("a log").map(kind).collect()
}

#[test]
fn several_services_write_until_their_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    let (shell, shutdown) = start(directory.path(), "[one]\n[two]\n");
    let [one, two] = [
        shell.service::<Writer<0>>().expect("it runs").record.clone(),
        shell.service::<Writer<1>>().expect("it runs").record.clone(),
    ];
    assert_eq!((one.node, &*one.directory), (7, directory.path()));
    let mut ring = two.rings.durable_ring(two.durable_ring_bytes, None);
    let position = ring.push(KINDS[1], 1, b"runs").expect("it is open");
    let started = Instant::now();
    while !ring.is_durable(position) {
        assert!(started.elapsed() < PATIENCE, "it becomes durable");
        std::thread::yield_now();
    }
    assert_eq!(one.durable.sequence(), 1);
    drop(ring);
    shutdown.begin();
    shell.join().expect("it ends well");
    assert_eq!(one.durable.state(), LaneState::Closed);
    let mut found = kinds(directory.path());
    found[1..].sort_unstable();
    assert_eq!(found, [KINDS[1], KINDS[0], KINDS[1]]);
}

/// So that each service can still claim what it reads, and drop its claim when it closes.
#[test]
fn nothing_is_removed_while_services_start_or_close() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = format!("[record]\ndirectory = {:?}", directory.path());
    let config = runtime::config::parse("test.toml", &text, RecordConfig::read);
    let config = config.expect("a sound configuration").expect("it is there");
    let service = RecordService::open(&config).expect("it opens");
    assert!(service.claim().is_some());
    service.close().expect("it ends");
    let (shell, shutdown) = start(directory.path(), "[one]\n");
    let service = shell.service::<RecordService>().expect("it runs");
    let one = shell.service::<Writer<0>>().expect("it runs");
    assert!(one.service.set(Arc::clone(&service)).is_ok());
    let started = Instant::now();
    while service.claim().is_some() {
        assert!(started.elapsed() < PATIENCE, "its shard starts");
    }
    shutdown.begin();
    shell.join().expect("it ends well");
    assert!(one.is_protected.load(Ordering::Relaxed), "it closed before the record");
}

#[test]
fn a_directory_is_one_process_s() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = format!("[record]\ndirectory = {:?}", directory.path());
    let config = runtime::config::parse("test.toml", &text, RecordConfig::read);
    let config = config.expect("a sound configuration").expect("it is there");
    let _first = RecordService::open(&config).expect("it opens");
    let error = RecordService::open(&config).expect_err("it is in use").to_string();
    assert!(error.starts_with("record.directory: ") && error.contains("in use"), "{error}");
}
