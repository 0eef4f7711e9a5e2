//! What a batch costs the pacer: allocations, system calls of the shard's thread, and waits for
//! locks.
//!
//! Counts, never times. A process of its own serves the batches of a client that allocates nothing
//! once it has its buffers; strace counts system calls.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use eventlog::lane::LaneHandle;
use faults::process::isolated;
use pacer_serve::wire::{PacerConfig, PacerService, SETTLEMENT_LOG, SettlementLog};
use pacer_serve::{BudgetsService, Spender};
use pacer_wire::{
    BatchItem, BidRequestEntry, CandidateEntry, CatalogueChange, DecisionsFrame, FrameKind, Offer,
    RawFrame, SettlementEntry, SettlementOutcome, write_batch, write_settle,
};
use record::{RECORD, RecordService};
use runtime::config::{Section, parse_loaded};
use runtime::control::Control;
use runtime::service::{Ports, ServiceError, Services, Shell, ShellConfig, ShellOptions};
use runtime::shutdown::Shutdown;
use stats_alloc::Region;
use units::{Cpm, Nanos};

use super::fixtures::hello;
use crate::ALLOCATOR;
use crate::definitions::DirectPart;
use crate::program::{PATIENCE, until};

/// Batches in flight, which arrive together.
const DEPTH: usize = 4;
const REQUESTS: usize = 10;
const ROUNDS: usize = 1_000;
const FRAME_BYTES_MAX: u32 = 65_536;

/// Allocations in the whole process for a batch, whose turns of the ledger go on meanwhile.
const ALLOCATIONS_MAX: f64 = 0.05;
/// System calls of the shard for a round of [`DEPTH`] batches: a wait, a read, a write, and a tick
/// from time to time.
const CALLS_MAX: f64 = 4.0;
/// Waits for locks are calls of `futex`.
const FUTEX_MAX: f64 = 0.05;

/// The pacer in this process, and a client that reads and writes whole rounds.
struct Rig {
    _folder: tempfile::TempDir,
    shell: Shell,
    shutdown: Shutdown,
    stream: TcpStream,
    out: Vec<u8>,
    input: Vec<u8>,
    filled: usize,
    sequence: u64,
    number: u64,
    campaign: Option<u32>,
    won: Vec<SettlementEntry>,
    authorised: usize,
}

fn services() -> Services {
    Services::default()
        .with::<RecordService>()
        .with::<BudgetsService<DirectPart>>()
        .with::<PacerService<DirectPart>>()
        .link::<PacerService<DirectPart>>(link)
}

/// As the binary does it.
fn link(ports: &mut Ports) -> Result<(), ServiceError> {
    let record = ports.get(&RECORD).expect("it is configured");
    let lane: LaneHandle = record.durable.clone();
    let (claim, rings, bytes) = (lane.protect(), record.rings, record.durable_ring_bytes);
    let log = SettlementLog {
        directory: record.directory.join(lane.kind().name()),
        lane,
        ring: Box::new(move |listener| rings.durable_ring(bytes, Some(listener))),
        keep_from: Box::new(move |sequence| claim.keep_from(sequence)),
    };
    ports.offer(&SETTLEMENT_LOG, log);
    Ok(())
}

