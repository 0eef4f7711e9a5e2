//! Bills while the dispatcher takes them, refuses them, or is gone, on the test's clock.

use pacer_core::shard::token::{TOKEN_BYTES, TokenText};
use tokio::sync::mpsc;
use units::Currency;

use super::*;

struct Bench {
    billing: BillingQueue,
    orders: mpsc::Receiver<NoticeCommand>,
    metrics: BudgetMetrics,
}

impl Bench {
    /// `room` is the dispatcher's, `max` the queue's.
    fn new(room: usize, max: usize) -> Self {
        let (dispatcher, orders) = NoticeSender::by_hand(room);
        let billing = BillingQueue { max, ..BillingQueue::new(dispatcher) };
        Self { billing, orders, metrics: BudgetMetrics::default() }
    }

    fn add(&self, number: u8, now_ms: u64) {
        let token = TokenText::from_bytes(&[number; TOKEN_BYTES]);
        let reservation = Reservation { token, currency: Currency::USD };
        let id = TokenId([number; TokenId::BYTES]);
        let billed = DirectBill { id, reservation: Some(reservation), notice: None };
        self.billing.add(billed, now_ms, &self.metrics);
    }

    /// The orders so far: each number, which its reservation shares, and its answer.
    fn orders(&mut self) -> Vec<(u8, oneshot::Sender<BeaconAnswer>)> {
        let take = |order| {
            let NoticeCommand::Beacon(beacon, answer) = order else { panic!("{order:?}") };
            let reservation = beacon.reservation.expect("it settles something");
            assert_eq!(reservation.token.to_bytes(), [beacon.id.0[0]; TOKEN_BYTES]);
            assert!(beacon.notice.is_none(), "nobody is told");
            (beacon.id.0[0], answer)
        };
        std::iter::from_fn(|| self.orders.try_recv().ok()).map(take).collect()
    }

    fn turn(&self, now_ms: u64) {
        self.billing.turn(now_ms, &self.metrics);
    }

    #[track_caller]
    fn check(&self, waiting: usize, lost: u64) {
        let got = (self.billing.waiting.borrow().len(), self.metrics.unbooked.value());
        assert_eq!(got, (waiting, lost));
    }
}

#[test]
fn what_is_durable_is_booked_whoever_asked_for_it() {
    let mut bench = Bench::new(8, 8);
    bench.add(1, 0);
    bench.add(2, 0);
    let orders = bench.orders();
    bench.turn(1);
    bench.check(2, 0);
    assert!(bench.orders().is_empty(), "the dispatcher has not answered");
    for ((number, answer), duplicate) in orders.into_iter().zip([false, true]) {
        answer.send(Ok(duplicate)).expect("it waits");
        bench.turn(2);
        bench.check(2 - usize::from(number), 0);
    }
}

#[test]
fn what_is_refused_for_now_is_tried_until_it_expires() {
    for refusal in [BeaconRefusal::Busy, BeaconRefusal::Journal] {
        let mut bench = Bench::new(8, 8);
        bench.add(1, 5);
        for now_ms in [100, 200, BOOKING_TIMEOUT_MS + 4] {
            let (number, answer) = bench.orders().pop().expect("one");
            assert_eq!(number, 1);
            answer.send(Err(refusal)).expect("it waits");
            bench.turn(now_ms);
            bench.check(1, 0);
        }
        let orders = bench.orders();
        assert_eq!(orders.len(), 1);
        bench.turn(BOOKING_TIMEOUT_MS + 5);
        bench.check(0, 1);
    }
}

#[test]
fn an_office_that_takes_nothing_is_not_asked_for_ever() {
    let mut bench = Bench::new(1, 8);
    bench.add(1, 0);
    bench.add(2, 0);
    bench.turn(BOOKING_TIMEOUT_MS - 1);
    bench.check(2, 0);
    let mut orders = bench.orders();
    assert_eq!(orders.len(), 1, "it has room for one");
    bench.turn(BOOKING_TIMEOUT_MS - 1);
    orders.extend(bench.orders());
    assert_eq!(orders.len(), 2, "now for the other, too");
    bench.turn(BOOKING_TIMEOUT_MS);
    bench.check(0, 2);
}

#[test]
fn what_cannot_be_booked_is_counted() {
    let mut bench = Bench::new(8, 8);
    bench.add(1, 0);
    bench.add(2, 0);
    let mut orders = bench.orders();
    orders.pop();
    bench.turn(1);
    bench.check(1, 1);
    let (_, answer) = orders.pop().expect("the other");
    answer.send(Err(BeaconRefusal::Expired)).expect("it waits");
    bench.turn(2);
    bench.check(0, 2);
}

#[test]
fn a_shard_has_room_for_so_many() {
    let mut bench = Bench::new(8, 2);
    (1..=3).for_each(|number| bench.add(number, 0));
    bench.check(2, 1);
    assert_eq!(bench.orders().len(), 2);
}
