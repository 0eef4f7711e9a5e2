//! Two direct campaigns and a DSP's seat with an account, in a process that is killed in between:
//! all of the budget is spent, and no more. The callers of the beacons count what is billed, too.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::books::log;
use super::life::{Life, SEAT, Sold, campaign, configure, define, dsp, dsp_table};
use crate::program::{PATIENCE, nanos};

/// Budgets in nanos. A win costs 3, 2.5 and 2 million, so all of each can be spent.
const LIMITS: [(&str, u64); 3] = [(SEAT, 9_000_000), ("summer", 10_000_000), ("autumn", 6_000_000)];

const ACCOUNTS: &str = r#"
[[account]]
id = "acme"
currency = "USD"
time_zone = "Asia/Kathmandu"
budget = "0.016"

[[account]]
id = "buyer"
currency = "USD"
budget = "0.009"
seats = ["d/buyer"]
"#;

fn spent(life: &Life, of: &str) -> u64 {
    let kind = if of == SEAT { "account" } else { "campaign" };
    nanos(&life.told(kind, of, "spend")["life"])
}

#[test]
fn all_is_spent_and_no_more_whatever_happens_to_the_process() {
    check("1.1");
}

#[test]
fn all_is_spent_and_no_more_over_http2() {
    check("2");
}

/// The DSP is called over this version of HTTP.
fn check(http: &str) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let table = dsp_table("d", dsp(&["3.0"]), http);
    configure(folder, &table, "lease_period = \"20ms\"\nreservation_max = \"2s\"");
    let summer = campaign("summer", "acme", "budget = \"0.01\"\nbid = { value = \"2.5\" }");
    let autumn = campaign("autumn", "acme", "budget = \"0.006\"\nbid = { price = \"2\" }");
    define(folder, &format!("{ACCOUNTS}{summer}{autumn}"));
    let mut life = Life::begin(folder);
    let mut billed = BTreeMap::from(LIMITS.map(|(id, _)| (id.to_owned(), 0)));
    let all = BTreeMap::from(LIMITS.map(|(id, all)| (id.to_owned(), all)));
    let (mut unbilled, mut wins, began) = (Vec::new(), 0, Instant::now());
    let bill = |life: &Life, sold: &Sold, billed: &mut BTreeMap<String, u64>| {
        life.caller().bill(&sold.beacon).expect("an answer");
        life.caller().bill(&sold.beacon).expect("an answer");
        *billed.get_mut(&sold.winner).unwrap() += sold.nanos;
    };
    while billed != all {
        assert!(began.elapsed() < PATIENCE, "{billed:?} of {wins} wins");
        let Some(sold) = life.caller().auction().expect("an answer") else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        wins += 1;
        // Some are never shown, and their reservations return.
        if wins % 4 == 1 {
            unbilled.push(sold);
            continue;
        }
        bill(&life, &sold, &mut billed);
        if wins == 6 {
            life.kill();
            life = Life::begin(folder);
            // Shown before the kill and billed after it: once, however often the beacon is called.
            bill(&life, &unbilled.remove(0), &mut billed);
        }
    }
    assert!(wins > 10 && !unbilled.is_empty(), "{wins}");
    for (id, all) in LIMITS {
        while spent(&life, id) < all {
            assert!(began.elapsed() < PATIENCE, "{id}: {} of {all}", spent(&life, id));
        }
        assert_eq!(spent(&life, id), all, "{id}");
    }
    assert_eq!(life.caller().auction(), Some(None), "nothing is left");
    drop(life);
    let told = log(folder, &["replay"]);
    assert!(!told.starts_with("0 auctions"), "{told}");
}
