//! The dispatcher on a simulated clock: the test answers its calls and writes its log.

mod settling;

use eventlog::disk::testing::FaultDisk;
use exchange_core::delivery::{
    BestEffort, DeliveryPolicy, ForwardedDevice, JournalRecord, JournalReplay,
};
use runtime::process::unix_ms;
use tokio::task::{LocalSet, yield_now};
use tokio::time::advance;

use super::*;
use crate::notices::ServerAnswer;
use crate::notices::journal::tests::LogByHand;
use crate::notices::settlements::NoBudgets;

const LINGER: Duration = Duration::from_millis(10);

struct Bench {
    counter: NoticeSender,
    calls: mpsc::UnboundedReceiver<NoticeCall>,
    log: Option<LogByHand>,
}

impl Bench {
    fn open() -> Self {
        Self::on(LogByHand::open(&FaultDisk::new(1)), DeliveryPolicy::default())
    }

    fn on(log: (LogByHand, NoticeJournal), policy: DeliveryPolicy) -> Self {
        Self::with(log, policy, Box::new(NoBudgets))
    }

    /// `settlements` has replayed the log.
    fn with(
        (log, journal): (LogByHand, NoticeJournal),
        policy: DeliveryPolicy,
        settlements: Box<dyn Settlements>,
    ) -> Self {
        let (orders, orders_given) = mpsc::channel(COMMANDS_MAX);
        let (fetches, fetches_given) = mpsc::channel(COMMANDS_MAX);
        let (events, happened) = mpsc::unbounded_channel();
        let (made, calls) = mpsc::unbounded_channel();
        let clock = DeliveryClock::start();
        let mut replay = JournalReplay::new(policy, unix_ms());
        log.read(settlements.applied_seq(), |sequence, record| {
            replay.record(sequence, record).expect("a record of ours");
        });
        let notices = NoticeLoop {
            delivery: replay.finish(clock.now()),
            call: move |call| drop(made.send(call)),
            journal,
            settlements,
            reached: 0,
            events,
            waiting: HashMap::new(),
            calls: 0,
            relayed: RelayedTokens::default(),
            times: NoticeTiming { clock, linger: LINGER, answer_timeout: Duration::from_secs(9) },
            monitor: NoticeMonitor::default(),
        };
        let given = NoticeInbox { commands: orders_given, fetches: fetches_given };
        tokio::task::spawn_local(notices.run(given, happened));
        Self { counter: NoticeSender { commands: orders, fetches }, calls, log: Some(log) }
    }

    fn submit(&self, dsp: &str, count: usize) {
        for _ in 0..count {
            let taken =
                self.counter.send(NoticeCommand::Submit(BestEffort::Win, notice(dsp), None));
            assert!(taken, "there is room");
        }
    }

    fn beacon(&self, dsp: &str, number: u8) -> oneshot::Receiver<BeaconAnswer> {
        let (answer, acknowledged) = oneshot::channel();
        let (id, expires_ms) = (TokenId([number; TokenId::BYTES]), unix_ms() + 3_600_000);
        let (notice, reservation) = (Some(notice(dsp)), None);
        let beacon = Beacon { call: 0, id, expires_ms, notice, reservation };
        assert!(
            self.counter.send(NoticeCommand::Beacon(Box::new(beacon), answer)),
            "there is room"
        );
        acknowledged
    }

    fn log(&mut self) -> &mut LogByHand {
        self.log.as_mut().expect("it is open")
    }

    /// A turn of the dispatcher, one of the log, and the dispatcher's reaction.
    async fn turns(&mut self) -> Vec<NoticeCall> {
        settle().await;
        advance(LINGER).await;
        let mut made = self.made().await;
        self.log().write();
        settle().await;
        advance(LINGER).await;
        made.extend(self.made().await);
        made
    }

    /// The calls that it makes without time passing.
    async fn made(&mut self) -> Vec<NoticeCall> {
        let began = Instant::now();
        settle().await;
        assert_eq!(Instant::now(), began, "the clock stands");
        std::iter::from_fn(|| self.calls.try_recv().ok()).collect()
    }
}

/// Runs all that does not wait for time.
async fn settle() {
    for _ in 0..64 {
        yield_now().await;
    }
}

fn notice(dsp: &str) -> Notice {
    let url = format!("http://{dsp}.example/win");
    Notice::new(dsp.into(), url, ForwardedDevice::default()).expect("a notice")
}

