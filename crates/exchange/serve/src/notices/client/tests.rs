//! Concurrent calls, over real sockets.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exchange_core::NoticeTarget;
use http_kit::address::parse_network;
use http_kit::client::RequestError;
use http_kit::dns::Resolved;
use http_kit::tls::client_config;
use http2::{Http2ErrorCode, frame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use super::host::CALLS_MAX;
use super::*;
use crate::fanout::answer::NODE_HEADER;

/// A server that answers on command.
struct Held {
    address: SocketAddr,
    /// Paths of requests in order, and the release of each answer.
    asked: mpsc::UnboundedReceiver<(String, oneshot::Sender<()>)>,
}

async fn hold() -> Held {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (ask, asked) = mpsc::unbounded_channel();
    spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            spawn_local(answer_all(stream, ask.clone()));
        }
    });
    Held { address, asked }
}

async fn answer_all(
    mut stream: TcpStream,
    ask: mpsc::UnboundedSender<(String, oneshot::Sender<()>)>,
) {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let (answer, answered) = oneshot::channel();
        if ask.send((path, answer)).is_err() || answered.await.is_err() {
            return;
        }
        let answer = format!("HTTP/1.1 200 OK\r\n{NODE_HEADER}: 7\r\ncontent-length: 2\r\n\r\nok");
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

/// Resolves all names to this machine.
struct Here;

impl Resolve for Here {
    fn resolve<'r>(&'r self, _host: &'r str) -> Resolved<'r> {
        Box::pin(std::future::ready(Ok(vec![IpAddr::from([127, 0, 0, 1])])))
    }
}

fn limits(connections_max: usize) -> CallLimits {
    CallLimits {
        timeout: Duration::from_secs(20),
        connections_max,
        idle_timeout: Duration::from_secs(20),
        networks_allowed: vec![parse_network("127.0.0.0/8").unwrap()],
    }
}

fn client(connections_max: usize, hosts_max: usize) -> Rc<NoticeClient> {
    let mut client = NoticeClient::start(options(limits(connections_max))).expect("it starts");
    Rc::get_mut(&mut client).expect("nothing is called yet").hosts_max = hosts_max;
    client
}

/// For hosts on this machine; those that begin with "two" speak HTTP/2 without TLS.
fn options(limits: CallLimits) -> NoticeClientOptions {
    NoticeClientOptions {
        addresses: limits.public(),
        limits,
        resolver: Arc::new(Here),
        tls: Arc::new(client_config(Some(&[]))),
        prior_knowledge: Box::new(|host| host.host.starts_with("two")),
        metrics: Arc::default(),
        shutdown: Shutdown::new(Duration::ZERO),
    }
}

type Done = oneshot::Receiver<CallResult>;

fn call(client: &Rc<NoticeClient>, host: &str, server: &Held, path: &str) -> Done {
    let (done, hears) = oneshot::channel();
    let target =
        NoticeTarget { is_tls: false, host, port: server.address.port(), path_and_query: path };
    client.call(NoticeCall {
        request: Rc::new(NoticeRequest::get(&target, path)),
        body_max: 2,
        until: Instant::now() + Duration::from_secs(20),
        waiter: CallWaiter::Fetch(done),
    });
    hears
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(LocalSet::new().run_until(test));
}

fn answered() -> Result<ServerAnswer, CallError> {
    Ok(ServerAnswer { status: 200, node: Some(7), body: b"ok".to_vec() })
}

#[test]
fn a_host_has_so_many_calls_at_once_and_the_others_wait() {
    run(async {
        let (mut server, client) = (hold().await, client(2, 9));
        let calls = ["/1", "/2", "/3"].map(|path| call(&client, "a", &server, path));
        let (first, answer_first) = server.asked.recv().await.unwrap();
        let (second, answer_second) = server.asked.recv().await.unwrap();
        assert_eq!((&*first, &*second), ("/1", "/2"));
        // Another host's calls do not wait for these.
        let mut other = hold().await;
        let elsewhere = call(&client, "b", &other, "/b");
        other.asked.recv().await.unwrap().1.send(()).unwrap();
        assert_eq!(elsewhere.await.unwrap(), answered());
        assert!(server.asked.try_recv().is_err(), "the third waits");
        answer_second.send(()).unwrap();
        let (third, answer_third) = server.asked.recv().await.unwrap();
        assert_eq!(third, "/3");
        for answer in [answer_first, answer_third] {
            answer.send(()).unwrap();
        }
        for done in calls {
            assert_eq!(done.await.unwrap(), answered());
        }
        assert!(client.hosts.borrow().values().all(|host| !host.is_called()));
    });
}

#[test]
fn a_call_that_nobody_waits_for_is_not_made() {
    run(async {
        let (mut server, client) = (hold().await, client(1, 9));
        let first = call(&client, "a", &server, "/1");
        drop(call(&client, "a", &server, "/2"));
        let third = call(&client, "a", &server, "/3");
        for path in ["/1", "/3"] {
            let (asked, answer) = server.asked.recv().await.unwrap();
            assert_eq!(asked, path);
            answer.send(()).unwrap();
        }
        assert_eq!((first.await.unwrap(), third.await.unwrap()), (answered(), answered()));
    });
}

#[test]
fn calls_that_wait_for_a_host_are_bounded() {
    run(async {
        let (server, client) = (hold().await, client(1, 9));
        let mut waiting: Vec<_> =
            (0..=CALLS_MAX).map(|_| call(&client, "a", &server, "/")).collect();
        let refused = call(&client, "a", &server, "/").await.unwrap();
        assert_eq!(refused, Err(CallError::Saturated));
        // A cancelled call makes room for another.
        drop(waiting.pop());
        let mut turn = call(&client, "a", &server, "/");
        assert_eq!(turn.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    });
}

/// Many hosts of one DSP must not block those of others.
#[test]
fn hosts_that_are_called_at_once_are_bounded() {
    run(async {
        let (mut server, client) = (hold().await, client(1, 2));
        let first = call(&client, "a", &server, "/a");
        let _second = call(&client, "b", &server, "/b");
        let refused = call(&client, "c", &server, "/c").await.unwrap();
        assert_eq!(refused, Err(CallError::Saturated));
        let mut asked =
            vec![server.asked.recv().await.unwrap(), server.asked.recv().await.unwrap()];
        asked.sort_by(|one, other| one.0.cmp(&other.0));
        asked.remove(0).1.send(()).unwrap();
        assert_eq!(first.await.unwrap(), answered());
        let third = call(&client, "c", &server, "/c");
        let (path, answer) = server.asked.recv().await.unwrap();
        assert_eq!(path, "/c");
        answer.send(()).unwrap();
        assert_eq!(third.await.unwrap(), answered());
    });
}

/// DSPs write characters that no URI allows; all of the notice must arrive.
#[test]
fn every_url_that_is_a_target_can_be_called() {
    let check = |url: &str, want: &str| {
        let target = NoticeTarget::parse(url).unwrap();
        let NoticeRequest { host, path, .. } = NoticeRequest::get(&target, target.path_and_query);
        assert_eq!(format!("{}://{}{path}", host.scheme(), host.authority()), want);
    };
    let printable: String = (b'!'..=b'~').map(char::from).collect();
    let printable = printable.replace(['\\', '#'], "");
    let encoded = printable.replace('"', "%22").replace('<', "%3C").replace('>', "%3E");
    let encoded = encoded.replace('`', "%60");
    for place in ["/?", "/"] {
        let url = format!("HTTP://DSP.example:8080{place}{printable}");
        check(&url, &format!("http://dsp.example:8080{place}{encoded}"));
    }
    check("https://dsp.example:443", "https://dsp.example/");
    check("http://[2001:DB8::1]?a", "http://[2001:db8::1]/?a");
}

#[test]
fn a_field_cannot_begin_another() {
    let target = NoticeTarget::parse("http://a.example/").unwrap();
    let plain = NoticeRequest::get(&target, "/");
    let agent = plain.clone().with("x-device-user-agent", "Mozilla/5.0 (X11)");
    assert_ne!(agent, plain);
    for value in ["a\r\nx: y", "a\n", "\0", "é"] {
        assert_eq!(plain.clone().with("x-device-user-agent", value), plain, "{value:?}");
    }
}

/// Connections of a server, each of which follows its script: what is sent in answer to each read.
async fn scripted(scripts: Vec<Vec<Vec<u8>>>) -> (SocketAddr, Rc<Cell<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = Rc::new(Cell::new(0));
    let count = Rc::clone(&accepted);
    spawn_local(async move {
        for script in scripts {
            let (mut stream, _) = listener.accept().await.unwrap();
            count.set(count.get() + 1);
            spawn_local(async move {
                let mut buffer = vec![0; 64 * 1024];
                for answer in script {
                    if stream.read(&mut buffer).await.unwrap_or(0) == 0 {
                        return;
                    }
                    stream.write_all(&answer).await.unwrap();
                }
                // Open until the client closes.
                while stream.read(&mut buffer).await.unwrap_or(0) > 0 {}
            });
        }
    });
    (address, accepted)
}

/// A call that waits at most `within`.
fn call_at(
    client: &Rc<NoticeClient>,
    host: &str,
    address: SocketAddr,
    body_max: usize,
    within: Duration,
) -> Done {
    let (done, hears) = oneshot::channel();
    let target = NoticeTarget { is_tls: false, host, port: address.port(), path_and_query: "/" };
    client.call(NoticeCall {
        request: Rc::new(NoticeRequest::get(&target, "/")),
        body_max,
        until: Instant::now() + within,
        waiter: CallWaiter::Fetch(done),
    });
    hears
}

const LONG: Duration = Duration::from_secs(20);

/// Frames of HTTP/2 from a server.
fn frames(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frames = Vec::new();
    write(&mut frames);
    frames
}

/// Whole answers with status 200 to these streams.
fn answers(streams: &[u32]) -> Vec<u8> {
    frames(|out| {
        frame::write_settings(out, &[]);
        for stream in streams {
            // `:status: 200` of the static table.
            frame::write_headers(out, *stream, &[0x88], false);
            frame::write_data(out, *stream, b"ok", true);
        }
    })
}

#[test]
fn calls_to_a_host_of_http2_share_a_connection_and_a_write() {
    run(async {
        let (address, accepted) = scripted(vec![vec![answers(&[1, 3, 5])]]).await;
        let client = client(4, 9);
        let calls = [0, 2, 1].map(|body_max| call_at(&client, "two", address, body_max, LONG));
        let [unwanted, wanted, too_long] = calls;
        let answer =
            |body: &[u8]| Ok(ServerAnswer { status: 200, node: None, body: body.to_vec() });
        // The server answers once, after one read: all were in it.
        assert_eq!(unwanted.await.unwrap(), answer(b""));
        assert_eq!(wanted.await.unwrap(), answer(b"ok"));
        let broken = too_long.await.unwrap();
        assert!(matches!(broken, Err(CallError::Request(RequestError::Broken(_)))), "{broken:?}");
        assert_eq!(accepted.get(), 1);
    });
}

#[test]
fn a_call_that_the_server_did_not_process_is_repeated_once() {
    run(async {
        let gone = frames(|out| {
            frame::write_settings(out, &[]);
            frame::write_go_away(out, 0, Http2ErrorCode::NO_ERROR);
        });
        let scripts = vec![vec![gone.clone()], vec![answers(&[1])], vec![gone.clone()], vec![gone]];
        let (address, accepted) = scripted(scripts).await;
        let client = client(4, 9);
        let answered = call_at(&client, "two", address, 0, LONG).await.unwrap();
        assert_eq!(answered.map(|answer| answer.status), Ok(200));
        assert_eq!(accepted.get(), 2);
        for (_, host) in client.hosts.borrow().iter() {
            host.close_all();
        }
        let refused = call_at(&client, "two", address, 0, LONG).await.unwrap();
        assert!(matches!(refused, Err(CallError::Request(RequestError::Broken(_)))), "{refused:?}");
        assert_eq!(accepted.get(), 4);
    });
}

/// A notice that has arrived must not be sent again because of what follows its status.
#[test]
fn a_broken_body_that_is_unwanted_does_not_matter() {
    run(async {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\nx";
        let malformed = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n";
        let reset = frames(|out| {
            frame::write_settings(out, &[]);
            frame::write_headers(out, 1, &[0x88], false);
            frame::write_reset(out, 1, Http2ErrorCode::CANCEL);
        });
        let early = frames(|out| {
            frame::write_settings(out, &[]);
            frame::write_reset(out, 1, Http2ErrorCode::CANCEL);
        });
        let client = client(4, 9);
        for (host, bytes, want) in [
            ("one", head.as_bytes(), true),
            ("one", malformed.as_bytes(), true),
            ("one", b"HTTP/1.1 2000 OK\r\n\r\n", false),
            ("two", &reset, true),
            ("two", &early, false),
        ] {
            for body_max in [0, 100] {
                let (address, _) = scripted(vec![vec![bytes.to_vec()]]).await;
                let result = call_at(&client, host, address, body_max, LONG).await.unwrap();
                let is_answered = result.is_ok_and(|answer| answer.status == 200);
                let text = String::from_utf8_lossy(bytes);
                assert_eq!(is_answered, want && body_max == 0, "{host} {body_max} {text:?}");
            }
        }
    });
}

#[test]
fn an_overdue_call_fails_and_the_next_ones_are_made() {
    run(async {
        let silent = || vec![Vec::new()];
        let ok = b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
        let client = client(1, 9);
        for (host, second) in [("one", ok), ("two", answers(&[1]))] {
            let (address, accepted) = scripted(vec![silent(), vec![second]]).await;
            let first = call_at(&client, host, address, 0, Duration::from_millis(10));
            let timed_out = Err(CallError::Request(RequestError::TimedOut));
            assert_eq!(first.await.unwrap(), timed_out);
            let second = call_at(&client, host, address, 0, LONG).await.unwrap();
            assert!(second.is_ok(), "{host}: {second:?}");
            assert_eq!(accepted.get(), 2, "{host}: the silent connection is closed");
        }
    });
}

#[test]
fn idle_connections_close_after_their_time() {
    run(async {
        let ok = b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
        let (address, _) = scripted(vec![vec![ok]]).await;
        let idle_timeout = Duration::from_millis(1);
        let client =
            NoticeClient::start(options(CallLimits { idle_timeout, ..limits(1) })).unwrap();
        assert!(call_at(&client, "one", address, 0, LONG).await.unwrap().is_ok());
        while client.is_swept.get() {
            sleep(Duration::from_millis(5)).await;
        }
        assert!(client.hosts.borrow().is_empty());
        assert_eq!(client.parts.reactor.sockets_left(), CONNECTIONS_MAX);
    });
}
