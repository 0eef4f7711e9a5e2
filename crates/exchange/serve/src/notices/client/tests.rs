//! Calls to servers that do as a script says, over real sockets.

use std::pin::Pin;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// What a server does on one connection.
#[derive(Clone, Copy)]
enum Do {
    /// Reads so many heads, then writes.
    Answer(usize, &'static str),
    /// Reads a head and does nothing any more.
    Hang,
    /// Closes.
    Close,
}

/// A server with a script for each connection; what it reads can be asked for.
struct Server {
    address: SocketAddr,
    read: mpsc::UnboundedReceiver<String>,
    accepted: Rc<Cell<usize>>,
}

async fn serve(scripts: &'static [&'static [Do]]) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (heard, read) = mpsc::unbounded_channel();
    let accepted = Rc::new(Cell::new(0));
    let count = Rc::clone(&accepted);
    tokio::task::spawn_local(async move {
        for script in scripts {
            let (stream, _) = listener.accept().await.unwrap();
            count.set(count.get() + 1);
            tokio::task::spawn_local(follow(stream, script, heard.clone()));
        }
        drop(listener.accept().await.map(|_| panic!("one connection too many")));
    });
    Server { address, read, accepted }
}

async fn follow(mut stream: TcpStream, script: &[Do], heard: mpsc::UnboundedSender<String>) {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    for step in script {
        let (heads, answer) = match step {
            Do::Answer(heads, answer) => (*heads, Some(*answer)),
            Do::Hang => (1, None),
            Do::Close => return,
        };
        while text.matches("\r\n\r\n").count() < heads {
            let read = stream.read(&mut buffer).await.unwrap();
            assert_ne!(read, 0, "closed while {heads} requests are awaited: {text}");
            text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
        assert_eq!(text.matches("\r\n\r\n").count(), heads, "no more than that at once");
        let _ = heard.send(std::mem::take(&mut text));
        match answer {
            Some(answer) => stream.write_all(answer.as_bytes()).await.unwrap(),
            None => std::future::pending().await,
        }
    }
    // Whatever else comes is a mistake; the client closes.
    assert_eq!(stream.read(&mut buffer).await.unwrap_or(0), 0, "nothing more is sent");
}

/// Names and what they mean.
struct Names(Vec<(&'static str, Result<Vec<IpAddr>, String>)>);

impl Resolve for Names {
    fn resolve<'r>(
        &'r self,
        host: &'r str,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, String>> + 'r>> {
        let known = self.0.iter().find(|(name, _)| *name == host);
        let answer = known.map_or(Err("NXDOMAIN".to_owned()), |(_, answer)| answer.clone());
        Box::pin(std::future::ready(answer))
    }
}

fn limits() -> CallLimits {
    CallLimits {
        timeout: Duration::from_secs(20),
        connections_max: 1,
        idle_timeout: Duration::from_secs(20),
        pipeline_max: 3,
        networks_allowed: vec![Network::parse("127.0.0.0/8").unwrap()],
    }
}

fn client(limits: CallLimits, names: Names) -> Rc<Client> {
    Client::new(limits, Box::new(names), Tls::trusting(Some(&[].into())))
}

type Done = oneshot::Receiver<Result<Answered, CallError>>;

/// Calls `path` at `host`.
fn call(client: &Rc<Client>, (host, port): (&str, u16), path: &str, kind: (bool, usize)) -> Done {
    let (done, hears) = oneshot::channel();
    let (pipelined, body_max) = kind;
    client.call(Call {
        origin: Origin { is_tls: false, host: host.to_owned(), port },
        head: format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n"),
        pipelined,
        body_max,
        done,
    });
    hears
}

const TOGETHER: (bool, usize) = (true, 0);
const ALONE: (bool, usize) = (false, 0);

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(LocalSet::new().run_until(test));
}

fn status(status: u16) -> Result<Answered, CallError> {
    Ok(Answered { status, body: Vec::new() })
}

#[test]
fn calls_that_wait_leave_together_and_are_answered_in_turn() {
    run(async {
        const BOTH: &str = "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 500 Oops\r\ncontent-length: 1\r\n\r\nx\
                            HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
        let mut server = serve(&[&[Do::Answer(3, BOTH), Do::Answer(1, OK)]]).await;
        let client = client(limits(), Names(vec![]));
        let host = ("127.0.0.1", server.address.port());
        let paths = ["/1", "/2", "/3", "/4"];
        let calls = paths.map(|path| call(&client, host, path, TOGETHER));
        let mut got = Vec::new();
        for done in calls {
            got.push(done.await.unwrap());
        }
        assert_eq!(got, [status(204), status(500), status(302), status(200)]);
        let first = server.read.recv().await.unwrap();
        let order = ["/1", "/2", "/3"].map(|path| first.find(path).unwrap());
        assert!(order.is_sorted() && !first.contains("/4"), "{first}");
        assert_eq!(server.accepted.get(), 1);
    });
}

#[test]
fn what_must_not_be_made_twice_leaves_alone() {
    run(async {
        let server = serve(&[&[Do::Answer(1, OK), Do::Answer(1, OK), Do::Answer(1, OK)]]).await;
        let client = client(limits(), Names(vec![]));
        let host = ("127.0.0.1", server.address.port());
        let calls = [TOGETHER, ALONE, TOGETHER].map(|kind| call(&client, host, "/", kind));
        for done in calls {
            assert_eq!(done.await.unwrap(), status(200));
        }
    });
}

#[test]
fn an_idle_connection_that_the_server_had_closed_costs_nothing() {
    run(async {
        let server = serve(&[
            &[Do::Answer(1, OK), Do::Close],
            &[Do::Answer(1, OK), Do::Close],
            &[Do::Close],
        ])
        .await;
        let client = client(limits(), Names(vec![]));
        let host = ("127.0.0.1", server.address.port());
        assert_eq!(call(&client, host, "/1", ALONE).await.unwrap(), status(200));
        assert_eq!(call(&client, host, "/2", ALONE).await.unwrap(), status(200));
        assert_eq!(server.accepted.get(), 2);
        // A new connection that ends at once is no accident of timing.
        let broken = call(&client, host, "/3", ALONE).await.unwrap();
        assert!(matches!(broken, Err(CallError::Broken(_))), "{broken:?}");
        assert_eq!(server.accepted.get(), 3);
    });
}

#[test]
fn what_a_closed_connection_left_unanswered_is_sent_again() {
    run(async {
        const CLOSING: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let server =
            serve(&[&[Do::Answer(3, CLOSING), Do::Close], &[Do::Answer(2, OK), Do::Answer(0, OK)]])
                .await;
        let client = client(limits(), Names(vec![]));
        let host = ("127.0.0.1", server.address.port());
        let calls = ["/1", "/2", "/3"].map(|path| call(&client, host, path, TOGETHER));
        for done in calls {
            assert_eq!(done.await.unwrap(), status(200));
        }
    });
}

#[test]
fn bodies_are_dropped_unless_wanted() {
    run(async {
        const LONG: &str = "HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\nxxxx";
        let server = serve(&[
            &[Do::Answer(1, OK), Do::Answer(1, OK), Do::Answer(1, LONG)],
            &[Do::Answer(1, LONG)],
            &[Do::Answer(1, OK)],
        ])
        .await;
        let client = client(limits(), Names(vec![]));
        let host = ("127.0.0.1", server.address.port());
        let body = call(&client, host, "/", (false, 2)).await.unwrap().unwrap().body;
        assert_eq!(body, b"ok");
        assert_eq!(call(&client, host, "/", ALONE).await.unwrap(), status(200));
        assert_eq!(call(&client, host, "/", ALONE).await.unwrap(), status(200), "told by its head");
        let broken = call(&client, host, "/", (false, 1000)).await.unwrap();
        assert!(matches!(broken, Err(CallError::Broken(_))), "{broken:?}");
        let broken = call(&client, host, "/", (false, 1)).await.unwrap();
        assert!(matches!(broken, Err(CallError::Broken(_))), "{broken:?}");
    });
}

#[test]
fn a_server_that_hangs_costs_its_own_calls() {
    run(async {
        let (hangs, answers) = (serve(&[&[Do::Hang]]).await, serve(&[&[Do::Answer(1, OK)]]).await);
        let limits = CallLimits { timeout: Duration::from_millis(50), ..limits() };
        let client = client(limits, Names(vec![]));
        let slow = call(&client, ("127.0.0.1", hangs.address.port()), "/", ALONE);
        let quick = call(&client, ("127.0.0.1", answers.address.port()), "/", ALONE);
        assert_eq!(quick.await.unwrap(), status(200));
        assert_eq!(slow.await.unwrap(), Err(CallError::TimedOut));
    });
}

#[test]
fn a_call_that_was_not_answered_in_time_is_not_made_again() {
    run(async {
        // The second call hangs on a connection that had served; another would be one too many.
        let server = serve(&[&[Do::Answer(1, OK), Do::Hang]]).await;
        let limits = CallLimits { timeout: Duration::from_millis(50), ..limits() };
        let client = client(limits, Names(vec![]));
        let host = ("127.0.0.1", server.address.port());
        assert_eq!(call(&client, host, "/1", ALONE).await.unwrap(), status(200));
        assert_eq!(call(&client, host, "/2", ALONE).await.unwrap(), Err(CallError::TimedOut));
        assert_eq!(server.accepted.get(), 1);
    });
}

#[test]
fn one_idle_connection_does_not_make_calls_wait_for_each_other() {
    run(async {
        let server =
            serve(&[&[Do::Answer(1, OK), Do::Hang], &[Do::Answer(1, OK), Do::Answer(1, OK)]]).await;
        let client = client(CallLimits { connections_max: 2, ..limits() }, Names(vec![]));
        let host = ("127.0.0.1", server.address.port());
        assert_eq!(call(&client, host, "/1", ALONE).await.unwrap(), status(200));
        let mut hangs = call(&client, host, "/2", ALONE);
        assert_eq!(call(&client, host, "/3", ALONE).await.unwrap(), status(200));
        assert_eq!(hangs.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        // And the new one serves on.
        assert_eq!(call(&client, host, "/4", ALONE).await.unwrap(), status(200));
        assert_eq!(server.accepted.get(), 2);
    });
}

#[test]
fn a_call_that_nobody_waits_for_is_not_made() {
    run(async {
        let mut server = serve(&[&[Do::Answer(1, OK), Do::Answer(1, OK)]]).await;
        let client = client(limits(), Names(vec![]));
        let host = ("127.0.0.1", server.address.port());
        let first = call(&client, host, "/1", ALONE);
        drop(call(&client, host, "/2", ALONE));
        let third = call(&client, host, "/3", ALONE);
        assert_eq!((first.await.unwrap(), third.await.unwrap()), (status(200), status(200)));
        let heads = [server.read.recv().await.unwrap(), server.read.recv().await.unwrap()];
        assert!(heads[0].contains("/1") && heads[1].contains("/3"), "{heads:?}");
    });
}

#[test]
fn calls_that_wait_for_a_host_are_bounded() {
    run(async {
        let server = serve(&[&[Do::Hang]]).await;
        let client = client(limits(), Names(vec![]));
        let host = ("127.0.0.1", server.address.port());
        let mut waiting: Vec<_> = (0..CALLS_MAX).map(|_| call(&client, host, "/", ALONE)).collect();
        let refused = call(&client, host, "/", ALONE).await.unwrap();
        assert_eq!(refused, Err(CallError::Saturated));
        // Who goes makes room for another.
        drop(waiting.pop());
        waiting.push(call(&client, host, "/", ALONE));
        let turn = waiting.last_mut().unwrap().try_recv();
        assert_eq!(turn, Err(oneshot::error::TryRecvError::Empty));
    });
}

#[test]
fn addresses_that_are_not_public_are_not_called() {
    run(async {
        let server = serve(&[&[Do::Answer(1, OK)]]).await;
        let port = server.address.port();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let names = || {
            Names(vec![
                ("inside", Ok(vec![ip("127.0.0.1")])),
                ("mapped", Ok(vec![ip("::ffff:127.0.0.1")])),
                ("both", Ok(vec![ip("169.254.169.254"), ip("127.0.0.1")])),
                ("none", Ok(vec![])),
            ])
        };
        let strict = client(CallLimits { networks_allowed: vec![], ..limits() }, names());
        for host in ["127.0.0.1", "::1", "inside", "mapped"] {
            let forbidden = call(&strict, (host, port), "/", ALONE).await.unwrap();
            assert!(matches!(forbidden, Err(CallError::Forbidden(_))), "{host}: {forbidden:?}");
        }
        assert_eq!(server.accepted.get(), 0, "not even connected to");
        let client = client(limits(), names());
        let mapped = call(&client, ("mapped", port), "/", ALONE).await.unwrap();
        assert!(matches!(mapped, Err(CallError::Forbidden(_))), "not what was allowed: {mapped:?}");
        assert_eq!(call(&client, ("both", port), "/", ALONE).await.unwrap(), status(200));
        for host in ["none", "unheard-of"] {
            let unresolved = call(&client, (host, port), "/", ALONE).await.unwrap();
            assert!(matches!(unresolved, Err(CallError::Unresolved(_))), "{host}: {unresolved:?}");
        }
    });
}

#[test]
fn hosts_are_forgotten_when_nothing_is_left_to_say() {
    run(async {
        let server = serve(&[&[Do::Answer(1, OK)]]).await;
        let limits = CallLimits { idle_timeout: Duration::from_millis(1), ..limits() };
        let client = client(limits, Names(vec![]));
        let host = ("127.0.0.1", server.address.port());
        assert_eq!(call(&client, host, "/", ALONE).await.unwrap(), status(200));
        while !client.lanes.borrow().is_empty() {
            tokio::task::yield_now().await;
        }
        let refused = call(&client, ("127.0.0.1", 1), "/", ALONE).await.unwrap();
        assert!(matches!(refused, Err(CallError::Unreachable(_))), "{refused:?}");
    });
}
