//! Shards on real sockets and threads.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::listen::listen;

/// Longer than any of these tests takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn options(shards: usize, connections_max: usize) -> ShardsOptions {
    ShardsOptions { shards, connections_max, ..ShardsOptions::default() }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Never reached.
const TIMEOUTS: ConnectionTimeouts = ConnectionTimeouts { idle: PATIENCE, head: PATIENCE };

/// Answers each byte as a request: `i` with the shard's number, `l` with the listener's, `n` with
/// whether Nagle's delay is off, `b` as `i` but the request stays under way; `h` begins a head that
/// the next byte completes; panics at `p`, ends at anything else.
async fn serve(shard: ShardContext) {
    serve_within(TIMEOUTS, shard).await;
}

async fn serve_within(timeouts: ConnectionTimeouts, mut shard: ShardContext) {
    while let Some(Accepted { stream, listener, open, .. }) = shard.accept().await {
        let (index, shutdown) = (shard.index(), shard.shutdown().clone());
        shard.tasks().spawn_isolated(async move {
            let activity = open.activity();
            let stream = tokio::net::TcpStream::from_std(stream).unwrap();
            let nodelay = stream.nodelay().unwrap();
            let mut stream = ActiveStream::new(stream, activity.clone(), shutdown);
            let answered = async {
                let mut busy = None;
                while let Ok(byte) = stream.read_u8().await {
                    if byte == b'h' {
                        continue;
                    }
                    let request = busy.is_none().then(|| activity.request());
                    let answer = match byte {
                        b'i' | b'b' => index,
                        b'l' => listener,
                        b'n' => usize::from(nodelay),
                        b'p' => panic!("a test's panic"),
                        _ => return,
                    };
                    stream.write_u8(u8::try_from(answer).unwrap()).await.unwrap();
                    busy = request.filter(|_| byte == b'b').or(busy);
                }
            };
            let _ = activity.limited(&timeouts, answered).await;
        });
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A connection from another address.
fn connect_from(own: [u8; 4], address: SocketAddr) -> TcpStream {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((own, 0)).into()).unwrap();
    socket.connect(&address.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The answer to one byte. None if the connection closed instead.
fn ask(mut stream: &TcpStream, byte: u8) -> Option<u8> {
    let mut answer = [0];
    stream.write_all(&[byte]).ok()?;
    match stream.read(&mut answer) {
        Ok(1) => Some(answer[0]),
        _ => None,
    }
}

fn until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "the condition never held");
        thread::yield_now();
    }
}

#[test]
fn connections_go_to_the_least_loaded_shard() {
    let shutdown = Shutdown::new(PATIENCE);
    let ((first, address), (second, other)) = (listener(), listener());
    let shards = Shards::start(&options(2, 100), vec![first, second], &shutdown, serve).unwrap();
    let metrics = shards.metrics();

    let mut clients = Vec::new();
    for (n, want) in [0, 1, 0, 1].into_iter().enumerate() {
        let client = connect(address);
        assert_eq!(ask(&client, b'i'), Some(want), "client {n}");
        clients.push(client);
    }
    assert_eq!((metrics.accepted(), metrics.open()), (4, 4));

    // Both clients of shard 1 leave, so it gets the next two.
    clients.remove(3);
    clients.remove(1);
    until(|| metrics.open() == 2);
    for _ in 0..2 {
        let client = connect(other);
        assert_eq!(ask(&client, b'i'), Some(1));
        assert_eq!(ask(&client, b'l'), Some(1));
        assert_eq!(ask(&client, b'n'), Some(1));
        clients.push(client);
    }
    drop(clients);
    shutdown.begin();
    shards.join().unwrap();
    assert_eq!((metrics.accepted(), metrics.open()), (6, 0));
}

#[test]
fn connections_beyond_the_limit_are_closed_and_counted() {
    let shutdown = Shutdown::new(PATIENCE);
    let (listener, address) = listener();
    let shards = Shards::start(&options(1, 2), vec![listener], &shutdown, serve).unwrap();
    let metrics = shards.metrics();
    let (first, second) = (connect(address), connect(address));
    assert_eq!((ask(&first, b'b'), ask(&second, b'b')), (Some(0), Some(0)));
    assert_eq!(ask(&connect(address), b'i'), None);
    assert_eq!((metrics.open(), metrics.refused()), (2, 1));

    drop(first);
    until(|| metrics.open() == 1);
    assert_eq!(ask(&connect(address), b'i'), Some(0));
    assert_eq!(ask(&second, b'i'), Some(0));
    shutdown.end();
    shards.join().unwrap();
}

