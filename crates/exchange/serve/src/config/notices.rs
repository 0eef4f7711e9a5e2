//! `[exchange.notices]`: who fires DSPs' notices, and how they are sealed and delivered.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use exchange_core::delivery::DeliveryPolicy;
use exchange_core::{BeaconBase, Lifetimes, NoticeMode};
use http_kit::address::parse_network;
use http_kit::client::AddressRule;
use http_kit::tls::Authorities;
use ipnet::IpNet;
use runtime::config::{Optional, Required, Secret, Section, ms, secs};
use runtime::service::read_authorities;

const ABOUT_URL: &str = "URL at which browsers and callers reach `/n/` of this exchange. Beacon URLs \
                         begin with it. Without HTTPS, ads on secure impressions get no beacon and \
                         are billed when they are sold.";
const ABOUT_MARKUP_TIMEOUT: &str = "Timeout for fetching an ad that is served on the win notice. \
                                    The auction may leave less time.";

#[derive(Clone, Debug)]
pub struct NoticesConfig {
    /// URL prefix of tokens.
    pub base: BeaconBase,
    /// Seals and opens tokens. None: the key kept beside the log.
    pub key: Option<[u8; 32]>,
    /// Opens tokens of the previous key.
    pub key_previous: Option<[u8; 32]>,
    /// Default for publishers.
    pub mode: NoticeMode,
    pub lifetimes: Lifetimes,
    pub calls: CallLimits,
    /// Trusted signers of notice hosts' certificates. None: the system's.
    pub authorities: Option<Authorities>,
    pub policy: DeliveryPolicy,
    /// Longest wait for an ad from a win notice.
    pub markup_timeout: Duration,
    pub markup_bytes_max: usize,
    /// Proxies whose `x-forwarded-for` is trusted.
    pub proxies_trusted: Vec<IpNet>,
    /// Beacon URLs of other nodes, by number.
    pub nodes: HashMap<u32, BeaconBase>,
    /// Most connections from one shard to one node.
    pub node_connections_max: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Longest wait for a connection and the answer.
    pub timeout: Duration,
    pub connections_max: usize,
    pub idle_timeout: Duration,
    /// Networks that may be called although they are not public.
    pub networks_allowed: Vec<IpNet>,
}

impl CallLimits {
    /// The rule for hosts that DSPs name.
    pub fn public(&self) -> AddressRule {
        AddressRule::PublicAnd(self.networks_allowed.clone())
    }
}

pub(super) fn modes() -> [(&'static str, NoticeMode); 3] {
    let modes = [NoticeMode::Final, NoticeMode::Upstream, NoticeMode::PassThrough];
    modes.map(|mode| (mode.label(), mode))
}

impl NoticesConfig {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let own_base = s.parsed("url", Required("https://exchange.example/n/"), base, ABOUT_URL);
        let key = s.secret(
            "key",
            Optional("env:VICKREY_NOTICE_KEY"),
            "Key that seals beacons: 64 hexadecimal digits, the same on all nodes. If absent, a \
             key is generated and stored in `record.directory`.",
        );
        let key = read_key(s, "key", key);
        let previous = s.secret(
            "key_previous",
            Optional("env:VICKREY_NOTICE_KEY_PREVIOUS"),
            "Previous key, to accept beacons that it sealed. Remove it once they have all expired.",
        );
        let key_previous = read_key(s, "key_previous", previous);
        if key.is_some() && key == key_previous {
            s.problem("key_previous", "***", "is the same as `key`, remove it");
        }
        Self {
            base: own_base,
            key,
            key_previous,
            mode: s.one_of(
                "mode",
                "final",
                &modes(),
                "Who fires notices: final (we do; ours is the last auction), upstream (we do, when \
                 the caller fires ours) or pass_through (the caller does). A [[publisher]] can \
                 override it.",
            ),
            lifetimes: s.section(
                "lifetimes",
                "Lifetimes of beacons, by type of ad (OpenRTB 2.6, section 7.2).",
                read_lifetimes,
            ),
            markup_timeout: s.duration(
                "markup_timeout",
                "100ms",
                ms(1)..=secs(10),
                ABOUT_MARKUP_TIMEOUT,
            ),
            markup_bytes_max: s.bytes(
                "markup_bytes_max",
                "64KiB",
                256..=16 * 1024 * 1024,
                "Maximum size of an ad that is served on the win notice.",
            ),
            calls: read_calls(s),
            authorities: read_authorities(s),
            policy: read_policy(s),
            proxies_trusted: s.texts(
                "proxies_trusted",
                &[],
                network,
                "Addresses of proxies whose `x-forwarded-for` is trusted to name the device that \
                 called a beacon, for example 10.0.0.0/8. Include the other nodes.",
            ),
            nodes: read_nodes(s),
            node_connections_max: s.integer(
                "node_connections_max",
                64,
                1..=1024_usize,
                "Maximum number of connections from one shard to another node, for forwarding its \
                 beacons.",
            ),
        }
    }
}

