//! `[pacer]`: its listener, its limits, and the clients that may connect.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use runtime::config::{Required, Secret, Section, ms, secs};
use runtime::service::{ClientCertificates, read_server};
use runtime::shards::ConnectionTimeouts;
use rustls::ServerConfig;

/// Longest id or secret: a hello has one byte for each length.
const TEXT_BYTES_MAX: usize = 255;
/// The next longer class of reservations lasts this many times as long.
const CLASS_FACTOR: u32 = 4;
/// Classes of reservations, beside the longest.
const CLASSES: usize = 5;

/// The table `[pacer]`.
#[derive(Clone, Debug)]
pub struct PacerConfig {
    /// Address for bidders.
    pub listen: SocketAddr,
    /// None: bidders connect without TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// Who may connect.
    pub clients: Vec<BidderConfig>,
    /// Lifetime of a reservation whose request names none.
    pub reservation: Duration,
    /// Limits on frames.
    pub limits: FrameLimits,
    /// Longest waits for a frame and for the rest of one.
    pub timeouts: ConnectionTimeouts,
    /// Longest wait for a client to read.
    pub write_timeout: Duration,
}

/// Limits on what a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// Frames that may be unanswered.
    pub credit: u16,
    /// Length of a frame.
    pub bytes_max: u32,
    /// Requests of a batch.
    pub requests_max: u16,
    /// Candidates of a request.
    pub candidates_max: u16,
    /// Settlements of a frame.
    pub settlements_max: u16,
    /// Connections of a client on each shard.
    pub connections_max: u32,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BidderConfig {
    /// Its id.
    pub id: Arc<str>,
    /// Its secret.
    pub secret: Secret,
    /// Accounts whose campaigns it may name. Empty: all.
    pub accounts: BTreeSet<String>,
}

impl PacerConfig {
    /// Reads the keys of `[pacer]`.
    pub fn read(s: &mut Section<'_>) -> Self {
        let listen = s.socket_address(
            "listen",
            Required("127.0.0.1:7100"),
            "Address for bidders: see docs/pacer-protocol.md.",
        );
        let reservation = s.duration(
            "reservation",
            "15s",
            secs(1)..=secs(86_400),
            "Lifetime of a reservation, unless its bid request names another: how long after the \
             bid a win is usually reported. A later win is booked, but may exceed the budget.",
        );
        let idle = s.duration(
            "idle_timeout",
            "60s",
            secs(1)..=secs(86_400),
            "A connection without a frame for this long is closed.",
        );
        let head = s.duration(
            "frame_timeout",
            "10s",
            ms(100)..=secs(600),
            "Maximum time from the first byte of a frame to its last, and for the TLS handshake.",
        );
        let write_timeout = s.duration(
            "write_timeout",
            "30s",
            secs(1)..=secs(3_600),
            "A connection whose client reads nothing for this long is closed.",
        );
        let clients = s.tables("client", "A bidder that may connect.", BidderConfig::read);
        let ids: BTreeSet<_> = clients.iter().map(|client| &client.id).collect();
        if clients.is_empty() {
            s.problem("client", "…", "nobody may connect: add a [[pacer.client]]");
        } else if ids.len() < clients.len() {
            s.problem("client", "…", "two clients have the same `id`");
        }
        let about =
            "TLS towards bidders. Without it their secrets cross the network in clear text.";
        let tls = s.table("tls", about, |s| {
            read_server(s, &["vickrey-pacer"], ClientCertificates::Configurable)
        });
        let tls = tls.flatten();
        let timeouts = ConnectionTimeouts { idle, head };
        let limits = s.section("limits", "Limits on what bidders send.", FrameLimits::read);
        Self { listen, tls, clients, reservation, limits, timeouts, write_timeout }
    }

    /// Lifetimes of reservations to offer, ascending.
    pub fn lifetimes(&self) -> Vec<Duration> {
        let longer = |lifetime: &Duration| Some(*lifetime * CLASS_FACTOR);
        std::iter::successors(Some(self.reservation), longer).take(CLASSES).collect()
    }
}

impl FrameLimits {
    fn read(s: &mut Section<'_>) -> Self {
        Self {
            credit: s.integer(
                "credit",
                64,
                1..=4_096_u16,
                "Frames of a connection that may be unanswered.",
            ),
            bytes_max: u32::try_from(s.bytes(
                "frame_bytes",
                "64KiB",
                4_096..=1 << 20,
                "Maximum length of a frame. A connection needs two buffers of this size.",
            ))
            .expect("the range is below 4 GiB"),
            requests_max: s.integer(
                "requests",
                256,
                1..=4_096_u16,
                "Maximum number of bid requests in a batch.",
            ),
            candidates_max: s.integer(
                "candidates",
                16,
                1..=255_u16,
                "Maximum number of candidates of a bid request.",
            ),
            settlements_max: s.integer(
                "settlements",
                512,
                1..=4_096_u16,
                "Maximum number of settlements in a frame.",
            ),
            connections_max: s.integer(
                "connections",
                256,
                1..=65_536_u32,
                "Maximum number of connections of one client, per shard.",
            ),
        }
    }
}

impl BidderConfig {
    fn read(s: &mut Section<'_>) -> Self {
        let id = s.text("id", Required("dsp-1"), "The client's id, in its hello and in metrics.");
        let secret =
            s.secret("secret", Required("env:VICKREY_DSP_1_SECRET"), "The secret in its hello.");
        for (key, length) in [("id", id.len()), ("secret", secret.expose().len())] {
            if length > TEXT_BYTES_MAX {
                s.problem(key, length, "has more than 255 bytes");
            }
        }
        let accounts: Vec<String> = s.texts(
            "accounts",
            &[],
            |account| Ok(account.to_owned()),
            "Accounts whose campaigns it may name. If absent, those of all accounts.",
        );
        Self { id: id.into(), secret, accounts: accounts.into_iter().collect() }
    }
}
