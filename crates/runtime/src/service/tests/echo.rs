//! The echo service: its section, listeners, shard part and admin API.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use http_body_util::{Either, Full};
use http_kit::body::{BodyLimits, read};
use http_kit::head::MalformedHead;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::{Response, StatusCode};
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::admin::{Api, ChangeAllowance, Method, Operation, Reply, Route};
use crate::config::{Optional, Required, Section, ms, secs};
use crate::metrics::{Counter, Exposition, PerShard};
use crate::service::{
    BoxError, ClientConnection, ConnectionOptions, ConnectionStream, HeadLimits, HttpRequest,
    HttpService, LocalFuture, RunningService, Service, ServiceError, ServiceShard, Startup,
};
use crate::shards::{ConnectionTimeouts, ShardContext};

/// The listeners, in the order of `addresses`.
const HTTP: usize = 0;

/// Addresses of started services, so that a test can detect that one did not start.
static STARTED_AT: Mutex<Vec<SocketAddr>> = Mutex::new(Vec::new());

#[derive(Debug)]
pub struct EchoConfig {
    http: SocketAddr,
    tcp: SocketAddr,
    idle_timeout: Duration,
    tls: Option<Arc<ServerConfig>>,
}

pub struct Echo {
    idle_timeout: Duration,
    tls: Option<Arc<ServerConfig>>,
    /// Echoes by shard.
    echoes: PerShard<Counter>,
    begun: (Mutex<usize>, Condvar),
    is_closed: AtomicBool,
}

struct EchoShard {
    echo: Arc<Echo>,
    shard: usize,
}

/// The service's state, for operators.
#[derive(serde::Serialize, schemars::JsonSchema)]
struct EchoView {
    /// Since the start.
    echoes: u64,
}

fn routes() -> Vec<Route<Arc<Echo>>> {
    vec![Route {
        method: Method::Get,
        path: "/v1/echo",
        answer: |echo, _| Ok(Reply::json(&EchoView { echoes: echo.count() })),
        operation: Operation::new("echo", "echo", "What was echoed.")
            .json::<EchoView>(200, "How often."),
    }]
}

impl Service for Echo {
    const NAME: &'static str = "echo";

    type Config = EchoConfig;

    fn read(s: &mut Section<'_>) -> Option<EchoConfig> {
        s.table("echo", "What is sent back.", |s| EchoConfig {
            http: s.socket_address("http", Required("127.0.0.1:7007"), "Over HTTP."),
            tcp: s.socket_address("tcp", Required("127.0.0.1:7"), "Over TCP."),
            idle_timeout: s.duration("idle_timeout", "10s", ms(1)..=secs(60), "Without a byte."),
            tls: read_tls(s),
        })
    }

    fn addresses(config: &EchoConfig) -> Vec<SocketAddr> {
        vec![config.http, config.tcp]
    }

    fn start(config: EchoConfig, startup: &mut Startup<'_>) -> Result<Arc<Self>, ServiceError> {
        STARTED_AT.lock().unwrap().extend(startup.listening);
        let EchoConfig { idle_timeout, tls, .. } = config;
        let echoes = PerShard::new(startup.shards);
        let (begun, is_closed) = (Default::default(), AtomicBool::new(false));
        Ok(Arc::new(Self { idle_timeout, tls, echoes, begun, is_closed }))
    }
}