#[test]
fn a_caller_with_too_many_connections_leaves_room_for_others() {
    let shutdown = Shutdown::new(PATIENCE);
    let (listener, address) = listener();
    let options = ShardsOptions { connections_per_caller_max: 2, ..options(1, 3) };
    let shards = Shards::start(&options, vec![listener], &shutdown, serve).unwrap();
    let metrics = shards.metrics();
    let (first, second) = (connect(address), connect(address));
    assert_eq!((ask(&first, b'b'), ask(&second, b'b')), (Some(0), Some(0)));
    assert_eq!(ask(&connect(address), b'i'), None);
    assert_eq!((metrics.open(), metrics.refused()), (2, 1));
    let other = connect_from([127, 0, 0, 2], address);
    assert_eq!(ask(&other, b'i'), Some(0));
    drop(first);
    until(|| metrics.open() == 2);
    assert_eq!(ask(&connect(address), b'i'), Some(0));
    shutdown.end();
    shards.join().unwrap();
}

/// Whether the peer has closed the connection.
fn is_closed(mut stream: &TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn idle_connections_make_place_for_new_ones() {
    let shutdown = Shutdown::new(PATIENCE);
    let (listener, address) = listener();
    let options = ShardsOptions { connections_per_caller_max: 3, ..options(1, 4) };
    let shards = Shards::start(&options, vec![listener], &shutdown, serve).unwrap();
    let metrics = shards.metrics();
    let busy = connect(address);
    assert_eq!(ask(&busy, b'b'), Some(0));
    let other = connect_from([127, 0, 0, 2], address);
    assert_eq!(ask(&other, b'i'), Some(0));
    let (silent, half) = (connect(address), connect(address));
    until(|| metrics.open() == 4);
    // An incomplete head is no request.
    (&half).write_all(b"h").unwrap();

    // At its limit the address loses its own connections, although another's is idle for longer.
    let [first, second] = [connect(address), connect(address)].map(|client| {
        until(|| ask(&client, b'i') == Some(0));
        client
    });
    assert!(is_closed(&silent) && is_closed(&half));
    assert_eq!((metrics.evicted(), metrics.refused()), (2, 0));
    assert_eq!(ask(&other, b'i'), Some(0));
    // At the total limit the longest idle one goes.
    let third = connect_from([127, 0, 0, 3], address);
    assert_eq!(ask(&third, b'b'), Some(0));
    assert!(is_closed(&first));
    assert_eq!(
        (ask(&busy, b'i'), ask(&second, b'b'), ask(&other, b'b')),
        (Some(0), Some(0), Some(0))
    );
    // Nothing is idle.
    assert_eq!(ask(&connect_from([127, 0, 0, 4], address), b'i'), None);
    assert_eq!((metrics.evicted(), metrics.refused()), (3, 1));
    shutdown.end();
    shards.join().unwrap();
}

/// The head timeout starts with its first byte and does not depend on the idle timeout.
#[test]
fn slow_heads_are_closed_and_idle_connections_stay() {
    let shutdown = Shutdown::new(PATIENCE);
    let (listener, address) = listener();
    let timeouts = ConnectionTimeouts { head: Duration::from_millis(20), ..TIMEOUTS };
    let body = move |shard| serve_within(timeouts, shard);
    let shards = Shards::start(&options(1, 9), vec![listener], &shutdown, body).unwrap();
    let (silent, slow) = (connect(address), connect(address));
    (&slow).write_all(b"h").unwrap();
    assert!(is_closed(&slow));
    assert_eq!(ask(&silent, b'i'), Some(0));
    (&silent).write_all(b"h").unwrap();
    assert!(is_closed(&silent), "the next head has as long");
    shutdown.end();
    shards.join().unwrap();
}

#[test]
fn idle_connections_are_closed_and_busy_ones_stay() {
    let shutdown = Shutdown::new(PATIENCE);
    let (listener, address) = listener();
    let timeouts = ConnectionTimeouts { idle: Duration::from_millis(50), ..TIMEOUTS };
    let body = move |shard| serve_within(timeouts, shard);
    let shards = Shards::start(&options(1, 9), vec![listener], &shutdown, body).unwrap();
    let busy = loop {
        // On a slow machine the first byte may come too late.
        let client = connect(address);
        if ask(&client, b'b').is_some() {
            break client;
        }
    };
    for _ in 0..3 {
        assert!(is_closed(&connect(address)));
    }
    assert_eq!(ask(&busy, b'i'), Some(0));
    shutdown.end();
    shards.join().unwrap();
}

#[test]
fn a_panicking_connection_dies_alone() {
    let shutdown = Shutdown::new(PATIENCE);
    let (listener, address) = listener();
    let shards = Shards::start(&options(1, 100), vec![listener], &shutdown, serve).unwrap();
    let metrics = shards.metrics();
    let (witness, victim) = (connect(address), connect(address));
    assert_eq!(ask(&victim, b'p'), None);
    assert_eq!(ask(&witness, b'i'), Some(0));
    until(|| metrics.open() == 1);
    assert_eq!(metrics.panics(), 1);
    drop(witness);
    shutdown.begin();
    shards.join().unwrap();
    assert_eq!(metrics.panics(), 1);
}

#[test]
fn a_drain_finishes_what_is_open_and_takes_nothing_new() {
    let shutdown = Shutdown::new(PATIENCE);
    let (listener, address) = listener();
    let shards = Shards::start(&options(2, 100), vec![listener], &shutdown, serve).unwrap();
    let client = connect(address);
    // Busy, for an idle one may be evicted for those that `until` opens.
    assert_eq!(ask(&client, b'b'), Some(0));
    shutdown.begin();
    until(|| TcpStream::connect(address).is_err());
    assert_eq!(ask(&client, b'i'), Some(0));
    drop(client);
    shards.join().unwrap();
    assert!(Instant::now() < shutdown.deadline().unwrap().into_std());
}

#[test]
fn a_drain_waits_for_isolated_tasks() {
    let (sender, answers) = mpsc::channel();
    let shutdown = Shutdown::new(PATIENCE);
    let shards = Shards::start(&options(1, 1), Vec::new(), &shutdown, move |mut shard| {
        let (sender, end) = (sender.clone(), shard.shutdown().clone());
        shard.tasks().spawn_isolated(async move {
            end.started().await;
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            sender.send("noticed").unwrap();
        });
        async move { assert!(shard.accept().await.is_none()) }
    })
    .unwrap();
    shutdown.begin();
    shards.join().unwrap();
    assert_eq!(answers.recv(), Ok("noticed"));
}

#[test]
fn a_drain_ends_at_its_deadline() {
    let shutdown = Shutdown::new(Duration::from_millis(20));
    let (listener, address) = listener();
    let shards = Shards::start(&options(1, 100), vec![listener], &shutdown, serve).unwrap();
    let metrics = shards.metrics();
    let client = connect(address);
    assert_eq!(ask(&client, b'i'), Some(0));
    shutdown.begin();
    shards.join().unwrap();
    assert_eq!(ask(&client, b'i'), None);
    assert_eq!(metrics.open(), 0);
}

#[test]
fn threads_are_named_and_bound() {
    let (sender, names) = mpsc::channel();
    let shutdown = Shutdown::new(PATIENCE);
    let options = ShardsOptions { cores: Some(vec![0]), ..options(2, 1) };
    let shards = Shards::start(&options, Vec::new(), &shutdown, move |shard| {
        let cores = rustix::thread::sched_getaffinity(None).unwrap();
        let name = thread::current().name().unwrap().to_owned();
        sender.send((name, shard.index(), cores.count(), cores.is_set(0))).unwrap();
        async {}
    });
    shards.unwrap().metrics();
    let mut seen: Vec<_> = names.iter().collect();
    seen.sort();
    assert_eq!(seen, [("shard-0".to_owned(), 0, 1, true), ("shard-1".to_owned(), 1, 1, true)]);
    shutdown.end();
}

#[test]
fn an_impossible_core_is_refused() {
    let options = ShardsOptions { cores: Some(vec![1023]), ..options(1, 1) };
    let shutdown = Shutdown::new(PATIENCE);
    let error = Shards::start(&options, Vec::new(), &shutdown, |_| async {}).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot run on core 1023: Invalid argument (os error 22); choose one that this process \
         may use"
    );
}

