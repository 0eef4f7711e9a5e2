//! A process that is killed again and again, at its start and under load, over the same folder. It
//! never authorises beyond a limit, its books match the billed amounts to the nano, and in the end
//! the whole budget is spent.
//!
//! `KILLS` sets the number of kills.

use std::collections::BTreeSet;
use std::path::Path;

use faults::Chance;
use faults::process::kills;
use serde_json::Value;

use super::books::{Books, Level, Span, log, settled};
use super::life::{Life, SEAT, Starting, campaign, configure, define, dsp, dsp_table, money};
use super::load::{Billed, Seen, Win, spend, unix_ms};
use crate::program::{nanos, until};

/// As many as a normal test run has time for.
const KILLS: u64 = 8;
/// Shortest life of a reservation.
const LASTS_MS: u64 = 2_000;
/// Most wins in a run before the kill.
const WINS_MAX: u64 = 50;
const LINES_MAX: u64 = 8;

/// Lowest price of each winner's wins.
const WINNERS: [(&str, u64); 4] =
    [(SEAT, 1_500_000), ("summer", 2_500_000), ("winter", 2_200_000), ("autumn", 2_000_000)];
const DIRECT_DSP: &[&str] = &["summer", "winter", "autumn"];
const KATHMANDU: &str = "Asia/Kathmandu";

/// Less than a run could spend, so that limits are reached again and again.
const LEVELS: [Level; 6] = [
    Level::new((SEAT, &[SEAT]), Span::Life, "UTC", 13_500_000),
    Level::new((SEAT, &[SEAT]), Span::Hour, "UTC", 12_000_000),
    Level::new(("acme", DIRECT_DSP), Span::Life, KATHMANDU, 30_000_000),
    Level::new(("summer", &["summer"]), Span::Life, KATHMANDU, 15_000_000),
    Level::new(("winter", &["winter"]), Span::Day, KATHMANDU, 11_000_000),
    Level::new(("autumn", &["autumn"]), Span::Life, KATHMANDU, 6_000_000),
];

/// The limits in a run: each run adds as much as the first one had.
fn limits(life: u64, of: &str) -> String {
    let levels = LEVELS.iter().filter(|level| level.owner == of);
    let key = |level: &Level| match level.span {
        Span::Life => "budget",
        Span::Day => "daily_budget",
        Span::Hour => "hourly_budget",
    };
    let limit = |level: &Level| format!("{} = {}\n", key(level), money(life * level.nanos));
    levels.map(limit).collect()
}

fn accounts(life: u64) -> String {
    let limits = |of: &str| limits(life, of);
    let acme = format!("currency = \"USD\"\ntime_zone = {KATHMANDU:?}\n{}", limits("acme"));
    let seat = format!("currency = \"USD\"\nseats = [\"d/{SEAT}\"]\n{}", limits(SEAT));
    let head = format!("[[account]]\nid = \"acme\"\n{acme}[[account]]\nid = {SEAT:?}\n{seat}");
    let bids = ["value = \"2.5\"", "price = \"2.2\"", "price = \"2\""];
    let campaign = |(id, bid): (&&str, &str)| {
        campaign(id, "acme", &format!("{}bid = {{ {bid} }}", limits(id)))
    };
    DIRECT_DSP.iter().zip(bids).map(campaign).fold(head, |text, campaign| text + &campaign)
}

/// Start times of the runs, and their wins.
#[derive(Default)]
struct Story {
    lives: Vec<u64>,
    wins: Vec<Win>,
    auctions: u64,
}

impl Story {
    /// Starts the next run, with higher limits.
    fn start(&mut self, folder: &Path) -> Starting {
        let number = self.lives.len() as u64 + 1;
        define(folder, &accounts(number));
        self.lives.push(unix_ms());
        Starting::new(folder)
    }
}

/// The ledger's figures of a winner.
fn told(life: &Life, winner: &str, what: &str) -> Value {
    life.told(if winner == SEAT { "account" } else { "campaign" }, winner, what)
}

/// The spend of a limit, by the ledger.
fn spent(life: &Life, level: &Level) -> u64 {
    let span = match level.span {
        Span::Life => "life",
        Span::Day => "today",
        Span::Hour => "hour",
    };
    level.of.iter().map(|winner| nanos(&told(life, winner, "spend")[span])).sum()
}

fn in_all(life: &Life) -> u64 {
    WINNERS.iter().map(|(winner, _)| nanos(&told(life, winner, "spend")["life"])).sum()
}

#[test]
fn books_balance_and_limits_hold_however_often_the_process_is_killed() {
    kill_and_check("1.1");
}

#[test]
fn books_balance_and_limits_hold_over_http2() {
    kill_and_check("2");
}

