//! Two exchanges that sell on the budget of one pacer, while each of them is killed.

use std::path::Path;
use std::time::{Duration, Instant};

use super::fixtures::Pacer;
use crate::budgets::life::{
    Caller, Life, SEAT, Sold, Starting, configure_exchange, dsp, dsp_table,
};
use crate::program::{until, vickrey};

/// Bids of the DSP whose seat the pacer pays for.
const PAID: &[&str] = &["3.0", "1.5"];
/// Bids of the other one.
const UNPAID: &[&str] = &["0.5"];
const UNPAID_NANOS: u64 = 500_000;
/// Longer than it takes to note that a record was read.
const OFFSET_SAVED: Duration = Duration::from_millis(1_500);
/// For some sixty wins.
const BUDGET_NANOS: u64 = 140_000_000;

fn tables(pacer: &str) -> String {
    let paid = format!(
        "[exchange.pacer]\naddress = \"{pacer}\"\nid = \"dsp-1\"\nsecret = \"of dsp 1\"\n\
         [[exchange.pacer.seat]]\ndsp = \"paid\"\nseat = \"{SEAT}\"\naccount = \"acme\"\n\
         campaign = \"acme-spring\"\n"
    );
    paid + &dsp_table("paid", dsp(PAID), "1.1") + &dsp_table("unpaid", dsp(UNPAID), "1.1")
}

fn pacer() -> Pacer {
    let file = "[[account]]\nid = \"acme\"\ncurrency = \"USD\"\ntime_zone = \"UTC\"\n\
                [[campaign]]\nid = \"acme-spring\"\naccount = \"acme\"\nbudget = \"0.14\"\n\
                start = \"2020-01-01T00:00:00Z\"\nend = \"2100-01-01T00:00:00Z\"\n\
                strategy.name = \"asap\"\n";
    Pacer::with_campaigns(file)
}

/// An exchange, and its wins that the pacer pays for.
struct Seller {
    folder: tempfile::TempDir,
    life: Option<Life>,
    caller: Option<Caller>,
    /// Sold, and billed later.
    unbilled: Vec<Sold>,
    billed: u64,
}

impl Seller {
    fn new(pacer: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        configure_exchange(folder.path(), &tables(pacer));
        let mut seller = Self { folder, life: None, caller: None, unbilled: Vec::new(), billed: 0 };
        seller.start();
        seller
    }

    fn start(&mut self) {
        let life = Starting::new(self.folder.path()).ready();
        self.caller = Some(life.caller());
        self.life = Some(life);
    }

    fn kill(&mut self) {
        self.life.take().expect("it runs").kill();
    }

    /// Runs an auction. Returns whether the paid seat has won; the other one wins otherwise.
    fn auction(&mut self) -> bool {
        let caller = self.caller.as_mut().expect("it runs");
        let sold = caller.auction().expect("an answer").expect("auctions go on");
        let is_paid = sold.nanos != UNPAID_NANOS;
        if is_paid {
            self.unbilled.push(sold);
        }
        is_paid
    }

    fn wins(&mut self, count: usize) {
        let many = self.unbilled.len() + count;
        until("the paid seat wins", || self.auction() && self.unbilled.len() == many);
    }

    fn bill(&mut self, count: usize) {
        for sold in self.unbilled.drain(..count) {
            self.caller.as_mut().expect("it runs").bill(&sold.beacon).expect("an answer");
            self.billed += sold.nanos;
        }
    }

    /// Records that may hold wins that the pacer has not booked.
    fn behind(&self) -> u64 {
        self.life.as_ref().expect("it runs").metric("exchange_pacer_records_behind")
    }

    fn bill_all(&mut self) {
        self.bill(self.unbilled.len());
    }
}

#[test]
fn exchanges_share_a_budget_through_crashes_of_all() {
    let mut pacer = pacer();
    pacer.keep_port();
    let mut sellers = [Seller::new(&pacer.address()), Seller::new(&pacer.address())];
    for seller in &mut sellers {
        seller.wins(6);
        seller.bill(2);
    }
    let [first, second] = &mut sellers;
    // The pacer is gone: its seat wins nothing, other auctions go on, and beacons are taken.
    pacer.server.signal("-STOP");
    assert!((0..5).all(|_| !first.auction()), "silence refuses the winner");
    pacer.server.signal("-CONT");
    pacer.server.signal("-KILL");
    assert!((0..5).all(|_| !first.auction()), "so does a closed connection");
    first.bill(2);
    second.bill(2);
    // An exchange that ends keeps what it owes the pacer.
    until("it knows that the pacer has not booked them", || second.behind() > 0);
    let later = Instant::now() + OFFSET_SAVED;
    while Instant::now() < later {
        assert!(!second.auction());
        assert!(second.behind() > 0, "it forgets what the pacer has not booked");
    }
    second.kill();
    second.start();
    assert!(!second.auction());
    pacer.server.kill_and_restart();
    for seller in [&mut *first, &mut *second] {
        seller.wins(4);
        seller.bill_all();
    }
    first.kill();
    first.start();
    first.wins(1);
    first.bill_all();
    // Until the budget is used up, except for what the pacer's crash has frozen.
    for seller in [&mut *first, &mut *second] {
        until("nothing is left for it", || (0..20).all(|_| !seller.auction()));
        seller.bill_all();
    }
    let billed = first.billed + second.billed;
    assert!(billed <= BUDGET_NANOS, "{billed}");
    assert!(billed > BUDGET_NANOS / 3, "{billed} proves nothing");
    until("the ledger has all that is billed", || pacer.spend("acme-spring") >= billed);
    for seller in [&*first, &*second] {
        until("all is forwarded", || seller.behind() == 0);
    }
    assert_eq!(pacer.spend("acme-spring"), billed);
    second.life.take().expect("it runs").stop();
    verify(second.folder.path());
}

/// The record of an exchange can be recomputed: it has the pacer's refusals.
fn verify(folder: &Path) {
    for arguments in [&["log", "replay"][..], &["log", "verify", "--deep"]] {
        let mut command = vickrey(arguments);
        let output = command.arg("--dir").arg(folder.join("record")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}
