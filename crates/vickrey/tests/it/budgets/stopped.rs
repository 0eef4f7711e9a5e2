//! A process that is stopped by SIGTERM and restarted: unreserved budget can be spent at once, and
//! earlier reservations are billed within their lease.

use std::time::Instant;

use super::life::{Caller, Life, Sold, campaign, configure, define, dsp, dsp_table};
use crate::program::{PATIENCE, nanos};

/// The budget of twenty wins, and the price of each.
const LIMIT: u64 = 50_000_000;
const WIN: u64 = 2_500_000;

/// The DSP's seat has no money: the campaign alone wins.
const ACCOUNTS: &str = r#"
[[account]]
id = "acme"
currency = "USD"

[[account]]
id = "buyer"
currency = "USD"
budget = "0"
seats = ["d/buyer"]
"#;

/// Wins this many auctions; the process has the budget for them.
fn win(caller: &mut Caller, wins: usize) -> Vec<Sold> {
    let (mut sold, began) = (Vec::new(), Instant::now());
    while sold.len() < wins {
        assert!(began.elapsed() < PATIENCE, "{} of {wins} wins", sold.len());
        sold.extend(caller.auction().expect("an answer"));
    }
    assert!(sold.iter().all(|of| of.nanos == WIN), "{sold:?}");
    sold
}

fn bill(caller: &mut Caller, sold: &[Sold]) {
    for of in sold {
        caller.bill(&of.beacon).expect("an answer");
    }
}

#[test]
fn a_restart_loses_no_money_and_no_minute() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    // No reservation expires during the test.
    configure(folder, &dsp_table("d", dsp(&["0.01"]), "1.1"), "reservation_max = \"1h\"");
    let keys = "budget = \"0.05\"\nbid = { value = \"2.5\" }";
    define(folder, &format!("{ACCOUNTS}{}", campaign("summer", "acme", keys)));
    let (mut reserved, mut billed) = (Vec::new(), 0);
    // Stops without a win in between, and after some wins.
    for wins in [0, 6, 4, 0, 3] {
        let life = Life::begin(folder);
        let why = life.told("campaign", "summer", "why");
        let frozen = nanos(&why["frozen"]);
        assert_eq!(frozen, WIN * reserved.len() as u64, "{why}");
        let mut sold = win(&mut life.caller(), wins);
        let shown = sold.split_off(sold.len() / 2);
        bill(&mut life.caller(), &shown);
        billed += shown.len();
        reserved.extend(sold);
        life.stop();
    }
    let life = Life::begin(folder);
    let all = usize::try_from(LIMIT / WIN).unwrap();
    let rest = win(&mut life.caller(), all - billed - reserved.len());
    assert_eq!(life.caller().auction(), Some(None), "nothing is left");
    bill(&mut life.caller(), &rest);
    bill(&mut life.caller(), &reserved);
    let began = Instant::now();
    while nanos(&life.told("campaign", "summer", "spend")["life"]) < LIMIT {
        assert!(began.elapsed() < PATIENCE, "what is billed is booked");
    }
    let why = life.told("campaign", "summer", "why");
    for level in why["levels"].as_array().unwrap() {
        assert_eq!(level["late"], "0", "none of them was late: {why}");
    }
    life.stop();
}