impl RunningService for Echo {
    fn start_shard<'s>(
        self: Arc<Self>,
        shard: &'s ShardContext,
    ) -> LocalFuture<'s, Result<Option<Rc<dyn ServiceShard>>, BoxError>> {
        let shard = EchoShard { echo: self, shard: shard.index() };
        Box::pin(async { Ok(Some(Rc::new(shard) as _)) })
    }

    fn expose(self: Arc<Self>, exposition: &mut Exposition) {
        exposition.add(move |page| page.counters("echoes", "Echoes.")?.value(&[], self.count()));
    }

    fn admin_apis(self: Arc<Self>, _changes: &ChangeAllowance) -> Vec<Api> {
        vec![Api::new(self, routes())]
    }

    fn close(&self) -> Result<(), ServiceError> {
        self.is_closed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Echo {
    fn count(&self) -> u64 {
        self.echoes.iter().map(Counter::value).sum()
    }

    /// Waits until `count` requests have begun.
    pub fn until_begun(&self, count: usize) {
        let begun = self.begun.0.lock().unwrap();
        drop(self.begun.1.wait_while(begun, |begun| *begun < count).unwrap());
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Number of started services that listen at `address`.
    pub fn started_at(address: SocketAddr) -> usize {
        STARTED_AT.lock().unwrap().iter().filter(|at| **at == address).count()
    }
}

impl ServiceShard for EchoShard {
    fn connection_options(&self, listener: usize) -> ConnectionOptions {
        let tls = self.echo.tls.clone().filter(|_| listener == HTTP);
        let timeouts = ConnectionTimeouts { idle: self.echo.idle_timeout, head: secs(10) };
        ConnectionOptions {
            tls,
            timeouts,
            write_timeout: secs(10),
            unsent_max: None,
            dates_arrivals: true,
        }
    }

    fn serve(self: Rc<Self>, connection: ClientConnection) -> LocalFuture<'static, ()> {
        if connection.listener == HTTP {
            let heads = HeadLimits { bytes_max: 16 * 1024, fields_max: 64 };
            Box::pin(connection.serve_http(heads, EchoHttp(self)))
        } else {
            Box::pin(self.echo_lines(connection))
        }
    }
}

impl EchoShard {
    fn count(&self) {
        self.echo.echoes.shard(self.shard).increment();
    }

    /// Echoes over TCP until the client ends.
    async fn echo_lines(self: Rc<Self>, mut connection: ClientConnection) {
        let shutdown = connection.shutdown().clone();
        let stream = connection.stream();
        tokio::select! {
            _ = copy(stream, &self) => (),
            _ = shutdown.started() => (),
        }
    }
}

async fn copy(stream: &mut ConnectionStream, shard: &EchoShard) -> std::io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        shard.count();
        stream.write_all(&buffer[..read]).await?;
    }
}

struct EchoHttp(Rc<EchoShard>);

impl HttpService for EchoHttp {
    /// A body read in full, or passed on as a stream.
    type Body = Either<Full<Bytes>, Incoming>;

    const UPGRADES: bool = true;

    async fn answer(&self, request: HttpRequest) -> Response<Self::Body> {
        let echo = &self.0.echo;
        *echo.begun.0.lock().unwrap() += 1;
        echo.begun.1.notify_all();
        match (request.head.uri.path(), request.head.uri.query()) {
            ("/stream", _) => Response::new(Either::Right(request.body)),
            ("/lines", None) => {
                let shard = Rc::clone(&self.0);
                request.upgrade(|mut upgraded| async move {
                    if upgraded.stream.write_all(&upgraded.read).await.is_ok() {
                        // The client may have left.
                        let _ended = copy(&mut upgraded.stream, &shard).await;
                    }
                });
                let mut response = plain(StatusCode::SWITCHING_PROTOCOLS, Bytes::new());
                let headers = response.headers_mut();
                headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
                headers.insert(UPGRADE, HeaderValue::from_static("lines"));
                response
            }
            ("/lines", Some(_)) => {
                request.upgrade(|_| async { unreachable!("the answer is not 101") });
                plain(StatusCode::UPGRADE_REQUIRED, Bytes::new())
            }
            _ => {
                let limits = BodyLimits { bytes_max: 1024, timeout: secs(10) };
                match read(&request.head.headers, request.body, limits).await {
                    Ok(body) => {
                        self.0.count();
                        plain(StatusCode::OK, body)
                    }
                    Err(error) => plain(error.status(), error.to_string().into()),
                }
            }
        }
    }

    fn malformed(&self, problem: &MalformedHead) -> Response<Self::Body> {
        plain(StatusCode::BAD_REQUEST, problem.to_string().into())
    }
}

fn plain(status: StatusCode, body: Bytes) -> Response<Either<Full<Bytes>, Incoming>> {
    let mut response = Response::new(Either::Left(Full::new(body)));
    *response.status_mut() = status;
    response
}

fn read_tls(s: &mut Section<'_>) -> Option<Arc<ServerConfig>> {
    use rustls::pki_types::pem::PemObject as _;
    let pem = s.text("certificate", Optional("PEM"), "With the key, to encrypt HTTP.")?;
    let certificate = rustls::pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(pem.as_bytes()).ok()?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let builder = ServerConfig::builder_with_provider(provider.into());
    let builder = builder.with_safe_default_protocol_versions().ok()?.with_no_client_auth();
    let mut config = builder.with_single_cert(vec![certificate], key).ok()?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Some(Arc::new(config))
}
