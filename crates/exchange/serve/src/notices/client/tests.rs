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
    /// Connections whose script has ended, and that the client has closed.
    ended: Rc<Cell<usize>>,
}

async fn serve(scripts: &'static [&'static [Do]]) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (heard, read) = mpsc::unbounded_channel();
    let (accepted, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (count, count_ended) = (Rc::clone(&accepted), Rc::clone(&ended));
    tokio::task::spawn_local(async move {
        for script in scripts {
            let (stream, _) = listener.accept().await.unwrap();
            count.set(count.get() + 1);
            let (following, ended) =
                (follow(stream, script, heard.clone()), Rc::clone(&count_ended));
            tokio::task::spawn_local(async move {
                following.await;
                ended.set(ended.get() + 1);
            });
        }
        // One too many is counted too, and closed.
        drop(listener.accept().await);
        count.set(count.get() + 1);
    });
    Server { address, read, accepted, ended }
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
        if heads == 0 {
            // The client has read what came before.
            settle().await;
        }
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

/// Lets all happen that can: client and servers are on this one thread.
async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
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
    Ok(Answered { status, node: None, body: Vec::new() })
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

/// Or may have been closed: which of the two cannot be told.
#[test]
fn an_idle_connection_that_closes_just_then_is_replaced() {
    run(async {
        let server = serve(&[
            &[Do::Answer(1, OK), Do::Answer(1, ""), Do::Close],
            &[Do::Answer(1, OK), Do::Answer(1, ""), Do::Close],
            &[Do::Answer(1, ""), Do::Close],
        ])
        .await;
        let client = client(limits(), Names(vec![]));
        let host = ("127.0.0.1", server.address.port());
        for _ in 0..2 {
            assert_eq!(call(&client, host, "/", ALONE).await.unwrap(), status(200));
        }
        assert_eq!(server.accepted.get(), 2);
        let broken = call(&client, host, "/", ALONE).await.unwrap();
        assert!(matches!(broken, Err(CallError::Broken(_))), "once, and not again: {broken:?}");
        assert_eq!(server.accepted.get(), 3);
    });
}

/// What was answered has been told, and may have been billed.
#[test]
fn what_was_answered_unusably_is_not_sent_again() {
    run(async {
        const LONG: &str = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nxxx";
        const CUT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nx";
        let scripts: [&'static [&'static [Do]]; 3] = [
            &[&[Do::Answer(1, OK), Do::Answer(1, LONG)]],
            &[&[Do::Answer(1, OK), Do::Answer(1, "nonsense\r\n\r\n")]],
            &[&[Do::Answer(1, OK), Do::Answer(1, CUT), Do::Close]],
        ];
        for script in scripts {
            let server = serve(script).await;
            let client = client(limits(), Names(vec![]));
            let host = ("127.0.0.1", server.address.port());
            assert_eq!(call(&client, host, "/1", ALONE).await.unwrap(), status(200));
            let broken = call(&client, host, "/2", (false, 2)).await.unwrap();
            assert!(matches!(broken, Err(CallError::Broken(_))), "{broken:?}");
            assert_eq!(server.accepted.get(), 1);
        }
    });
}

/// Once the status is known, nobody is told twice because of a body that is dropped anyway.
#[test]
fn a_body_that_never_ends_leaves_the_status_known() {
    run(async {
        const CUT: &str =
            "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 500 Oops\r\ncontent-length: 9\r\n\r\nx";
        let server = serve(&[
            &[Do::Answer(2, CUT), Do::Close],
            &[Do::Answer(2, CUT)], // Says no more, and does not close.
            &[Do::Answer(1, OK)],
        ])
        .await;
        let limits = CallLimits { timeout: Duration::from_millis(50), ..limits() };
        let client = client(limits, Names(vec![]));
        let host = ("127.0.0.1", server.address.port());
        for _ in 0..2 {
            let calls = [TOGETHER; 2].map(|kind| call(&client, host, "/", kind));
            let mut got = Vec::new();
            for done in calls {
                got.push(done.await.unwrap());
            }
            assert_eq!(got, [status(204), status(500)]);
        }
        assert_eq!(call(&client, host, "/", ALONE).await.unwrap(), status(200));
        assert_eq!(server.accepted.get(), 3, "a connection that is out of step serves no more");
    });
}

