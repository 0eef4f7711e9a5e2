//! The keys of `[admin]`.

use std::net::SocketAddr;

use super::allowance::ChangeLimits;
use super::host;
use crate::config::{Optional, Secret, Section, secs};
use crate::shards::ConnectionTimeouts;

/// Shortest token; a shorter one could be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// A scraper's connection stays open between requests; heads arrive at once.
const TIMEOUTS: ConnectionTimeouts = ConnectionTimeouts { idle: secs(60), head: secs(10) };

/// The admin listener's address, access and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminOptions {
    /// Listening address.
    pub listen: SocketAddr,
    /// Bearer token that requests need. None if they need none.
    pub token: Option<Secret>,
    /// Most connections open at once; a further one replaces the longest idle one.
    pub connections_max: usize,
    /// Longest wait for the next request, and for a head.
    pub timeouts: ConnectionTimeouts,
    /// Accepted host names besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Rate limit on changes.
    pub changes: ChangeLimits,
}

impl AdminOptions {
    /// Declares and reads the keys of `[admin]`.
    pub fn read(s: &mut Section<'_>) -> Self {
        let options = Self {
            listen: s.socket_address(
                "listen",
                "127.0.0.1:9464",
                "Address to listen on for health checks, metrics and the admin API.",
            ),
            token: s.secret(
                "token",
                Optional("env:VICKREY_ADMIN_TOKEN"),
                "Bearer token that clients must send (`authorization: Bearer …`) except for health \
                 checks. Required unless `listen` is a loopback address.",
            ),
            connections_max: s.integer(
                "connections_max",
                32,
                1..=10_000_usize,
                "Maximum number of open connections. At the limit, a new connection replaces the \
                 one that has been idle longest. If all are busy, 8 more are accepted, for health \
                 checks and metrics only.",
            ),
            timeouts: TIMEOUTS,
            hosts: s
                .texts(
                    "hosts",
                    Optional(&["exchange-1.internal"]),
                    host::parse_host,
                    "Host names to accept, in addition to IP addresses and `localhost`. To prevent \
                     DNS rebinding by web pages, requests for other hosts are refused, except for \
                     health checks.",
                )
                .unwrap_or_default(),
            changes: ChangeLimits::read(s),
        };
        options.check(s);
        options
    }

    fn check(&self, s: &mut Section<'_>) {
        match &self.token {
            None if !self.listen.ip().is_loopback() => {
                let remedy = "is reached by others than this machine: set `admin.token`, for \
                     example from `openssl rand -hex 32`, or listen on 127.0.0.1";
                s.problem("listen", format!("\"{}\"", self.listen), remedy);
            }
            None => (),
            Some(token) if token.expose().len() < TOKEN_BYTES_MIN => {
                let remedy = format!("has fewer than {TOKEN_BYTES_MIN} letters: it can be guessed");
                s.problem("token", "", remedy);
            }
            Some(token) if !token.expose().bytes().all(|byte| byte.is_ascii_graphic()) => {
                let remedy = "has letters that no header can bear: use ASCII without spaces";
                s.problem("token", "", remedy);
            }
            Some(_) => (),
        }
    }
}