impl Rig {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let at = |name: &str| folder.path().join(name);
        let text = format!(
            "[runtime]\nshards = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n[record]\ndirectory = {:?}\n\
             [budgets]\ndirectory = {:?}\ncampaigns = \"campaigns.toml\"\n\
             [pacer]\nlisten = \"{address}\"\n[[pacer.client]]\nid = \"dsp-1\"\nsecret = \"of dsp 1\"\n",
            at("record"),
            at("budgets")
        );
        let file = "[[account]]\nid = \"acme\"\ncurrency = \"USD\"\n[[campaign]]\nid = \"c\"\n\
                    account = \"acme\"\nbudget = \"1000000\"\nstart = \"2020-01-01T00:00:00Z\"\n\
                    end = \"2100-01-01T00:00:00Z\"\nstrategy.name = \"asap\"\n";
        std::fs::write(at("campaigns.toml"), file).unwrap();
        let read = |s: &mut Section<'_>| {
            let mut config = ShellConfig::read(&services(), s);
            let bidders = config.service::<PacerService<DirectPart>>().map(PacerConfig::lifetimes);
            let budgets = config.service_mut::<BudgetsService<DirectPart>>();
            if let Some((budgets, bidders)) = budgets.zip(bidders) {
                budgets.spenders.push(Spender::Pacer(bidders));
            }
            config
        };
        let loaded = parse_loaded("the configuration", &text, read).unwrap();
        let shutdown = Shutdown::new(Duration::from_secs(5));
        let options = ShellOptions {
            effective: loaded.effective,
            file: None,
            folder: folder.path(),
            listeners: vec![listener],
            shutdown: shutdown.clone(),
            control: Control::start().unwrap(),
        };
        let shell = Shell::start(&services(), loaded.value, options).unwrap();
        let mut rig = Self {
            shell,
            shutdown,
            stream: TcpStream::connect(address).unwrap(),
            _folder: folder,
            out: Vec::with_capacity(65_536),
            input: vec![0; 65_536],
            filled: 0,
            sequence: 1,
            number: 0,
            campaign: None,
            won: Vec::with_capacity(DEPTH * REQUESTS),
            authorised: 0,
        };
        rig.stream.set_nodelay(true).unwrap();
        rig.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        rig.stream.write_all(&hello()).unwrap();
        while rig.campaign.is_none() {
            rig.read();
        }
        until("money is granted", || {
            rig.authorised = 0;
            rig.round();
            rig.authorised == DEPTH * 3
        });
        rig
    }

    /// Sends batches of which 3 requests may bid, settles one win of each, and reads all answers.
    fn round(&mut self) {
        let campaign = self.campaign.expect("there is a catalogue");
        self.out.clear();
        for _ in 0..DEPTH {
            self.sequence += 1;
            let first = self.number;
            self.number += REQUESTS as u64;
            let candidate = |minimum: u64| {
                let value = Offer::Value(Cpm::new(1_000).unwrap());
                [CandidateEntry::new(campaign, value, Cpm::new(minimum).unwrap())]
            };
            let (open, shut) = (candidate(0), candidate(1_000_000));
            let items = (0..REQUESTS).map(|at| BatchItem {
                request: BidRequestEntry::new(first + at as u64, 1),
                candidates: if at < 3 { &open } else { &shut },
            });
            write_batch(&mut self.out, self.sequence, 10_000_000, items);
        }
        let mut answers = DEPTH;
        if !self.won.is_empty() {
            self.sequence += 1;
            write_settle(&mut self.out, self.sequence, &self.won);
            self.won.clear();
            answers += 1;
        }
        self.stream.write_all(&self.out).unwrap();
        while answers > 0 {
            answers -= self.read();
        }
    }

    /// Reads once; returns how many frames answer others.
    fn read(&mut self) -> usize {
        self.filled += self.stream.read(&mut self.input[self.filled..]).unwrap();
        let (mut taken, mut answers) = (0, 0);
        while let Some(frame) =
            RawFrame::read(&self.input[taken..self.filled], FRAME_BYTES_MAX).unwrap()
        {
            taken += frame.bytes.len();
            match frame.kind {
                FrameKind::Decisions => {
                    answers += 1;
                    let decisions = DecisionsFrame::decode(&frame).unwrap();
                    let mut tokens = decisions.filter_map(|(_, token)| token);
                    if let Some(token) = tokens.next() {
                        let (won, cost) = (SettlementOutcome::Won, Nanos::new(900));
                        self.won.push(SettlementEntry::new(*token, won, cost));
                        self.authorised += 1 + tokens.count();
                    }
                }
                FrameKind::Settled => answers += 1,
                FrameKind::Catalogue => {
                    for row in CatalogueChange::decode(&frame).unwrap() {
                        self.campaign = Some(row.unwrap().handle);
                    }
                }
                _ => (),
            }
        }
        self.input.copy_within(taken..self.filled, 0);
        self.filled -= taken;
        answers
    }

    fn finish(self) {
        drop(self.stream);
        self.shutdown.begin();
        self.shell.join().unwrap();
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the measured numbers")]
#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn a_batch_allocates_nothing() {
    isolated(|| {
        let mut rig = Rig::start();
        (0..ROUNDS).for_each(|_| rig.round());
        // Buffers of the log and of the ledger grow from time to time.
        let rounds = [(); 3].map(|()| {
            let region = Region::new(ALLOCATOR);
            (0..ROUNDS).for_each(|_| rig.round());
            let counted = region.change();
            counted.allocations + counted.reallocations
        });
        rig.finish();
        let least = rounds.into_iter().min().expect("there are three");
        let each = least as f64 / (ROUNDS * DEPTH) as f64;
        println!("a batch of {REQUESTS} requests with a win: {each:.3} allocations");
        assert!(each <= ALLOCATIONS_MAX, "{each} allocations");
    });
}

