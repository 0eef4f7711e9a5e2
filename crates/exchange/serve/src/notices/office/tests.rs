//! The office on a simulated clock: its calls go to the test, which answers them.

use exchange_core::delivery::{BestEffort, Forwarded, Policy, Replay};
use tokio::task::{LocalSet, yield_now};
use tokio::time::advance;

use super::*;

const LINGER: Duration = Duration::from_millis(10);

/// An office and all that it sees of the world.
struct Bench {
    counter: Counter,
    calls: mpsc::UnboundedReceiver<Call>,
    journal: std_mpsc::Receiver<JournalOrder>,
    events: mpsc::UnboundedSender<Event>,
}

impl Bench {
    /// Opened, on this thread.
    fn open() -> Self {
        let (orders, orders_given) = mpsc::channel(ORDERS_MAX);
        let (fetches, fetches_given) = mpsc::channel(ORDERS_MAX);
        let (events, happened) = mpsc::unbounded_channel();
        let (made, calls) = mpsc::unbounded_channel();
        let (journal_orders, journal) = std_mpsc::channel();
        let clock = Clock::start();
        let desk = Desk {
            delivery: Replay::new(Policy::default(), unix_ms()).finish(clock.now()),
            call: move |call| drop(made.send(call)),
            journal: journal_orders,
            events: events.clone(),
            waiting: HashMap::new(),
            calls: 0,
            safe_before: 0,
            relayed: Relayed::default(),
            times: Times { clock, linger: LINGER, answer_timeout: Duration::from_secs(9) },
            shown: Window::default(),
        };
        let given = Given { orders: orders_given, fetches: fetches_given };
        tokio::task::spawn_local(desk.work(given, happened));
        Self { counter: Counter { orders, fetches }, calls, journal, events }
    }

    /// So many win notices of a DSP.
    fn submit(&self, dsp: &str, count: usize) {
        for _ in 0..count {
            let taken = self.counter.order(Order::Submit(BestEffort::Win, notice(dsp)));
            assert!(taken, "there is room");
        }
    }

    /// A beacon is called.
    fn beacon(&self, dsp: &str) -> oneshot::Receiver<Acknowledged> {
        let (answer, acknowledged) = oneshot::channel();
        let (id, expires_ms) = (TokenId([7; TokenId::BYTES]), unix_ms() + 3_600_000);
        let beacon = Beacon { call: 0, id, expires_ms, notice: notice(dsp) };
        assert!(self.counter.order(Order::Beacon(Box::new(beacon), answer)), "there is room");
        acknowledged
    }

    /// The calls that it makes now, and without time going by.
    async fn made(&mut self) -> Vec<Call> {
        let began = Instant::now();
        settle().await;
        assert_eq!(Instant::now(), began, "the clock stands");
        std::iter::from_fn(|| self.calls.try_recv().ok()).collect()
    }
}

/// Lets all happen that does not wait for time to go by.
async fn settle() {
    for _ in 0..64 {
        yield_now().await;
    }
}

fn notice(dsp: &str) -> Notice {
    let url = format!("http://{dsp}.example/win");
    Notice::new(dsp.into(), url, Forwarded::default()).expect("a notice")
}

fn answer(call: Call, status: u16) {
    let answered = Answered { status, body: Vec::new() };
    call.done.send(Ok(answered)).expect("somebody waits");
}

#[tokio::test(start_paused = true)]
async fn what_comes_within_a_turn_is_sent_together() {
    let test = async {
        let mut bench = Bench::open();
        bench.submit("a", 1);
        let mut under_way = bench.made().await;
        assert_eq!(under_way.len(), 1, "the first waits for nobody");
        for round in 0..3 {
            bench.submit("a", 1);
            assert!(bench.made().await.is_empty(), "{round}: it waits for more");
            advance(LINGER / 2).await;
            bench.submit("b", 2);
            assert!(bench.made().await.is_empty(), "{round}: it waits for more");
            advance(LINGER).await;
            let made = bench.made().await;
            assert_eq!(made.len(), 3, "{round}");
            under_way.extend(made);
        }
    };
    LocalSet::new().run_until(test).await;
}