fn read_key(s: &mut Section<'_>, key: &str, secret: Option<Secret>) -> Option<[u8; 32]> {
    let secret = secret?;
    let bytes = parse_key(secret.expose());
    if bytes.is_none() {
        s.problem(key, "***", "must be 64 hexadecimal digits, as of `openssl rand -hex 32`");
    }
    bytes
}

/// Parses 64 hexadecimal digits.
pub(crate) fn parse_key(text: &str) -> Option<[u8; 32]> {
    let is_key = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut key = [0; 32];
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)).filter(|_| is_key) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    is_key.then_some(key)
}

fn read_nodes(s: &mut Section<'_>) -> HashMap<u32, BeaconBase> {
    let seen = RefCell::new(HashSet::new());
    let about = "Another node that shares `key`. Its beacons are forwarded to it; beacons of \
                 unlisted nodes are refused.";
    let nodes = s.tables("node", about, |s| {
        let id = s.integer("id", Required(1), ..=u32::MAX, "The other node's `record.node`.");
        if !seen.borrow_mut().insert(id) {
            s.problem("id", id, "is used twice; choose another id");
        }
        let about = "URL at which this node reaches `/n/` of the other node directly, not through \
                     a load balancer.";
        let base = s.parsed("url", Required("http://10.0.0.2:8080/n/"), base, about);
        (id, base)
    });
    nodes.into_iter().collect()
}

fn base(url: &str) -> Result<BeaconBase, String> {
    let remedy = "must be an http or https URL that ends with `/`, of letters, digits and `-._~:/`";
    BeaconBase::parse(url).ok_or_else(|| remedy.to_owned())
}

fn read_lifetimes(s: &mut Section<'_>) -> Lifetimes {
    let mut of = |key: &'static str, default: &'static str, doc: &'static str| {
        let lifetime: Duration = s.duration(key, default, secs(1)..=secs(30 * 86_400), doc);
        u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX)
    };
    Lifetimes {
        web_s: of("web", "1m", "Ads in web browsers."),
        app_banner_s: of("app_banner", "5m", "Banners in apps."),
        app_native_s: of("app_native", "10m", "Native ads in apps."),
        interstitial_s: of("interstitial", "30m", "Interstitial, video and audio ads."),
        stitched_s: of("stitched", "24h", "Ads that a server stitches into a stream."),
        dooh_s: of("dooh", "24h", "Digital out-of-home ads."),
        exp_max_s: of("exp_max", "24h", "Maximum lifetime that a request can set with `imp.exp`."),
    }
}

fn read_calls(s: &mut Section<'_>) -> CallLimits {
    CallLimits {
        timeout: s.duration(
            "timeout",
            "4s",
            ms(10)..=secs(9),
            "Timeout for a call to a DSP's notice host, from connecting to the end of its \
             response.",
        ),
        connections_max: s.integer(
            "connections_max",
            8,
            1..=1024_usize,
            "Maximum number of connections to one notice host. Over HTTP/1.1 each carries one call \
             at a time; over HTTP/2 up to 100, and another is opened only if all are in use.",
        ),
        // As long as many hosts keep one.
        idle_timeout: secs(60),
        networks_allowed: s.texts(
            "networks_allowed",
            &[],
            network,
            "Non-public addresses that notices may be sent to, for example 10.1.0.0/16.",
        ),
    }
}

fn read_policy(s: &mut Section<'_>) -> DeliveryPolicy {
    let usual = DeliveryPolicy::default();
    DeliveryPolicy {
        billing_horizon: s.duration(
            "billing_horizon",
            "1h",
            secs(60)..=secs(7 * 86_400),
            "Time after which an undelivered billing notice is given up.",
        ),
        retries_best_effort: s.integer(
            "retries",
            2,
            0..=100_u32,
            "Maximum number of retries of a win or loss notice.",
        ),
        billing_max: s.integer(
            "billing_max",
            200_000,
            1..=10_000_000_usize,
            "Maximum number of undelivered billing notices. At the limit, beacons are answered \
             with 503.",
        ),
        best_effort_max: s.integer(
            "waiting_max",
            50_000,
            1..=10_000_000_usize,
            "Maximum number of queued win and loss notices. Further ones are dropped and counted.",
        ),
        ..usual
    }
}

fn network(text: &str) -> Result<IpNet, String> {
    let remedy = "must be an address or a range, for example \"10.0.0.0/8\"";
    parse_network(text).ok_or_else(|| remedy.to_owned())
}
