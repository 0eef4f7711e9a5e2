//! A real file system of two MiB fills up and has space again: acknowledged records stay, nothing
//! more is authorised meanwhile, and nothing is restarted.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use eventlog::lane::{
    DurableRing, FirehoseRing, LaneEvent, LaneFailure, LaneHandle, LaneKind, LaneReport, LaneState,
    PushError, ReadScope, RingPosition, UnfinishedRecords,
};

use crate::log::{EVER, Name, found, open, payload, shard};

/// Directory of the child process.
const ROOT: &str = "EVENTLOG_TEST_ROOT";
/// The only epoch of this log, and its rings.
const DURABLE: Name = (1, 1);
const FIREHOSE: Name = (1, 2);
/// Fills the file system until it is removed.
const BALLAST_BYTES: usize = 1 << 20;

/// Runs `script` with `arguments` in a mount namespace of its own. None if we lack the permission.
fn apart(script: &str, arguments: &[&Path]) -> Option<Output> {
    ["-rm", "-m"].into_iter().find_map(|namespaces| {
        let probe = "mount -t tmpfs -o size=64k tmpfs \"$1\"";
        let run = |script: &str| {
            let mut command = Command::new("unshare");
            command.args([namespaces, "sh", "-c", script, "sh"]).args(arguments);
            command.env(ROOT, arguments[0]).output()
        };
        let may = run(probe).is_ok_and(|output| output.status.success());
        may.then(|| run(script).expect("it was there just now"))
    })
}

#[test]
#[expect(clippy::print_stderr, reason = "says that it has not run")]
fn a_small_disk_that_fills_heals_without_a_restart() {
    let temporary = tempfile::tempdir().unwrap();
    let own = env::current_exe().unwrap();
    let script = "mount -t tmpfs -o size=2m tmpfs \"$1\" && \
                  exec \"$2\" --exact full::child --ignored --nocapture";
    let Some(output) = apart(script, &[temporary.path(), &own]) else {
        eprintln!("SKIPPED: this user may not mount a tmpfs in a namespace of its own");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{problem}");
}

/// Both rings, and what was offered and acknowledged.
struct Shard {
    durable: DurableRing,
    told: mpsc::Receiver<LaneEvent>,
    taken: u64,
    firehose: FirehoseRing,
    offered: u64,
}

impl Shard {
    /// Offers a record to each lane. Returns why the durable lane refused it.
    fn hand_over(&mut self) -> Option<PushError> {
        self.offered += 1;
        self.firehose.offer(1, self.offered, &payload(FIREHOSE, self.offered));
        let serial = self.taken + 1;
        match self.durable.push(1, serial, &payload(DURABLE, serial)) {
            Ok(position) => {
                assert_eq!(position, RingPosition(serial));
                self.taken = serial;
                None
            }
            Err(refused) => Some(refused),
        }
    }

    /// Collects the durable positions.
    fn listen(&mut self, acknowledged: &mut u64) {
        for told in self.told.try_iter() {
            if let LaneEvent::Durable { through, .. } = told {
                *acknowledged = through.0;
            }
        }
    }
}

#[test]
#[ignore = "fills the disk that it is on: the other test here starts it on a small one"]
fn child() {
    let root = PathBuf::from(env::var_os(ROOT).expect("where"));
    let ballast = root.join("ballast");
    fs::write(&ballast, vec![0; BALLAST_BYTES]).unwrap();
    let reports = Arc::<Mutex<Vec<String>>>::default();
    let heard = Arc::clone(&reports);
    let report = move |lane: LaneKind, report: LaneReport<'_>| {
        let what = match report {
            LaneReport::Failing(_) => "fails",
            LaneReport::Healed(_) => "healed",
            other => panic!("{other:?}"),
        };
        heard.lock().expect("nobody panicked").push(format!("{} {what}", lane.name()));
    };
    let (log, _) = open(&root, ReadScope::Newest, Box::new(report)).unwrap();
    let lanes = [LaneKind::Durable, LaneKind::Firehose].map(|kind| log.lane(kind));
    let thread = log.start().unwrap();
    let (tell, told) = mpsc::channel();
    let tell = move |what| tell.send(what).expect("somebody listens");
    let mut shard = Shard {
        durable: thread.rings().durable_ring(16 << 10, Some(Box::new(tell))),
        told,
        taken: 0,
        firehose: thread.rings().firehose_ring(shard(FIREHOSE), 16 << 10),
        offered: 0,
    };

    let acknowledged = fill(&mut shard, &lanes);
    assert!(acknowledged > 0, "it was written before it was full");
    let before = (shard.taken, shard.firehose.shed());
    assert!(before.1 > 0, "what has no room is left out");

    fs::remove_file(&ballast).unwrap();
    let begun = Instant::now();
    while lanes.iter().any(|lane| lane.state() != LaneState::Writing) {
        assert!(
            begun.elapsed() < EVER,
            "there is room: {:?}",
            lanes.each_ref().map(LaneHandle::state)
        );
        std::thread::yield_now();
    }
    while shard.taken < before.0 + 50 {
        if let Some(refused) = shard.hand_over() {
            assert_eq!(refused, PushError::Full, "there is room on the disk");
            std::thread::yield_now();
        }
    }
    assert_eq!(thread.close(EVER), Ok(UnfinishedRecords::default()));

    let [of_durable, of_firehose] = lanes.each_ref().map(LaneHandle::counters);
    assert!(of_durable.commit_failures > 0 && of_durable.refused_state > 0, "{of_durable:?}");
    assert_eq!(of_durable.records, shard.taken);
    assert!(of_firehose.gaps > 0 && of_firehose.lost >= of_firehose.shed, "{of_firehose:?}");
    assert_eq!(of_firehose.records + of_firehose.lost, shard.offered);
    let of = |kind, name| found(&root, kind).get(&name).map_or(0, |all| all.len() as u64);
    assert_eq!(of(LaneKind::Durable, DURABLE), shard.taken, "all that was taken");
    assert_eq!(of(LaneKind::Firehose, FIREHOSE), shard.offered, "or told to be missing");
    let reports = reports.lock().unwrap();
    for what in ["durable fails", "durable healed", "firehose fails", "firehose healed"] {
        assert!(reports.iter().any(|report| report == what), "{what}: {reports:?}");
    }
}

/// Offers records until both lanes report a full disk and refuse. Returns the last durable
/// position.
fn fill(shard: &mut Shard, lanes: &[LaneHandle; 2]) -> u64 {
    let full = |lane: &LaneHandle| {
        let state = lane.state();
        assert!(!matches!(state, LaneState::Failing { cause: LaneFailure::Disk, .. }), "{state:?}");
        matches!(state, LaneState::Failing { cause: LaneFailure::DiskFull, .. })
    };
    let (begun, mut acknowledged) = (Instant::now(), 0);
    loop {
        assert!(begun.elapsed() < EVER, "a disk of two MiB becomes full");
        let (refused, shed) = (shard.hand_over(), shard.firehose.shed());
        shard.listen(&mut acknowledged);
        let is_refused =
            matches!(refused, Some(PushError::Failing { cause: LaneFailure::DiskFull, .. }));
        // A failing lane frees its reserved space, so the other may continue for a while.
        if is_refused && lanes.iter().all(full) && shed > 0 {
            return acknowledged;
        }
        if refused.is_some() {
            std::thread::yield_now();
        }
    }
}
