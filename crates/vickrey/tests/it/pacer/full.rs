//! A disk that is full: nothing is authorised, no win is lost, and no restart is needed.

use std::time::Duration;

use pacer_client::SettlementCode;
use units::Nanos;

use super::fixtures::{Pacer, first_bid, request, runtime};
use crate::operations::fixtures::SmallDisk;
use crate::program::until;

const COST: u64 = 700_001;
const STATE: &str = "record_state{lane=\"durable\"}";

#[test]
fn a_full_disk_stops_spending_and_loses_no_win() {
    let folder = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mount(folder.path()) else { return };
    let pacer = Pacer::with_record(&folder.path().join("record"));
    let runtime = runtime();
    let _entered = runtime.enter();
    let client = pacer.client();
    let first = first_bid(&runtime, &client);
    let won = |token| client.won(token, Nanos::new(COST)).expect("there is room");
    let decide = || {
        let request = request(&client, 1, 1_000_000);
        runtime.block_on(client.decide(request, Duration::from_millis(200)))
    };
    let ballast = small.fill();
    let mut wins = vec![won(first.token)];
    // Some wins fit the part of the file that is allocated.
    until("the record fails", || {
        if let Some(Ok(bid)) = decide() {
            wins.push(won(bid.token));
        }
        pacer.server.scraped(STATE) == 2
    });
    until("nothing is authorised", || !matches!(decide(), Some(Ok(_))));
    assert!(client.status().unsettled > 0, "no win is acknowledged that is not durable");
    std::fs::remove_file(ballast).unwrap();
    let booked = wins.len() as u64;
    for win in wins {
        let result = runtime.block_on(win).expect("the client goes on");
        assert_eq!(result, SettlementCode::Booked);
    }
    until("it is authorised again", || matches!(decide(), Some(Ok(_))));
    until("the ledger has all", || pacer.spend("acme-spring") == booked * COST);
    assert!(pacer.server.scraped(r#"pacer_credit_stalls_total{client="dsp-1"}"#) > 0);
}