/// It would be taken for the answer to the next call.
#[test]
fn what_nobody_asked_for_answers_no_call() {
    run(async {
        const TWICE: &str = "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        const LATER: &str = "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n";
        let scripts: [&'static [&'static [Do]]; 2] = [
            &[&[Do::Answer(1, TWICE)], &[Do::Answer(1, OK)]],
            &[
                &[Do::Answer(1, "HTTP/1.1 204 No Content\r\n\r\n"), Do::Answer(0, LATER)],
                &[Do::Answer(1, OK)],
            ],
        ];
        for script in scripts {
            let server = serve(script).await;
            let client = client(limits(), Names(vec![]));
            let host = ("127.0.0.1", server.address.port());
            assert_eq!(call(&client, host, "/1", ALONE).await.unwrap(), status(204));
            settle().await;
            settle().await;
            assert_eq!(call(&client, host, "/2", ALONE).await.unwrap(), status(200));
            assert_eq!(server.accepted.get(), 2);
        }
    });
}

#[test]
fn a_call_that_breaks_the_connection_costs_those_behind_it_nothing() {
    run(async {
        const BOTH: &str = "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        let scripts: [&'static [&'static [Do]]; 2] = [
            &[&[Do::Answer(3, ""), Do::Close], &[Do::Answer(2, BOTH)]],
            &[&[Do::Answer(3, "nonsense\r\n\r\n")], &[Do::Answer(2, BOTH)]],
        ];
        for script in scripts {
            let server = serve(script).await;
            let client = client(limits(), Names(vec![]));
            let host = ("127.0.0.1", server.address.port());
            let [first, second, third] =
                ["/1", "/2", "/3"].map(|path| call(&client, host, path, TOGETHER));
            let broken = first.await.unwrap();
            assert!(matches!(broken, Err(CallError::Broken(_))), "{broken:?}");
            assert_eq!((second.await.unwrap(), third.await.unwrap()), (status(204), status(204)));
            assert_eq!(server.accepted.get(), 2);
        }
    });
}

#[test]
fn what_nobody_waits_for_is_not_sent_again() {
    run(async {
        const CLOSING: [Do; 3] = [Do::Answer(3, ""), Do::Answer(0, ""), Do::Close];
        let mut server = serve(&[&CLOSING, &[Do::Answer(1, OK)]]).await;
        let client = client(limits(), Names(vec![]));
        let host = ("127.0.0.1", server.address.port());
        let [first, second, third] =
            ["/1", "/2", "/3"].map(|path| call(&client, host, path, TOGETHER));
        let heads = server.read.recv().await.unwrap();
        assert!(heads.contains("/2"), "it had been sent: {heads}");
        drop(second); // Before the connection closes.
        assert!(matches!(first.await.unwrap(), Err(CallError::Broken(_))));
        assert_eq!(third.await.unwrap(), status(200));
    });
}

