//! Requests to scripted servers, over real sockets.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use hyper::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use super::stream::HTTP2;
use super::*;
use crate::address::parse_network;
use crate::dns::Resolved;
use crate::head::HeadLimits;
use crate::server::{HttpHandler, serve_http2};
use crate::tls::client_config;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const LONG: &str = "HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\nxxxx";

/// A scripted server: on each connection it reads one head per response of the script and closes
/// after the last; with an empty script it never responds.
struct Scripted {
    address: SocketAddr,
    accepted: Rc<std::cell::Cell<usize>>,
}

async fn serve(scripts: &'static [&'static [&'static str]]) -> Scripted {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = Rc::new(std::cell::Cell::new(0));
    let count = Rc::clone(&accepted);
    tokio::task::spawn_local(async move {
        for script in scripts {
            let (stream, _) = listener.accept().await.unwrap();
            count.set(count.get() + 1);
            tokio::task::spawn_local(follow(stream, script));
        }
        // A further connection is counted too, and closed.
        drop(listener.accept().await);
        count.set(count.get() + 1);
    });
    Scripted { address, accepted }
}

async fn follow(mut stream: TcpStream, script: &[&str]) {
    for answer in script {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        if answer.is_empty() {
            std::future::pending::<()>().await;
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

struct Names(Vec<(&'static str, Result<Vec<IpAddr>, String>)>);

impl Resolve for Names {
    fn resolve<'r>(&'r self, host: &'r str) -> Resolved<'r> {
        let known = self.0.iter().find(|(name, _)| *name == host);
        let answer = known.map_or(Err("NXDOMAIN".to_owned()), |(_, answer)| answer.clone());
        Box::pin(std::future::ready(answer))
    }
}

fn options() -> ClientOptions {
    ClientOptions {
        timeout: Duration::from_secs(20),
        idle_timeout: Duration::from_secs(20),
        idle_per_host_max: 4,
        connections_max: 100,
        addresses: AddressRule::PublicAnd(vec![parse_network("127.0.0.0/8").unwrap()]),
        tls: Arc::new(client_config(Some(&[]))),
    }
}

fn client(
    options: ClientOptions,
    names: Vec<(&'static str, Result<Vec<IpAddr>, String>)>,
) -> HttpClient {
    HttpClient::new(options, Arc::new(Names(names)))
}

async fn get(
    client: &HttpClient,
    url: &str,
    body_max: usize,
) -> Result<(StatusCode, Bytes), RequestError> {
    let request = Request::get(url).body(Full::default()).unwrap();
    let answer = client.request(request, body_max).await?;
    Ok((answer.status(), answer.into_body()))
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(LocalSet::new().run_until(test));
}

#[test]
fn bodies_are_dropped_unless_wanted() {
    run(async {
        const CUT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nx";
        let server = serve(&[&[OK, OK, LONG], &[LONG], &[OK], &[CUT], &[CUT]]).await;
        let (client, url) = (client(options(), vec![]), format!("http://{}/", server.address));
        assert_eq!(get(&client, &url, 2).await.unwrap().1, "ok");
        assert_eq!(get(&client, &url, 0).await, Ok((StatusCode::OK, Bytes::new())));
        let unwanted = get(&client, &url, 0).await;
        assert_eq!(unwanted, Ok((StatusCode::OK, Bytes::new())), "its head says all that is asked");
        for body_max in [1000, 1] {
            let broken = get(&client, &url, body_max).await;
            assert!(matches!(broken, Err(RequestError::Broken(_))), "{body_max}: {broken:?}");
        }
        assert_eq!(get(&client, &url, 0).await, Ok((StatusCode::OK, Bytes::new())), "cut short");
        let broken = get(&client, &url, 2).await;
        assert!(matches!(broken, Err(RequestError::Broken(_))), "{broken:?}");
    });
}

/// RFC 9112, section 9.3.2: a server may close at any time without notice.
#[test]
fn a_server_that_answers_one_request_a_connection_answers_all() {
    run(async {
        let server = serve(&[&[OK], &[OK], &[OK]]).await;
        let (client, url) = (client(options(), vec![]), format!("http://{}/", server.address));
        for _ in 0..3 {
            assert_eq!(get(&client, &url, 2).await.unwrap().1, "ok");
        }
        assert_eq!(server.accepted.get(), 3);
    });
}

/// Otherwise it would count as the response to the next request.
#[test]
fn what_nobody_asked_for_answers_no_request() {
    run(async {
        const TWICE: &str = "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        let server = serve(&[&[TWICE, ""], &[OK]]).await;
        let (client, url) = (client(options(), vec![]), format!("http://{}/", server.address));
        assert_eq!(get(&client, &url, 0).await.unwrap().0, StatusCode::NO_CONTENT);
        assert_eq!(get(&client, &url, 0).await.unwrap().0, StatusCode::OK);
    });
}

#[test]
fn a_server_that_hangs_costs_its_timeout() {
    run(async {
        let (hangs, answers) = (serve(&[&[""]]).await, serve(&[&[OK]]).await);
        let options = ClientOptions { timeout: Duration::from_millis(50), ..options() };
        let client = client(options, vec![]);
        let slow = format!("http://{}/", hangs.address);
        let quick = format!("http://{}/", answers.address);
        let (slow, quick) = tokio::join!(get(&client, &slow, 0), get(&client, &quick, 0));
        assert_eq!(slow, Err(RequestError::TimedOut));
        assert!(quick.is_ok(), "{quick:?}");
    });
}

#[test]
fn addresses_that_are_not_public_are_not_connected_to() {
    run(async {
        let server = serve(&[&[OK]]).await;
        let port = server.address.port();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let names = || {
            vec![
                ("inside", Ok(vec![ip("127.0.0.1")])),
                ("mapped", Ok(vec![ip("::ffff:127.0.0.1")])),
                ("both", Ok(vec![ip("169.254.169.254"), ip("127.0.0.1")])),
                ("half", Ok(vec![ip("127.0.0.3"), ip("169.254.169.254")])),
                ("none", Ok(vec![])),
            ]
        };
        let at = |host: &str| format!("http://{host}:{port}/");
        let addresses = AddressRule::PublicAnd(vec![]);
        let strict = client(ClientOptions { addresses, ..options() }, names());
        for host in ["127.0.0.1", "[::1]", "inside", "mapped"] {
            let forbidden = get(&strict, &at(host), 0).await;
            assert!(matches!(forbidden, Err(RequestError::Forbidden(_))), "{host}: {forbidden:?}");
        }
        assert_eq!(server.accepted.get(), 0, "not even connected to");
        let client = client(options(), names());
        let mapped = get(&client, &at("mapped"), 0).await;
        assert!(
            matches!(mapped, Err(RequestError::Forbidden(_))),
            "not what is allowed: {mapped:?}"
        );
        assert!(get(&client, &at("both"), 0).await.is_ok());
        // There is an allowed address, which may respond later.
        let half = get(&client, &at("half"), 0).await;
        assert!(matches!(half, Err(RequestError::Unreachable(_))), "{half:?}");
        for host in ["none", "unheard-of"] {
            let unresolved = get(&client, &at(host), 0).await;
            assert!(
                matches!(unresolved, Err(RequestError::Unresolved(_))),
                "{host}: {unresolved:?}"
            );
        }
    });
}

/// The first address accepts, as kernels do, but there is no handshake; the second closes.
#[test]
fn an_address_that_is_silent_leaves_time_for_the_next() {
    run(async {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = silent.local_addr().unwrap().port();
        let next = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
        tokio::task::spawn_local(async move { drop(next.accept().await) });
        let both = Ok(vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2])]);
        let options = ClientOptions { timeout: Duration::from_millis(400), ..options() };
        let client = client(options, vec![("both", both)]);
        let refused = get(&client, &format!("https://both:{port}/"), 0).await;
        assert!(matches!(refused, Err(RequestError::Unreachable(_))), "the second's: {refused:?}");
    });
}

/// A new host name for each request must not use up the descriptors.
#[test]
fn idle_connections_make_room_for_others() {
    run(async {
        // They keep connections open.
        let two = || serve(&[&[OK, OK]]);
        let servers = [two().await, two().await, two().await, two().await, two().await];
        let client = client(ClientOptions { connections_max: 4, ..options() }, vec![]);
        let urls = servers.each_ref().map(|server| format!("http://{}/", server.address));
        for (url, want) in urls.iter().zip([1, 2, 1, 2, 1]) {
            assert!(get(&client, url, 2).await.is_ok());
            assert_eq!(client.connector.0.open.load(Ordering::Relaxed), want);
        }
    });
}

/// A request that is not answered keeps the pool that it came from, with its idle connections.
#[test]
fn a_slow_request_leaves_room_for_others() {
    run(async {
        let idle = serve(&[&[OK, OK]]).await;
        let slow = serve(&[&[""]]).await;
        let others = [serve(&[&[OK, OK]]).await, serve(&[&[OK, OK]]).await];
        let client = Rc::new(client(ClientOptions { connections_max: 4, ..options() }, vec![]));
        let url = |server: &Scripted| format!("http://{}/", server.address);
        assert!(get(&client, &url(&idle), 2).await.is_ok());
        let (waiting, slow_url) = (Rc::clone(&client), url(&slow));
        let waits = tokio::task::spawn_local(async move { get(&waiting, &slow_url, 2).await });
        while slow.accepted.get() == 0 {
            tokio::task::yield_now().await;
        }
        for server in &others {
            assert!(get(&client, &url(server), 2).await.is_ok());
        }
        waits.abort();
    });
}

struct Two;

impl HttpHandler for Two {
    type Body = Full<Bytes>;

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        Response::new(format!("{:?}", request.version()).into())
    }
}

#[test]
fn http_2_is_spoken_where_the_server_agrees_on_it() {
    run(async {
        let issued = rcgen::generate_simple_self_signed(["two".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(issued.signing_key.serialize_der());
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let builder = rustls::ServerConfig::builder_with_provider(provider.into());
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let chain = vec![issued.cert.der().clone()];
        let mut config = builder.with_single_cert(chain.clone(), key.unwrap()).unwrap();
        config.alpn_protocols = vec![HTTP2.to_vec()];
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::task::spawn_local(async move {
            // One connection carries all requests.
            let (stream, _) = listener.accept().await.unwrap();
            let stream = acceptor.accept(stream).await.unwrap();
            let heads = HeadLimits { bytes_max: 16 * 1024, fields_max: 64 };
            let _ended = serve_http2(stream, heads, &Rc::new(Two), std::future::pending()).await;
        });
        let tls = Arc::new(client_config(Some(&chain)));
        let here = Ok(vec![IpAddr::from([127, 0, 0, 1])]);
        let client = client(ClientOptions { tls, ..options() }, vec![("two", here)]);
        let url = format!("https://two:{port}/");
        let warm_up = get(&client, &url, 100).await;
        assert_eq!(warm_up.unwrap().1, "HTTP/2.0");
        let (one, other) = tokio::join!(get(&client, &url, 100), get(&client, &url, 100));
        assert_eq!((one.unwrap().1, other.unwrap().1), ("HTTP/2.0".into(), "HTTP/2.0".into()));
    });
}
