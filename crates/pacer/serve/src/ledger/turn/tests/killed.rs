//! A process spends until it is killed, `KILLS` times: books and log agree to the nano.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};

use faults::Chance;
use faults::process::{Once, kills};
use pacer_core::refusal::SpendRefusal;
use pacer_core::shard::token::ReservationToken;

use super::fake::{TestLedger, settle};
use crate::Keyring;

const KILLS: u64 = 30;
const SLOT: u32 = 1;
/// More than a run spends, so that no run ends by itself.
const OF_A_LIFE: u64 = 1_700_000;
const AMOUNT_MAX: u64 = 25_000;
/// Most wins that a run reports.
const WINS_MAX: u64 = 40;
const ROOT: &str = "LEDGER_DESK_TEST_ROOT";

fn limit() -> u64 {
    kills(KILLS) * OF_A_LIFE
}

/// The durable log: one line with the token of each win. A kill may cut off the last line.
struct Log {
    file: File,
    wins: Vec<ReservationToken>,
    sum: u64,
}

impl Log {
    fn open(root: &Path, keys: &Keyring) -> Self {
        let path = root.join("wins");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        let file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        file.set_len(whole as u64).unwrap();
        let token = |line: &str| keys.open_token(line.as_bytes()).unwrap();
        let wins: Vec<ReservationToken> = text[..whole].lines().map(token).collect();
        let sum = wins.iter().map(|token| token.amount().get()).sum();
        Self { file, wins, sum }
    }

    /// Returns the record's number, from 1.
    fn append(&mut self, keys: &Keyring, token: &ReservationToken) -> u64 {
        writeln!(self.file, "{}", keys.seals().seal(token)).unwrap();
        self.wins.push(*token);
        self.sum += token.amount().get();
        self.wins.len() as u64
    }
}

/// Starts a run, and sends the wins that the books lack.
fn begin(root: &Path) -> (TestLedger, Log, Keyring) {
    let ledger = TestLedger::open(&root.join("ledger"), 2);
    let keys = Keyring::open(&root.join("ledger"), None, None).unwrap();
    let log = Log::open(root, &keys);
    let applied = ledger.feed.applied_seq();
    assert!(applied <= log.wins.len() as u64, "nothing is booked before it is in the log");
    for (seq, token) in (1..).zip(&log.wins).filter(|(seq, _)| applied < *seq) {
        settle(&ledger.feed, seq, token);
    }
    ledger.feed.replayed();
    ledger.define(SLOT, limit());
    (ledger, log, keys)
}

/// Reserves, settles, releases or leaves open, until the budget is in the log or `tell` is false.
fn spend(
    ledger: &mut TestLedger,
    log: &mut Log,
    keys: &Keyring,
    mut tell: impl FnMut(u64) -> bool,
) {
    let (limit, mut chance) = (limit(), Chance::new(u64::from(ledger.handle.status().epoch.0)));
    ledger.until("it spends", |ledger| {
        for shard in &mut ledger.shards {
            let amount = 1 + chance.below(AMOUNT_MAX);
            let left = limit - log.sum;
            let Ok(token) = shard.reserve(SLOT, amount.min(left).max(1)) else { continue };
            match chance.below(6) {
                0 => (), // It expires.
                1 => drop(shard.release(&token)),
                _ => {
                    let seq = log.append(keys, &token);
                    shard.settle(&token);
                    settle(&ledger.feed, seq, &token);
                    if !tell(seq) {
                        return true;
                    }
                }
            }
        }
        assert!(log.sum <= limit, "{} of {limit}", log.sum);
        log.sum == limit
    });
}

#[test]
fn books_balance_however_often_the_process_is_killed() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    let mut chance = Chance::new(3);
    let lives = kills(KILLS);
    for _ in 0..lives {
        let child = Once::more("ledger::turn::tests::killed::child", &[(ROOT, root.as_os_str())]);
        child.kill_after(chance.below(WINS_MAX), |line| line.contains("won "));
    }
    // The last run is this process.
    let (mut ledger, mut log, keys) = begin(root);
    assert!(log.wins.len() as u64 > lives, "{} wins prove nothing", log.wins.len());
    let won = log.sum;
    ledger.until("the books say what the log says", |ledger| ledger.spent(SLOT) == won);
    ledger.until("what was outstanding is reclaimed", |ledger| ledger.why(SLOT).frozen.get() == 0);
    assert_eq!(ledger.spent(SLOT), won);
    // No budget is lost: the rest can be won.
    spend(&mut ledger, &mut log, &keys, |_| true);
    ledger.until("all is spent", |ledger| ledger.spent(SLOT) == limit());
    assert_eq!(ledger.why(SLOT).refusal, Some(SpendRefusal::BudgetExhausted));
    assert_eq!(ledger.handle.status().strays, 0);
    ledger.close();
}

#[test]
#[ignore = "spends until it is killed: the other test here starts it"]
fn child() {
    let root = PathBuf::from(env::var_os(ROOT).unwrap());
    let (mut ledger, mut log, keys) = begin(&root);
    // A run spends little of the budget, so that it is never the last.
    spend(&mut ledger, &mut log, &keys, |seq| {
        writeln!(stdout(), "won {seq}").unwrap();
        true
    });
}
