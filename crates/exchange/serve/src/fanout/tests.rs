//! Races between an inbox, its close and its connections, which real sockets show only by chance.

use std::cell::Cell;
use std::io::{IoSlice, Read as _, Write as _};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use exchange_core::record::CallOutcome;
use exchange_core::{Auction, outbound};
use openrtb::parse_request;
use runtime::shutdown::Shutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;
use tokio::time::Instant;
use units::Ppm;

use super::connection::call::CallMessage;
use super::connection::{ConnectionCall, DspConnection};
use super::health::ConnectAttempt;
use super::inbox::{CallTask, Inbox};
use super::sockets::reactor::ReadBuffers;
use super::sockets::transport::Transport;
use super::{Addresses, DspPool, DspReactor, DspRequest, Endpoint, PoolLimits, ask_all};
use crate::config::ExchangeConfig;

fn config(url: &str) -> ExchangeConfig {
    let text = format!("[exchange]\n[[dsp]]\nid = \"d\"\nurl = \"{url}\"\n");
    runtime::config::parse("test.toml", &text, ExchangeConfig::read).unwrap().unwrap()
}

fn pool() -> Rc<DspPool> {
    pool_to("http://127.0.0.1:1/bid")
}

fn pool_to(url: &str) -> Rc<DspPool> {
    pool_of(url, usize::MAX)
}

fn pool_of(url: &str, sockets_max: usize) -> Rc<DspPool> {
    let config = config(url);
    let endpoint = Arc::new(Endpoint::new(&config.endpoints[0].options, Addresses::default()));
    let shutdown = Shutdown::new(Duration::ZERO);
    let reactor = DspReactor::start(Arc::default(), sockets_max, &shutdown).unwrap();
    Rc::new(DspPool::new(endpoint, config.pool, reactor, Arc::default()))
}

fn inbox(wait_until: Instant) -> Rc<Inbox<DspConnection>> {
    Rc::new(Inbox::new([(wait_until, None)].into_iter(), Vec::new()))
}

fn with_connection(test: impl AsyncFnOnce(Rc<DspPool>, Rc<DspConnection>)) {
    with_peer(async |pool, connection, _| test(pool, connection).await);
}

/// Also passes the DSP's end of the connection.
fn with_peer(test: impl AsyncFnOnce(Rc<DspPool>, Rc<DspConnection>, std::net::TcpStream)) {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let pool = pool();
        let socket = mio::net::TcpStream::from_std(stream.into_std().unwrap());
        let permit = pool.reactor.socket().unwrap();
        let attempt = ConnectAttempt { address, began: Instant::now() };
        let connection = pool.start(Transport::plain(socket, false, permit), 0, attempt).unwrap();
        let peer = listener.accept().await.unwrap().0.into_std().unwrap();
        test(pool, connection, peer).await;
    });
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(LocalSet::new().run_until(test));
}

fn call(inbox: &Rc<Inbox<DspConnection>>) -> ConnectionCall {
    let now = Instant::now();
    ConnectionCall {
        inbox: Rc::clone(inbox),
        slot: 0,
        sent_at: now,
        drain_until: now,
        permit: None,
    }
}

/// An empty request.
struct EmptyMessage;

impl CallMessage for EmptyMessage {
    fn http1<T>(&self, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        write(&[])
    }

    fn http2<T>(&self, write: impl FnOnce(&[(&str, &str)], &[u8]) -> T) -> T {
        write(&[], &[])
    }

    fn body_len(&self) -> usize {
        0
    }
}

/// The idle connection, taken from the pool.
fn idle(pool: &DspPool) -> Option<Rc<DspConnection>> {
    pool.available(&EmptyMessage)
}

#[test]
fn a_closed_inbox_takes_nothing() {
    let inbox = inbox(Instant::now() + Duration::from_secs(60));
    assert_eq!(inbox.close().calls, [CallOutcome::Unsent]);
    assert!(!inbox.deliver(0, CallOutcome::Answered, b"{}"));
    assert!(!inbox.retry(0, &mut None));
    assert!(!inbox.is_waiting(0));
    assert!(inbox.close().calls.is_empty());
}

