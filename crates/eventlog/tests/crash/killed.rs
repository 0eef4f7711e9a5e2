//! A process that writes a log and is killed while it does, again and again: what it had said is
//! durable is there, and the next one goes on behind it.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead as _, BufReader, Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use eventlog::lane::{LaneKind, Log, Refused, Start, Tell, Told};

use crate::log::{EVER, Name, found, open, payload, shard};

const LIVES: u32 = 20;
const RINGS: u32 = 3;
/// A life is over at the latest when so much was said of it.
const SAID_MAX: u64 = 48;

/// Where the child writes, and which life it is.
const ROOT: &str = "EVENTLOG_TEST_ROOT";
const LIFE: &str = "EVENTLOG_TEST_LIFE";

/// What the child said of one ring: up to which of its records all are durable, how many more that
/// were than before, and the sequence of the last.
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

/// A number that a seed decides (SplitMix64).
fn chance(seed: u32, below: u64) -> u64 {
    let mut bits = u64::from(seed).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (bits ^ (bits >> 31)) % below
}

#[test]
fn what_a_killed_process_acknowledged_is_there() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    let mut before = BTreeMap::new();
    let mut said = 0;
    for life in 1..=LIVES {
        let acknowledged = live(root, life, chance(life, SAID_MAX));
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
    assert!(said > 5 * u64::from(LIVES), "{said} acknowledgements prove nothing");
    assert!(before.len() > usize::try_from(LIVES / 2).unwrap(), "most lives wrote something");
    let (_, recoveries) = open(root, Start::Everything, Box::new(|_| ())).unwrap();
    assert_eq!(recoveries.durable.records, before.values().map(|all| all.len() as u64).sum());
    assert_eq!((recoveries.durable.corruptions, recoveries.firehose.corruptions), (0, 0));
}

/// A life, killed once it has said so much; all that it said.
fn live(root: &Path, life: u32, until: u64) -> Vec<Said> {
    let mut child = start(root, life);
    let mut said = Vec::new();
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    let mut is_killed = false;
    loop {
        if !is_killed && said.len() as u64 >= until {
            child.kill().expect("it is ours");
            is_killed = true;
        }
        line.clear();
        // What it had said until then counts, even if it is read after its end.
        if lines.read_line(&mut line).expect("it is text") == 0 {
            break;
        }
        if line.ends_with('\n') {
            said.extend(line.split_once("acknowledged").and_then(|(_, said)| Said::parse(said)));
        }
    }
    child.wait().expect("it is ours");
    assert!(is_killed, "it ended by itself: {line}");
    said
}

fn start(root: &Path, life: u32) -> Child {
    Command::new(env::current_exe().expect("it runs"))
        .args(["--exact", "killed::child", "--ignored", "--nocapture"])
        .env(ROOT, root)
        .env(LIFE, life.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs once more")
}

#[test]
#[ignore = "writes until it is killed: the other tests here start it"]
fn child() {
    let root = PathBuf::from(env::var_os(ROOT).expect("where"));
    let life = env::var(LIFE).expect("which").parse().expect("a number");
    let (mut log, _) = open(&root, Start::Newest, Box::new(|_| ())).unwrap();
    let rings: Vec<_> =
        (0..RINGS).map(|ring| (life, ring)).map(|ring| add(&mut log, ring)).collect();
    let _thread = log.start().unwrap();
    writeln!(stdout(), "open").unwrap();
    std::thread::scope(|scope| {
        for (name, mut durable, mut firehose, told) in rings {
            scope.spawn(move || {
                for serial in 1.. {
                    let payload = payload(name, serial);
                    firehose.offer(1, serial, &payload);
                    while let Err(refused) = durable.push(1, serial, &payload) {
                        assert_eq!(refused, Refused::Full);
                        told.recv_timeout(EVER).expect("commits go on");
                    }
                }
            });
        }
    });
}

type Ring = (Name, eventlog::lane::DurableRing, eventlog::lane::FirehoseRing, mpsc::Receiver<()>);

/// A ring of each lane, whose acknowledgements are said aloud.
fn add(log: &mut Log, name: Name) -> Ring {
    let (sender, told) = mpsc::channel();
    let tell: Tell = Box::new(move |what| {
        let Told::Durable { through, records, sequence } = what else { return };
        let (life, ring) = name;
        // Whoever listened may be gone; then so is everything.
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
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    assert!(lines.by_ref().any(|line| line.unwrap().ends_with("open")), "it ended by itself");
    let refused = open(temporary.path(), Start::Newest, Box::new(|_| ())).err();
    child.kill().unwrap();
    // Until its end is known it holds the directory.
    lines.for_each(drop);
    child.wait().unwrap();
    let want = format!(
        "{} is in use by process {}: end it, or name another directory",
        temporary.path().join("durable").display(),
        child.id()
    );
    assert_eq!(refused.expect("it is in use").to_string(), want);
    open(temporary.path(), Start::Newest, Box::new(|_| ())).expect("nobody holds it any more");
}
