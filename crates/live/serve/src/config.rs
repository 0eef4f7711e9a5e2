//! `[live]`: its listener, who may connect, and the limits on clients and on what is kept for them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_kit::body::BodyLimits;
use live_core::feed::RingLimits;
use live_core::topic::check_topic_name;
use runtime::config::{Required, Secret, Section, ms, secs};
use runtime::service::{ClientCertificates, ClientTimeouts, HeadLimits, read_server};
use rustls::ServerConfig;

pub use crate::lots::config::LotsConfig;

/// Shortest secret that signs tokens, in bytes: as long as the hash (RFC 7518, section 3.2).
pub(crate) const SECRET_BYTES_MIN: usize = 32;
/// Most keys: each token is tried with all of them.
const KEYS_MAX: usize = 8;
/// Most header fields of a request.
const HEADERS_MAX: usize = 64;

/// The table `[live]`.
#[derive(Clone, Debug)]
pub struct LiveConfig {
    /// Address for clients.
    pub listen: SocketAddr,
    /// None: clients connect without TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// Keys that sign tokens.
    pub keys: Vec<SigningKey>,
    /// Whether clients on this machine need no token.
    pub trust_loopback: bool,
    /// Origins of web pages that may connect, besides the listener's own.
    pub origins: Vec<String>,
    /// Topics to which clients publish.
    pub topics: BTreeSet<String>,
    /// Time between heartbeats.
    pub heartbeat: Duration,
    /// Longest time that records gather while somebody subscribes.
    pub flush: Duration,
    /// What each shard keeps of the feed.
    pub ring: RingLimits,
    /// Limits on each client.
    pub limits: ClientLimits,
    /// How long clients are waited for.
    pub timeouts: ClientTimeouts,
    /// None: there are no lots.
    pub lots: Option<LotsConfig>,
}

/// A key that signs tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey {
    /// Its id, in the header of tokens (`kid`).
    pub id: String,
    /// The secret.
    pub secret: Secret,
}

/// Limits on what a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Longest message of a client, in bytes.
    pub message_bytes: usize,
    /// Topics of a connection.
    pub subscriptions: usize,
    /// Commands per second of a connection.
    pub commands_per_s: u32,
    /// Different selections of messages on each shard.
    pub views: usize,
    /// How far broadcasting may lag before nothing more is accepted.
    pub lag: Duration,
}

impl ClientLimits {
    /// Limits on the body of a request.
    pub(crate) fn body(&self) -> BodyLimits {
        BodyLimits { bytes_max: self.message_bytes, timeout: secs(10) }
    }
}

impl LiveConfig {
    /// Limits on the head of a request.
    pub(crate) const HEADS: HeadLimits =
        HeadLimits { bytes_max: 16 << 10, fields_max: HEADERS_MAX };

    /// Reads the keys of `[live]`.
    pub fn read(s: &mut Section<'_>) -> Self {
        let listen = s.socket_address(
            "listen",
            Required("127.0.0.1:7200"),
            "Address for clients: WebSocket, server-sent events and publishing. See docs/live.md.",
        );
        let keys = s.tables("key", "A key that signs the tokens of clients.", SigningKey::read);
        let trust_loopback = s.boolean(
            "trust_loopback",
            false,
            "Clients on this machine need no token and may see everything. Only for a listener on a \
             loopback address, without a proxy in front of it.",
        );
        check_access(s, listen, &keys, trust_loopback);
        let origins = s.texts(
            "origins",
            &[],
            parse_origin,
            "Origins of web pages that may connect, for example \"https://floor.example.com\". Pages \
             of this listener always may.",
        );
        let parse_topic = |name: &str| check_topic_name(name).map(|()| name.to_owned());
        let topics: Vec<String> = s.texts(
            "topics",
            &[],
            |name| parse_topic(name).map_err(str::to_owned),
            "Topics to which clients may publish.",
        );
        let heartbeat = s.duration(
            "heartbeat",
            "5s",
            ms(100)..=secs(300),
            "Time between heartbeats, which say how far a subscription is complete.",
        );
        let flush = s.duration(
            "flush_after",
            "2ms",
            ms(0)..=secs(1),
            "Maximum time that records gather before they are broadcast. While nobody subscribes, \
             the record gathers for longer.",
        );
        let ring = s.section("ring", "What each shard keeps of the feed, in memory.", read_ring);
        let limits = s.section("limits", "Limits on each client.", ClientLimits::read);
        let idle = "A connection without a request or a subscription for this long is closed.";
        let timeouts = ClientTimeouts::read(s, idle);
        let about = "TLS towards clients. Without it their tokens cross the network in clear text.";
        let tls = s.table("tls", about, |s| {
            read_server(s, &["http/1.1"], ClientCertificates::Configurable)
        });
        let about = "Lots: open auctions of deals and sponsorships. See docs/lots.md. Needs [budgets], \
                     which holds the money of bids.";
        let lots = s.table("lots", about, LotsConfig::read);
        let (tls, topics) = (tls.flatten(), topics.into_iter().collect());
        Self {
            listen,
            tls,
            keys,
            trust_loopback,
            origins,
            topics,
            heartbeat,
            flush,
            ring,
            limits,
            timeouts,
            lots,
        }
    }
}