/// On a busy shard the answer is read, and the auction's task runs, after the deadline.
#[test]
fn an_answer_is_late_once_the_auction_has_given_it_up() {
    let past = Instant::now();
    let in_time = inbox(past);
    assert!(in_time.deliver(0, CallOutcome::Answered, b"{}"));
    assert_eq!(in_time.expire(past), None);
    let outcomes = in_time.close();
    assert_eq!((outcomes.calls[0], outcomes.body(0)), (CallOutcome::Answered, &b"{}"[..]));

    let late = inbox(past);
    assert_eq!(late.expire(past), None);
    assert!(!late.deliver(0, CallOutcome::Answered, b"{}"));
    let outcomes = late.close();
    assert_eq!((outcomes.calls[0], outcomes.body(0)), (CallOutcome::Unsent, &b""[..]));
}

/// A delay before the call is sent does not count against the DSP.
#[test]
fn the_time_given_to_a_dsp_begins_when_its_call_goes_out() {
    let now = Instant::now();
    let calls =
        [(now + Duration::from_millis(250), None), (now + Duration::from_millis(250), None)];
    let inbox = Inbox::<DspConnection>::new(calls.into_iter(), Vec::new());
    inbox.mark_sent(0, now + Duration::from_millis(200), 40);
    let outcomes = inbox.close();
    assert_eq!(outcomes.calls, [CallOutcome::Late, CallOutcome::Unsent]);
    assert_eq!(outcomes.time_given(0), Some(Duration::from_millis(50)));
    assert_eq!(outcomes.time_given(1), None, "it never did");
}

#[test]
fn a_call_is_answered_or_retried_once() {
    let inbox = inbox(Instant::now() + Duration::from_secs(60));
    assert!(inbox.retry(0, &mut None));
    assert!(!inbox.retry(0, &mut None));
    assert!(matches!(inbox.next_task(), Some(CallTask::Retry { slot: 0 })));
    assert!(inbox.deliver(0, CallOutcome::NoBid, b""));
    assert!(!inbox.deliver(0, CallOutcome::Answered, b"{}"));
    assert!(inbox.is_complete());
    assert_eq!(inbox.close().calls, [CallOutcome::NoBid]);
}

/// A request on it would wait in vain.
#[test]
fn a_closed_connection_is_neither_used_nor_kept() {
    with_connection(async |pool, connection| {
        let inbox = inbox(Instant::now() + Duration::from_secs(60));
        pool.close_connection(&connection);
        assert!(pool.send(&connection, call(&inbox), &EmptyMessage).is_err());
        assert!(inbox.is_waiting(0), "another connection may serve it");
        pool.release(connection, Instant::now());
        assert!(idle(&pool).is_none());
    });
}

/// Opened for a call that had ended by then: idle since, as if it had carried an answer.
#[test]
fn a_connection_that_has_rested_may_have_been_closed_by_its_dsp() {
    with_connection(async |pool, connection| {
        assert!(!connection.is_reused());
        pool.release(Rc::clone(&connection), Instant::now());
        assert!(connection.is_reused());
        let idle = idle(&pool).unwrap();
        let inbox = inbox(Instant::now() + Duration::from_secs(60));
        assert!(pool.send(&idle, call(&inbox), &EmptyMessage).is_ok());
        pool.close_connection(&idle);
        assert_eq!(inbox.close().calls, [CallOutcome::Reset]);
    });
}

/// A few are usual, because heads and bodies arrive apart.
#[test]
fn small_reads_are_accepted_up_to_their_limit() {
    with_peer(async |pool, connection, mut peer| {
        pool.limit(PoolLimits { small_reads_max: 3, ..pool.limits() });
        let inbox = inbox(Instant::now() + Duration::from_secs(60));
        assert!(pool.send(&connection, call(&inbox), &EmptyMessage).is_ok());
        let mut buffers = ReadBuffers::default();
        let mut come = |bytes: &[u8]| {
            peer.write_all(bytes).unwrap();
            pool.read(&connection, &mut buffers, Instant::now(), false);
        };
        come(b"HTTP/1.1 200 OK\r\n");
        come(&[b"x: ".as_slice(), &[b'y'; 300], b"\r\n"].concat());
        come(b"content-length: 9\r\n\r\n");
        come(b"a");
        assert!(inbox.is_waiting(0), "three small reads; a large one does not count");
        come(b"b");
        assert!(connection.http.is_closed());
        assert_eq!(inbox.close().calls, [CallOutcome::Trickle]);
    });
}