/// The variable with the number of rounds of the traced process.
const ROUNDS_KEY: &str = "PACER_ROUNDS";

#[test]
#[expect(clippy::print_stdout, reason = "the measured numbers")]
#[expect(clippy::print_stderr, reason = "says that it has not run")]
#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn system_calls_of_a_batch() {
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("SKIPPED: strace is not on the PATH, no system calls were counted");
        return;
    }
    // The difference of two runs leaves out start, warm-up and end.
    const FEW: usize = 200;
    const MANY: usize = 600;
    let rounds = (MANY - FEW) as f64;
    let counted = || {
        let (few, many) = (traced(FEW), traced(MANY));
        let each = |many: usize, few: usize| (many as f64 - few as f64) / rounds;
        (each(many.all, few.all), each(many.futex, few.futex))
    };
    // On a busy machine batches that were sent together do not arrive together.
    let mut tries = std::iter::repeat_with(counted).take(3).peekable();
    let mut least = *tries.peek().expect("there are three");
    for found in tries {
        least = if found.0 < least.0 { found } else { least };
        if least.0 <= CALLS_MAX {
            break;
        }
    }
    let (calls, waits) = least;
    println!("{DEPTH} batches that arrive together: {calls:.1} system calls, {waits:.2} of futex");
    assert!(calls <= CALLS_MAX, "{calls} system calls");
    assert!(waits <= FUTEX_MAX, "{waits} waits for a lock");
}

/// System calls of the shard's thread.
struct TracedCalls {
    all: usize,
    futex: usize,
}

fn traced(rounds: usize) -> TracedCalls {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("strace")
        .args(["-ff", "-qq", "-e", "signal=none", "-o"])
        .arg(folder.path().join("trace"))
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "pacer::ceilings::hold_rounds", "--nocapture"])
        .env(ROUNDS_KEY, rounds.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let thread = text.lines().find_map(|line| line.split_once("shard thread ")).map(|(_, id)| id);
    let thread = thread.unwrap_or_else(|| panic!("strace cannot trace here: {output:?}"));
    let trace = std::fs::read_to_string(folder.path().join(format!("trace.{thread}"))).unwrap();
    let futex = trace.lines().filter(|line| line.starts_with("futex(")).count();
    TracedCalls { all: trace.lines().count(), futex }
}

/// The traced process: not a test of its own.
#[test]
#[ignore = "run under strace by `system_calls_of_a_batch`"]
#[expect(clippy::print_stdout, reason = "tells the tracer which thread is the shard's")]
fn hold_rounds() {
    let rounds = std::env::var(ROUNDS_KEY).expect("set by the tracer");
    let mut rig = Rig::start();
    // Wins wake the log: without them the calls are those of batches alone.
    for _ in 0..rounds.parse::<usize>().unwrap() {
        rig.won.clear();
        rig.round();
    }
    println!("shard thread {}", shard_thread());
    rig.finish();
}

fn shard_thread() -> String {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let is_shard = |path: &Path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "shard-0")
    };
    let mut paths = tasks.map(|task| task.unwrap().path());
    let path = paths.find(|path| is_shard(path)).expect("the shard runs");
    path.file_name().unwrap().to_string_lossy().into_owned()
}
