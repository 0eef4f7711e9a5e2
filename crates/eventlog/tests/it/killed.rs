//! A process that writes a log is killed again and again. Records that it acknowledged are found,
//! and the next process continues after them.
//!
//! `KILLS` sets the number of kills.

use std::collections::BTreeMap;
use std::env;
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use eventlog::lane::{LaneEvent, LaneKind, LaneListener, LogRings, PushError, ReadScope};
use faults::Chance;
use faults::process::{Once, kills};

use crate::log::{EVER, Name, found, open, payload, shard};

/// As many as a normal test run has time for.
const KILLS: u64 = 20;
const RINGS: u32 = 3;
/// Most acknowledgements before the kill.
const SAID_MAX: u64 = 48;

/// The child's directory and its epoch.
const ROOT: &str = "EVENTLOG_TEST_ROOT";
const LIFE: &str = "EVENTLOG_TEST_LIFE";

/// An acknowledgement that the child printed: all records of a ring up to `through` are durable,
/// `records` more than before, the last at `sequence`.
struct Said {
    name: Name,
    through: u64,
    records: u64,
    sequence: u64,
}

impl Said {
    fn parse(line: &str) -> Option<Self> {
        let numbers: Vec<u64> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let [life, ring, through, records, sequence] = numbers[..] else { return None };
        let name = (u32::try_from(life).ok()?, u32::try_from(ring).ok()?);
        Some(Self { name, through, records, sequence })
    }
}

#[test]
fn what_a_killed_process_acknowledged_is_there() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    let (mut before, mut chance) = (BTreeMap::new(), Chance::new(1));
    let (mut said, lives) = (0, u32::try_from(kills(KILLS)).unwrap());
    for life in 1..=lives {
        let acknowledged = live(root, life, chance.below(SAID_MAX));
        let after = found(root, LaneKind::Durable);
        for Said { name, through, records, sequence } in &acknowledged {
            let sequences = after.get(name).map_or(&[][..], Vec::as_slice);
            let (from, to) = (through - records, *through);
            let group = usize::try_from(from).unwrap()..usize::try_from(to).unwrap();
            let want: Vec<_> = (sequence + 1 - records..=*sequence).collect();
            assert_eq!(sequences.get(group), Some(&want[..]), "{name:?}, {from} to {to}");
        }
        for (name, sequences) in &before {
            assert_eq!(after.get(name), Some(sequences), "what was there stays there");
        }
        found(root, LaneKind::Firehose);
        said += acknowledged.len() as u64;
        before = after;
    }
    assert!(said > 5 * u64::from(lives), "{said} acknowledgements prove nothing");
    assert!(before.len() > usize::try_from(lives / 2).unwrap(), "most lives wrote something");
    let (_, recoveries) = open(root, ReadScope::Everything, Box::new(|_, _| ())).unwrap();
    assert_eq!(recoveries.durable.records, before.values().map(|all| all.len() as u64).sum());
    assert_eq!((recoveries.durable.corruptions, recoveries.firehose.corruptions), (0, 0));
}

/// Runs a child, kills it after `until` acknowledgements, and returns all that it printed.
fn live(root: &Path, life: u32, until: u64) -> Vec<Said> {
    let mut all = Vec::new();
    start(root, life).kill_after(until, |line| {
        let said = line.split_once("acknowledged").and_then(|(_, said)| Said::parse(said));
        let counts = said.is_some();
        all.extend(said);
        counts
    });
    all
}

fn start(root: &Path, life: u32) -> Once {
    let life = life.to_string();
    Once::more("killed::child", &[(ROOT, root.as_os_str()), (LIFE, life.as_ref())])
}

#[test]
#[ignore = "writes until it is killed: the other tests here start it"]
fn child() {
    let root = PathBuf::from(env::var_os(ROOT).expect("where"));
    let life = env::var(LIFE).expect("which").parse().expect("a number");
    let (log, _) = open(&root, ReadScope::Newest, Box::new(|_, _| ())).unwrap();
    let thread = log.start().unwrap();
    let rings: Vec<_> =
        (0..RINGS).map(|ring| (life, ring)).map(|ring| add(thread.rings(), ring)).collect();
    writeln!(stdout(), "open").unwrap();
    std::thread::scope(|scope| {
        for (name, mut durable, mut firehose, told) in rings {
            scope.spawn(move || {
                for serial in 1.. {
                    let payload = payload(name, serial);
                    firehose.offer(1, serial, &payload);
                    while let Err(refused) = durable.push(1, serial, &payload) {
                        assert_eq!(refused, PushError::Full);
                        told.recv_timeout(EVER).expect("commits go on");
                    }
                }
            });
        }
    });
}

type Ring = (Name, eventlog::lane::DurableRing, eventlog::lane::FirehoseRing, mpsc::Receiver<()>);

/// A ring of each lane, whose acknowledgements are printed.
fn add(log: &LogRings, name: Name) -> Ring {
    let (sender, told) = mpsc::channel();
    let tell: LaneListener = Box::new(move |what| {
        let LaneEvent::Durable { through, records, sequence } = what else { return };
        let (life, ring) = name;
        // If the parent is gone, this process ends too.
        writeln!(stdout(), "acknowledged {life} {ring} {} {records} {sequence}", through.0)
            .and_then(|()| sender.send(()).map_err(std::io::Error::other))
            .expect("somebody listens");
    });
    (name, log.durable_ring(8 << 10, Some(tell)), log.firehose_ring(shard(name), 8 << 10), told)
}

#[test]
fn a_directory_in_use_by_another_process_is_refused_by_its_name() {
    let temporary = tempfile::tempdir().unwrap();
    let mut child = start(temporary.path(), 1);
    child.await_line("open");
    let refused = open(temporary.path(), ReadScope::Newest, Box::new(|_, _| ())).err();
    let want = format!(
        "{} is in use by process {}: end it, or name another directory",
        temporary.path().join("durable").display(),
        child.id()
    );
    drop(child);
    assert_eq!(refused.expect("it is in use").to_string(), want);
    open(temporary.path(), ReadScope::Newest, Box::new(|_, _| ()))
        .expect("nobody holds it any more");
}