#[test]
fn a_retired_pool_keeps_nothing() {
    with_connection(async |pool, connection| {
        pool.release(connection, Instant::now());
        pool.retire();
        assert!(idle(&pool).is_none(), "what was idle is closed");
    });
    with_connection(async |pool, connection| {
        pool.retire();
        assert!(!connection.http.is_closed(), "what is under way ends first");
        pool.release(Rc::clone(&connection), Instant::now());
        assert!(connection.http.is_closed());
        assert!(idle(&pool).is_none());
    });
}

#[test]
fn connections_are_opened_a_few_at_a_time() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pool = pool();
        pool.limit(PoolLimits { opening_max: 2, connections_max: 5, ..pool.limits() });
        pool.endpoint().addresses.set(vec![listener.local_addr().unwrap()]);
        let later = Instant::now() + Duration::from_secs(60);
        let inboxes: Vec<_> = (0..6).map(|_| inbox(later)).collect();
        let seek = |inbox| pool.seek(Instant::now(), inbox, 0, &EmptyMessage);
        let sought: Vec<_> = inboxes.iter().map(seek).collect();
        assert_eq!(sought, [Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), Err(CallOutcome::Saturated)]);
        assert_eq!(pool.opening.get(), 2);
        // The third call has ended; its connection goes to another.
        inboxes[2].close();
        for waits in [0, 1, 3, 4] {
            std::future::poll_fn(|cx| inboxes[waits].poll(cx)).await;
            assert!(matches!(inboxes[waits].next_task(), Some(CallTask::Send { .. })));
        }
        assert_eq!((pool.opening.get(), idle(&pool).is_none()), (0, true));
    });
}

/// As if the process had no descriptor left.
#[test]
fn a_shard_opens_no_more_sockets_than_it_may() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pool = pool_of("http://127.0.0.1:1/bid", 1);
        pool.endpoint().addresses.set(vec![listener.local_addr().unwrap()]);
        let later = Instant::now() + Duration::from_secs(60);
        let sought = [inbox(later), inbox(later)];
        for inbox in &sought {
            assert_eq!(pool.seek(Instant::now(), inbox, 0, &EmptyMessage), Ok(()));
        }
        // One call gets the connection, the other fails.
        for inbox in &sought {
            std::future::poll_fn(|cx| inbox.poll(cx)).await;
        }
        assert_eq!(pool.metrics().opened.value(), 1);
        assert!(pool.reactor.socket().is_err());
        pool.close();
        drop(sought);
        tokio::task::yield_now().await;
        assert!(pool.reactor.socket().is_ok(), "a socket that is closed may be opened again");
    });
}

#[test]
fn a_handshake_that_nobody_waits_for_is_not_begun() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listener = listener.into_std().unwrap();
        let pool = pool_to("https://127.0.0.1:1/bid");
        pool.endpoint().addresses.set(vec![listener.local_addr().unwrap()]);
        let handshakes = &pool.reactor.handshakes;
        let busy = handshakes.turn(Ppm::ONE).await;
        handshakes.end(busy, Duration::from_millis(50));
        let inbox = inbox(Instant::now() + Duration::from_secs(60));
        assert_eq!(pool.seek(Instant::now(), &inbox, 0, &EmptyMessage), Ok(()));
        assert_eq!(pool.opening.get(), 1);
        inbox.close();
        while pool.opening.get() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let error = listener.accept().expect_err("nobody comes");
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        assert!(pool.seek(Instant::now(), &inbox, 0, &EmptyMessage).is_ok(), "no fault of the DSP");
    });
}

static REQUEST: &str = r#"{"id":"1","imp":[{"id":"1","banner":{"w":300,"h":250}}],"tmax":1000}"#;