/// Else a DSP would be told of so many as may be under way, and no more, in each turn.
#[tokio::test(start_paused = true)]
async fn what_waits_for_calls_to_end_goes_as_they_end() {
    let test = async {
        let at_once = Policy::default().in_flight_per_dsp;
        let mut bench = Bench::open();
        bench.submit("a", 4 * at_once);
        let mut under_way = bench.made().await;
        assert_eq!(under_way.len(), at_once);
        for sent in at_once..4 * at_once {
            answer(under_way.remove(0), 200);
            under_way.extend(bench.made().await);
            assert_eq!(under_way.len(), at_once, "after {sent} others, no time has gone by");
        }
        // None waits for another any more: what comes now gathers again.
        answer(under_way.remove(0), 200);
        assert!(bench.made().await.is_empty());
        bench.submit("a", 1);
        assert!(bench.made().await.is_empty());
        advance(LINGER).await;
        assert_eq!(bench.made().await.len(), 1);
    };
    LocalSet::new().run_until(test).await;
}

/// Its notices wait for a retry, and not for calls to end.
#[tokio::test(start_paused = true)]
async fn a_dsp_that_fails_keeps_nobody_from_gathering() {
    let test = async {
        let mut bench = Bench::open();
        bench.submit("down", 4);
        let mut failing = bench.made().await;
        assert_eq!(failing.len(), 4);
        // First with a call under way, then with none, and only probed.
        for failures in [1, 3] {
            failing.drain(..failures).for_each(|call| answer(call, 500));
            advance(LINGER).await;
            assert!(bench.made().await.is_empty(), "{failures}: not yet tried again");
            bench.submit("well", 1);
            assert!(bench.made().await.is_empty(), "{failures}: it waits for more");
            advance(LINGER).await;
            let mut made = bench.made().await;
            assert_eq!(made.len(), 1, "{failures}");
            assert_eq!(made[0].origin.host, "well.example");
            answer(made.remove(0), 200);
            advance(LINGER).await;
            assert!(bench.made().await.is_empty(), "{failures}: nothing else is due");
        }
    };
    LocalSet::new().run_until(test).await;
}

/// An auction waits for it.
#[tokio::test(start_paused = true)]
async fn an_ad_is_asked_for_at_once() {
    let test = async {
        let mut bench = Bench::open();
        bench.submit("a", 1);
        assert_eq!(bench.made().await.len(), 1);
        for is_gathering in [false, true] {
            if is_gathering {
                bench.submit("a", 1);
                assert!(bench.made().await.is_empty());
            }
            let (done, _body) = oneshot::channel();
            let fetch = Fetch { notice: notice("b"), body_max: 9, once: None, done };
            assert!(bench.counter.fetch(fetch), "there is room");
            let made = bench.made().await;
            let wanted: Vec<_> = made.iter().map(|call| call.body_max).collect();
            assert_eq!(wanted, [9], "{is_gathering}");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_beacon_is_promised_what_the_journal_holds() {
    let test = async {
        let mut bench = Bench::open();
        let mut acknowledged = bench.beacon("a");
        assert!(bench.made().await.is_empty(), "not before it is durable");
        assert_eq!(acknowledged.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        // It waits for the disk, and not for calls to end: others gather meanwhile.
        bench.submit("b", 1);
        assert!(bench.made().await.is_empty());
        advance(LINGER).await;
        let others = bench.made().await;
        assert_eq!(others.len(), 1);
        let Ok(JournalOrder::Append(entries)) = bench.journal.try_recv() else {
            panic!("a record is appended")
        };
        let durable = entries.iter().map(|entry| (entry.ticket, 1)).collect();
        bench.events.send(Event::JournalCommitted(durable)).unwrap();
        advance(LINGER).await;
        assert_eq!(bench.made().await.len(), 1);
        assert_eq!(acknowledged.try_recv(), Ok(Ok(false)));
    };
    LocalSet::new().run_until(test).await;
}

/// A panic of the journal's must not leave browsers waiting.
#[tokio::test(start_paused = true)]
async fn without_a_journal_beacons_are_refused() {
    let test = async {
        let mut bench = Bench::open();
        drop(std::mem::replace(&mut bench.journal, std_mpsc::channel().1));
        let mut acknowledged = bench.beacon("a");
        settle().await;
        advance(LINGER).await;
        assert!(bench.made().await.is_empty());
        assert_eq!(acknowledged.try_recv(), Ok(Err(Refusal::Journal)));
    };
    LocalSet::new().run_until(test).await;
}