/// RFC 9112, section 9.3.2: a server may close when it will, and say nothing of it.
#[test]
fn a_server_that_answers_one_call_a_connection_answers_all() {
    run(async {
        let server = serve(&[
            &[Do::Answer(3, OK), Do::Close],
            &[Do::Answer(2, OK), Do::Close],
            &[Do::Answer(1, OK), Do::Close],
        ])
        .await;
        let client = client(limits(), Names(vec![]));
        let host = ("127.0.0.1", server.address.port());
        let calls = ["/1", "/2", "/3"].map(|path| call(&client, host, path, TOGETHER));
        for done in calls {
            assert_eq!(done.await.unwrap(), status(200));
        }
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
                ("half", Ok(vec![ip("127.0.0.3"), ip("169.254.169.254")])),
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
        // There is an address that may be called, and later may answer.
        let half = call(&client, ("half", port), "/", ALONE).await.unwrap();
        assert!(matches!(half, Err(CallError::Unreachable(_))), "{half:?}");
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

/// A client that has room for two hosts, all of them names of this one.
fn client_of_two(names: &[&'static str]) -> Rc<Client> {
    let host = |name: &&'static str| (*name, Ok(vec![IpAddr::from([127, 0, 0, 1])]));
    Rc::new(Client {
        limits: limits(),
        resolver: Box::new(Names(names.iter().map(host).collect())),
        tls: Tls::trusting(Some(&[].into())),
        lanes: RefCell::default(),
        lanes_max: 2,
    })
}

/// Hosts that it has room for now.
fn known(client: &Rc<Client>) -> Vec<String> {
    let lanes = client.lanes.borrow();
    let mut names: Vec<_> = lanes.keys().map(|origin| origin.host.clone()).collect();
    names.sort();
    names
}

/// A DSP that names a host for each notice must not keep those of others from being called.
#[test]
fn a_host_that_nobody_calls_makes_way_for_another() {
    run(async {
        let server = serve(&[
            &[Do::Answer(1, OK), Do::Hang],
            &[Do::Answer(1, OK)],
            &[Do::Answer(1, OK), Do::Hang],
        ])
        .await;
        let client = client_of_two(&["a", "b", "c", "d"]);
        let port = server.address.port();
        assert_eq!(call(&client, ("a", port), "/", ALONE).await.unwrap(), status(200));
        let _hangs = call(&client, ("a", port), "/", ALONE);
        assert_eq!(call(&client, ("b", port), "/", ALONE).await.unwrap(), status(200));
        assert_eq!(known(&client), ["a", "b"]);
        assert_eq!(call(&client, ("c", port), "/", ALONE).await.unwrap(), status(200));
        assert_eq!(known(&client), ["a", "c"], "`b` was idle");
        let _hangs_too = call(&client, ("c", port), "/", ALONE);
        settle().await;
        let refused = call(&client, ("d", port), "/", ALONE).await.unwrap();
        assert_eq!(refused, Err(CallError::Saturated), "all the others are being called");
        assert_eq!(known(&client), ["a", "c"]);
        assert_eq!(server.ended.get(), 1, "the connection to `b` alone");
    });
}

#[test]
fn a_host_that_made_way_is_called_anew() {
    run(async {
        let server = serve(&[&[Do::Answer(1, OK)] as &[_]; 4]).await;
        let client = client_of_two(&["a", "b", "c"]);
        let port = server.address.port();
        for host in ["a", "b"] {
            assert_eq!(call(&client, (host, port), "/", ALONE).await.unwrap(), status(200));
        }
        let third = call(&client, ("c", port), "/", ALONE);
        // Called again before its old connection has ended.
        let gone = if known(&client)[0] == "a" { "b" } else { "a" };
        let again = call(&client, (gone, port), "/", ALONE);
        assert_eq!((third.await.unwrap(), again.await.unwrap()), (status(200), status(200)));
        settle().await;
        assert_eq!(known(&client), [gone, "c"]);
        assert_eq!((server.accepted.get(), server.ended.get()), (4, 2));
    });
}

/// Nobody answers at the first address; the second one does, though not as it should.
#[test]
fn an_address_that_is_silent_leaves_time_for_the_next() {
    run(async {
        tokio::time::pause(); // Silence is long. While a test yields, time stands.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = silent.local_addr().unwrap().port();
        let next = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
        tokio::task::spawn_local(async move { drop(next.accept().await) });
        let both = Ok(vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2])]);
        let client = client(limits(), Names(vec![("both", both)]));
        let (done, mut hears) = oneshot::channel();
        // Over TLS: one that accepts, as kernels do, and says nothing is silent.
        let origin = Origin { is_tls: true, host: "both".to_owned(), port };
        client.call(Call { origin, head: String::new(), pipelined: false, body_max: 0, done });
        settle().await;
        assert_eq!(hears.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        tokio::time::advance(limits().timeout * 2 / 3).await;
        let began = std::time::Instant::now();
        let heard = loop {
            match hears.try_recv() {
                Err(_) => tokio::task::yield_now().await,
                Ok(heard) => break heard,
            }
            assert!(began.elapsed() < Duration::from_secs(20), "waited in vain for the second");
        };
        assert!(matches!(heard, Err(CallError::Unreachable(_))), "{heard:?}");
    });
}