fn check_access(s: &mut Section<'_>, listen: SocketAddr, keys: &[SigningKey], is_trusting: bool) {
    if is_trusting && !listen.ip().is_loopback() {
        let remedy = "needs a `listen` on a loopback address, such as 127.0.0.1:7200";
        s.problem("trust_loopback", true, remedy);
    }
    if keys.is_empty() && !is_trusting {
        let remedy = "nobody may connect: add a [[live.key]], or set trust_loopback = true";
        s.problem("key", "…", remedy);
    }
    if keys.len() > KEYS_MAX {
        s.problem("key", keys.len(), format!("at most {KEYS_MAX} keys are possible"));
    }
    let ids: BTreeSet<_> = keys.iter().map(|key| &key.id).collect();
    if ids.len() < keys.len() {
        s.problem("key", "…", "two keys have the same `id`");
    }
}

fn read_ring(s: &mut Section<'_>) -> RingLimits {
    RingLimits {
        bytes_max: s.bytes(
            "bytes",
            "16MiB",
            64 << 10..=1 << 30,
            "Messages that a shard keeps for subscribers that read slowly, and for those that \
             reconnect. Older ones come from the record.",
        ),
        age_max: s.duration(
            "age",
            "30s",
            ms(100)..=secs(3_600),
            "Maximum age of a message in the ring. A strict subscriber that is further behind is \
             disconnected.",
        ),
    }
}

/// Reads an origin (RFC 6454, section 7): scheme, host, and a port unless it is the scheme's own.
fn parse_origin(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && !host.contains('/') => Ok(text.to_ascii_lowercase()),
        _ => Err("needs the form \"https://host\" or \"https://host:port\"".to_owned()),
    }
}

impl SigningKey {
    fn read(s: &mut Section<'_>) -> Self {
        let id = s.text("id", Required("key-1"), "The key's id, in the tokens that it signs.");
        let secret = s.secret(
            "secret",
            Required("env:VICKREY_LIVE_SECRET"),
            "The secret that signs tokens (HMAC with SHA-256), at least 32 bytes.",
        );
        if secret.expose().len() < SECRET_BYTES_MIN && !secret.expose().is_empty() {
            let remedy = "has fewer than 32 bytes: make one with `openssl rand -hex 32`";
            s.problem("secret", "***", remedy);
        }
        Self { id, secret }
    }
}

impl ClientLimits {
    fn read(s: &mut Section<'_>) -> Self {
        Self {
            message_bytes: s.bytes(
                "message_bytes",
                "16KiB",
                256..=256 << 10,
                "Maximum length of a client's message.",
            ),
            subscriptions: s.integer(
                "subscriptions",
                16,
                1..=256_usize,
                "Maximum number of topics of a connection.",
            ),
            commands_per_s: s.integer(
                "commands_per_s",
                100,
                1..=1_000_000_u32,
                "Maximum number of commands per second of a connection, over ten seconds.",
            ),
            views: s.integer(
                "views",
                1_024,
                1..=65_536_usize,
                "Maximum number of different selections (topic, filter and rights) per shard. \
                 Subscribers with the same one share it.",
            ),
            lag: s.duration(
                "lag",
                "1s",
                ms(10)..=secs(60),
                "While messages reach subscribers later than this, nothing is accepted for \
                 publishing.",
            ),
        }
    }
}