fn answer(call: NoticeCall, status: u16) {
    let answered = ServerAnswer { status, node: None, body: Vec::new() };
    call.waiter.tell(Ok(answered));
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

/// Otherwise a DSP would get only as many notices per turn as may be in flight.
#[tokio::test(start_paused = true)]
async fn what_waits_for_calls_to_end_goes_as_they_end() {
    let test = async {
        let at_once = DeliveryPolicy::default().in_flight_per_dsp;
        let mut bench = Bench::open();
        bench.submit("a", 4 * at_once);
        let mut under_way = bench.made().await;
        assert_eq!(under_way.len(), at_once);
        for sent in at_once..4 * at_once {
            answer(under_way.remove(0), 200);
            under_way.extend(bench.made().await);
            assert_eq!(under_way.len(), at_once, "after {sent} others, no time has gone by");
        }
        // None waits for another now: new ones gather again.
        answer(under_way.remove(0), 200);
        assert!(bench.made().await.is_empty());
        bench.submit("a", 1);
        assert!(bench.made().await.is_empty());
        advance(LINGER).await;
        assert_eq!(bench.made().await.len(), 1);
    };
    LocalSet::new().run_until(test).await;
}

/// Its notices wait for a retry, not for calls to end.
#[tokio::test(start_paused = true)]
async fn a_dsp_that_fails_keeps_nobody_from_gathering() {
    let test = async {
        let mut bench = Bench::open();
        bench.submit("down", 4);
        let mut failing = bench.made().await;
        assert_eq!(failing.len(), 4);
        // First with a call in flight, then with none and only probed.
        for failures in [1, 3] {
            failing.drain(..failures).for_each(|call| answer(call, 500));
            advance(LINGER).await;
            assert!(bench.made().await.is_empty(), "{failures}: not yet tried again");
            bench.submit("well", 1);
            assert!(bench.made().await.is_empty(), "{failures}: it waits for more");
            advance(LINGER).await;
            let mut made = bench.made().await;
            assert_eq!(made.len(), 1, "{failures}");
            assert_eq!(made[0].request.host.host, "well.example");
            answer(made.remove(0), 200);
            advance(LINGER).await;
            assert!(bench.made().await.is_empty(), "{failures}: nothing else is due");
        }
    };
    LocalSet::new().run_until(test).await;
}

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
            let fetch = MarkupFetch { notice: notice("b"), body_max: 9, once: None, done };
            assert!(bench.counter.fetch(fetch), "there is room");
            let made = bench.made().await;
            let wanted: Vec<_> = made.iter().map(|call| call.body_max).collect();
            assert_eq!(wanted, [9], "{is_gathering}");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_beacon_is_promised_what_the_log_holds() {
    let test = async {
        let mut bench = Bench::open();
        let mut acknowledged = bench.beacon("a", 7);
        assert!(bench.made().await.is_empty(), "not before it is durable");
        assert_eq!(acknowledged.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        // It waits for the disk, not for calls to end, so others gather meanwhile.
        bench.submit("b", 1);
        assert!(bench.made().await.is_empty());
        advance(LINGER).await;
        let others = bench.made().await;
        assert_eq!(others.len(), 1);
        bench.log().write();
        settle().await;
        advance(LINGER).await;
        assert_eq!(bench.made().await.len(), 1);
        assert_eq!(acknowledged.try_recv(), Ok(Ok(false)));
    };
    LocalSet::new().run_until(test).await;
}

/// When the log thread ends, neither earlier nor later callers may wait for ever.
#[tokio::test(start_paused = true)]
async fn without_a_log_beacons_are_refused() {
    let test = async {
        let mut bench = Bench::open();
        let before = bench.beacon("a", 7);
        assert!(bench.made().await.is_empty());
        drop(bench.log.take());
        settle().await;
        advance(LINGER).await;
        let after = bench.beacon("a", 8);
        settle().await;
        advance(LINGER).await;
        assert!(bench.made().await.is_empty());
        for mut acknowledged in [before, after] {
            assert_eq!(acknowledged.try_recv(), Ok(Err(BeaconRefusal::Journal)));
        }
    };
    LocalSet::new().run_until(test).await;
}

/// Callers do not wait for a failed disk; records already taken are billed once it recovers.
#[tokio::test(start_paused = true)]
async fn a_log_that_fails_refuses_and_what_it_had_taken_is_billed_once() {
    let test = async {
        let mut bench = Bench::open();
        let refused = || Ok(Err(BeaconRefusal::Journal));
        let mut first = bench.beacon("a", 7);
        assert!(bench.made().await.is_empty(), "it is handed over");
        bench.log().fail(true);
        assert!(bench.turns().await.is_empty());
        assert_eq!(first.try_recv(), refused());
        for round in 0..3 {
            let (mut again, mut other) = (bench.beacon("a", 7), bench.beacon("a", 8));
            assert!(bench.turns().await.is_empty(), "{round}");
            assert_eq!((again.try_recv(), other.try_recv()), (refused(), refused()), "{round}");
        }
        bench.log().fail(false);
        let billed = bench.turns().await;
        assert_eq!(billed.len(), 1, "as it had been accepted");
        for (number, want) in [(7, Ok(Ok(false))), (7, Ok(Ok(true))), (8, Ok(Ok(false)))] {
            let mut acknowledged = bench.beacon("b", number);
            let more = bench.turns().await.len();
            assert_eq!((acknowledged.try_recv(), more), (want, usize::from(number == 8)));
        }
    };
    LocalSet::new().run_until(test).await;
}

/// Among many other records, notices become durable as fast, unneeded segments go, and a start
/// reads little.
#[tokio::test(start_paused = true)]
async fn the_lane_is_shared_with_others_under_load() {
    let test = async {
        let policy =
            DeliveryPolicy { checkpoint_span: 100, journal_span: 300, ..DeliveryPolicy::default() };
        let mut bench = Bench::on(LogByHand::open(&FaultDisk::new(5)), policy);
        for number in 0..100 {
            let mut acknowledged = bench.beacon("a", number);
            bench.log().others(40);
            for call in bench.turns().await {
                answer(call, 204);
            }
            assert_eq!(acknowledged.try_recv(), Ok(Ok(false)), "{number}");
        }
        bench.turns().await;
        let segments = eventlog::segments(&bench.log().disk).unwrap();
        let (first, last) = (segments[0].first, segments[segments.len() - 1].first);
        assert!(4_000 < last && last - first < 1_500, "{first} to {last}");
        let (mut shown, mut checkpoints) = (Vec::new(), 0);
        let log = bench.log.take().expect("it is open");
        log.read(u64::MAX, |sequence, record| {
            shown.push(sequence);
            let record = JournalRecord::decode(record).expect("a record of ours");
            checkpoints += usize::from(matches!(record, JournalRecord::Checkpoint { .. }));
        });
        assert!(checkpoints > 0 && shown[0] + 1_000 > last, "from {} to {last}", shown[0]);
        // Another dispatcher knows all of them from the log.
        let mut bench = Bench::on(log.restart(), policy);
        for number in 0..100 {
            let mut acknowledged = bench.beacon("a", number);
            assert!(bench.turns().await.is_empty(), "{number}");
            assert_eq!(acknowledged.try_recv(), Ok(Ok(true)), "{number}");
        }
    };
    LocalSet::new().run_until(test).await;
}

/// Only others extend the log, and the dispatcher still notices that it needs nothing.
#[tokio::test(start_paused = true)]
async fn an_idle_office_holds_no_segments() {
    let test = async {
        let mut bench = Bench::open();
        let first = |log: &LogByHand| eventlog::segments(&log.disk).unwrap()[0].first;
        for _ in 0..20 {
            bench.log().others(20);
            bench.log().write();
        }
        assert_eq!(first(bench.log()), 1);
        settle().await;
        advance(LOG_CHECKED_EVERY).await;
        settle().await;
        bench.log().write();
        assert!(first(bench.log()) > 300, "{}", first(bench.log()));
    };
    LocalSet::new().run_until(test).await;
}

#[test]
fn a_clock_that_is_set_repeats_no_notice() {
    let (id, expires_ms) = (TokenId([1; TokenId::BYTES]), 10_000);
    let mut relayed = RelayedTokens::default();
    let mut check = |passed_ms: u64, unix_ms: u64, want: bool| {
        let tick = Tick::ZERO.after(Duration::from_millis(passed_ms));
        let got = relayed.is_first(id, expires_ms, DeliveryTime { tick, unix_ms });
        assert_eq!(got, want, "after {passed_ms} ms, at {unix_ms}");
    };
    check(0, 5_000, true);
    check(1, 5_001, false);
    // A day ahead, and back.
    check(2, 86_405_000, false);
    check(3, 5_003, false);
    // It expires by ticks; a wall clock set back still accepts it.
    check(6_000, 4_000, false);
    check(11_999, 9_999, false);
    check(12_000, 10_000, true);
}
