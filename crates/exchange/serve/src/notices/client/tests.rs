//! Concurrent calls, over real sockets.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http_kit::address::parse_network;
use http_kit::dns::Resolved;
use http_kit::tls::client_config;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::*;

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
    tokio::task::spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::task::spawn_local(answer_all(stream, ask.clone()));
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

fn client(connections_max: usize, hosts_max: usize) -> Rc<NoticeClient> {
    let limits = CallLimits {
        timeout: Duration::from_secs(20),
        connections_max,
        idle_timeout: Duration::from_secs(20),
        networks_allowed: vec![parse_network("127.0.0.0/8").unwrap()],
    };
    let tls = Arc::new(client_config(Some(&[])));
    let client = NoticeClient::new(&limits, limits.public(), Arc::new(Here), tls);
    let client = Rc::into_inner(client).expect("nothing is called yet");
    Rc::new(NoticeClient { hosts_max, ..client })
}

type Done = oneshot::Receiver<Result<ServerAnswer, CallError>>;

fn call(client: &Rc<NoticeClient>, host: &str, server: &Held, path: &str) -> Done {
    let (done, hears) = oneshot::channel();
    let uri = format!("http://{host}:{}{path}", server.address.port());
    let request = Request::get(uri).body(Full::default()).unwrap();
    client.call(NoticeCall { request, body_max: 2, done });
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
        assert!(client.hosts.borrow().is_empty(), "hosts are forgotten with their last call");
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
        while client.hosts.borrow().values().any(|host| CALLS_MAX < host.calls.get()) {
            tokio::task::yield_now().await;
        }
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