fn dsp_request(pool: &Rc<DspPool>) -> DspRequest<'_> {
    DspRequest {
        pool,
        imps: 1,
        deals: 0,
        tmax_ms: 900,
        buyeruid: None,
        bidder: None,
        is_limited: false,
        wait_until: Instant::now() + Duration::from_millis(900),
        permit: Cell::new(None),
    }
}

#[test]
fn a_call_that_waited_for_its_connection_leaves_its_dsp_less_time() {
    let request = parse_request(REQUEST).unwrap();
    let config = config("http://127.0.0.1:1/bid");
    with_peer(async |pool, connection, mut peer| {
        let auction = Auction::new("1", &request, &config.market).unwrap();
        let outbound = outbound(&auction, REQUEST);
        pool.limit(PoolLimits { opening_max: 0, ..pool.limits() });
        pool.endpoint().addresses.set(vec![connection.attempt.address]);
        tokio::time::pause();
        // Equal: the calls that do not wait share a body.
        let requests = [
            DspRequest { tmax_ms: 400, ..dsp_request(&pool) },
            dsp_request(&pool),
            dsp_request(&pool),
        ];
        let dsp = async {
            tokio::time::advance(Duration::from_millis(300)).await;
            pool.release(Rc::clone(&connection), Instant::now());
            let request = come(&mut peer).await;
            assert!(request.contains(r#""tmax":600"#), "{request}");
            tokio::time::advance(Duration::from_millis(100)).await;
            answer(&mut peer, &pool, &connection);
            let request = come(&mut peer).await;
            assert!(request.contains(r#""tmax":500"#), "{request}");
            answer(&mut peer, &pool, &connection);
        };
        let (outcomes, ()) = tokio::join!(ask_all(&outbound, &requests, Vec::new()).collect(), dsp);
        // The last to wait is asked first; the first has no time left.
        assert_eq!(outcomes.calls, [CallOutcome::Unsent, CallOutcome::NoBid, CallOutcome::NoBid]);
        assert!(idle(&pool).is_some());
    });
}

/// Sends a 204.
fn answer(peer: &mut std::net::TcpStream, pool: &DspPool, connection: &Rc<DspConnection>) {
    peer.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    pool.read(connection, &mut ReadBuffers::default(), Instant::now(), false);
}

/// The next bytes at the peer.
async fn come(peer: &mut std::net::TcpStream) -> String {
    let mut bytes = [0; 2048];
    loop {
        match peer.read(&mut bytes) {
            Ok(read) => return String::from_utf8_lossy(&bytes[..read]).into_owned(),
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

#[test]
fn a_connection_that_was_offered_in_vain_returns_to_its_pool() {
    let request = parse_request(REQUEST).unwrap();
    let config = config("http://127.0.0.1:1/bid");
    with_connection(async |pool, connection| {
        let auction = Auction::new("1", &request, &config.market).unwrap();
        let outbound = outbound(&auction, REQUEST);
        pool.limit(PoolLimits { opening_max: 0, ..pool.limits() });
        pool.endpoint().addresses.set(vec![connection.attempt.address]);
        let requests = [dsp_request(&pool)];
        let round = ask_all(&outbound, &requests, Vec::new());
        pool.release(connection, Instant::now());
        assert!(idle(&pool).is_none(), "the round has it");
        drop(round);
        let connection = idle(&pool).unwrap();
        let closed = inbox(Instant::now() + Duration::from_secs(60));
        closed.close();
        assert!(closed.offer(0, connection).is_err());
    });
}

#[test]
fn a_connection_to_an_address_that_has_gone_is_spent() {
    with_connection(async |pool, connection| {
        let now = Instant::now();
        pool.release(Rc::clone(&connection), now);
        let other = "127.0.0.1:1".parse().unwrap();
        assert!(!connection.is_expired(now, now, &[other, connection.attempt.address]));
        assert!(connection.is_expired(now, now, &[other]));
        assert!(connection.is_expired(
            now,
            now + Duration::from_secs(1),
            &[connection.attempt.address]
        ));
    });
}