/// The DSP is called over this version of HTTP.
fn kill_and_check(http: &str) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let keys = format!("lease_period = \"20ms\"\nreservation_max = \"{LASTS_MS}ms\"");
    configure(folder, &dsp_table("d", dsp(&["3.0", "1.5"]), http), &keys);
    let (mut story, mut chance, mut owed) = (Story::default(), Chance::new(1), Vec::new());
    for kill in 0..kills(KILLS) {
        let starting = story.start(folder);
        if chance.once_in(4) {
            starting.kill_after(usize::try_from(chance.below(LINES_MAX)).unwrap());
            continue;
        }
        let life = starting.ready();
        if chance.once_in(4) {
            let want = settled(folder);
            until("what is billed is booked", || in_all(&life) == want);
        }
        let seen = spend(life, chance.below(WINS_MAX), kill, owed);
        let Seen { auctions, wins, left, .. } = seen;
        story.auctions += auctions;
        story.wins.extend(wins);
        owed = left;
    }
    story.wins.extend(owed);
    assert!(story.wins.len() as u64 > 5 * kills(KILLS), "{} wins prove nothing", story.wins.len());
    let life = story.start(folder).ready();
    bill_late(&life, &mut story);
    spend_all(&life, &mut story);
    check(folder, life, &story);
}

/// Bills every other win that was never billed, long after its reservation expired.
fn bill_late(life: &Life, story: &mut Story) {
    let is_over = |win: &Win| win.answered_ms + 2 * LASTS_MS < unix_ms();
    let unshown = |win: &&mut Win| win.billed == Billed::Never;
    until("a reservation is over", || {
        story.wins.iter_mut().find(unshown).is_some_and(|win| is_over(win))
    });
    let mut caller = life.caller();
    let over = story.wins.iter_mut().filter(unshown).filter(|win| is_over(win));
    for win in over.step_by(2) {
        caller.bill(&win.sold.beacon).expect("an answer");
        win.billed = Billed::Answered;
    }
}

/// The leases of earlier runs return: in the end each winner is stopped by one of its own limits.
fn spend_all(life: &Life, story: &mut Story) {
    let mut caller = life.caller();
    let number = story.lives.len() as u64;
    until("all is spent", || {
        loop {
            let asked_ms = unix_ms();
            let Some(sold) = caller.auction().expect("an answer") else { break };
            let (answered_ms, billed) = (unix_ms(), Billed::Answered);
            caller.bill(&sold.beacon).expect("an answer");
            story.wins.push(Win { sold, asked_ms, answered_ms, billed });
        }
        let left = LEVELS.map(|level| {
            let left = (number * level.nanos).saturating_sub(spent(life, &level));
            (level.of, left)
        });
        let is_kept = |(winner, least): &(&str, u64)| {
            left.iter().any(|(of, left)| of.contains(winner) && left < least)
        };
        WINNERS.iter().all(is_kept)
    });
}

#[expect(clippy::print_stderr, reason = "shows whether it has proved anything")]
fn check(folder: &Path, life: Life, story: &Story) {
    let want = settled(folder);
    until("what is billed is booked", || in_all(&life) == want);
    let books = Books::read(folder, &story.wins);
    for (winner, _) in WINNERS {
        let of_the_ledger = nanos(&told(&life, winner, "spend")["life"]);
        assert_eq!(of_the_ledger, books.spent(&[winner]), "{winner}");
    }
    until("nothing is held by a life that ended", || {
        WINNERS.iter().all(|(winner, _)| nanos(&told(&life, winner, "why")["frozen"]) == 0)
    });
    life.kill();
    let late = books.late(&WINNERS.map(|(winner, _)| winner), LASTS_MS);
    assert!(late > 0, "nothing came late");
    for level in &LEVELS {
        let (most, limit) = level.check(&books, &story.lives, LASTS_MS);
        let late = books.late(level.of, LASTS_MS);
        eprintln!("{} {:?}: {most} of {limit} at the most, {late} late", level.owner, level.span);
        assert!(most > limit / 2, "what is never reached is never held: {level:?}");
    }
    let replayed = log(folder, &["replay"]);
    let billed = |billed| story.wins.iter().filter(|win| win.billed == billed).count();
    eprintln!(
        "{} lives, {} auctions under load; {} wins told, {} to the record alone; {} billed, of {} beacons \
         answered and {} not, {} never called\n{replayed}",
        story.lives.len(),
        story.auctions,
        story.wins.len(),
        books.untold,
        books.settled.len(),
        billed(Billed::Answered),
        billed(Billed::Unanswered),
        billed(Billed::Never),
    );
    log(folder, &["verify", "--deep"]);
    let winners: BTreeSet<&str> = books.settled.values().map(|(of, _)| of.as_str()).collect();
    assert_eq!(winners.len(), WINNERS.len(), "all have won: {winners:?}");
}