#[test]
fn a_panicking_shard_begins_the_shutdown() {
    let shutdown = Shutdown::new(PATIENCE);
    let (listener, _) = listener();
    let shards = Shards::start(&options(2, 1), vec![listener], &shutdown, |shard| async move {
        assert_ne!(shard.index(), 1, "a test's panic");
    });
    assert_eq!(shards.unwrap().join().unwrap_err().to_string(), "shards [1] panicked; see the log");
    assert!(shutdown.is_started());
}

#[test]
fn options_are_read() {
    use crate::config::{describe, parse};
    assert_eq!(
        parse("x", "shards = 3\ncores = [1]\nconnections_max = 9", ShardsOptions::read),
        Ok(ShardsOptions {
            cores: Some(vec![1]),
            connections_per_caller_max: 5, // Half, rounded up.
            ..options(3, 9)
        })
    );
    let refused = parse("x", "shards = 0\ncores = []", ShardsOptions::read).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "2 problems in x; nothing was started\n  \
         line 1: shards = 0: must be from 1 to 1024\n  \
         line 2: cores = []: must name a core, or be absent"
    );
    let per_caller = parse("x", "connections_per_caller_max = 5", ShardsOptions::read).unwrap();
    assert_eq!(per_caller.connections_per_caller_max, 5);
    let text = "[overload]\nin_flight_max = 0";
    assert_eq!(
        parse("x", text, ShardsOptions::read).unwrap_err().to_string(),
        "1 problem in x; nothing was started\n  \
         line 2: overload.in_flight_max = 0: must be from 1 to 1000000"
    );
    let patient = parse("x", "overload.wait_max = \"60ms\"", ShardsOptions::read).unwrap().overload;
    assert_eq!(patient.burst_wait_max, Duration::from_millis(150));
    assert_eq!(describe(ShardsOptions::read).len(), 5);
}
