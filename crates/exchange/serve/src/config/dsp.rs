//! `[[dsp]]`: whom to ask, and for what.

mod targeting;

use exchange_core::{Dsp, Rates, TrackingSignals};
use runtime::config::{Optional, Required, Secret, Section, ms, secs};
use runtime::service::read_authorities;
use units::Currency;

use super::currency::no_rate;
use super::direct::DIRECT_DSP;
use super::guard::DspGuard;
use super::unique_ids::UniqueIds;
use super::values::{country, format, not_empty, read_ids, size};
use crate::fanout::{EndpointOptions, HttpVersions, TlsOptions};

/// Header fields that the exchange writes itself.
pub(super) const OWN_HEADERS: [&str; 9] = [
    "host",
    "content-type",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "accept",
    // The exchange could not read another encoding.
    "accept-encoding",
    "x-openrtb-version",
];

#[derive(Clone, Debug)]
pub struct DspOptions {
    pub rules: Dsp,
    pub address: DspAddress,
    pub(super) guard: DspGuard,
}

/// Where a DSP is called, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DspAddress {
    /// Host of its URL.
    pub host: String,
    pub port: u16,
    /// The rest of its URL, and what its requests have.
    pub options: EndpointOptions,
}

impl DspAddress {
    /// Whether it is at `host` and `port`, in lower case, and called over HTTP/2 without TLS: with
    /// prior knowledge (RFC 9113, section 3.3).
    pub(crate) fn has_prior_knowledge(&self, host: &str, port: u16) -> bool {
        let EndpointOptions { http, tls, .. } = &self.options;
        let is_here = self.port == port && self.host.eq_ignore_ascii_case(host);
        is_here && *http == HttpVersions::Http2 && tls.is_none()
    }
}

impl DspOptions {
    /// Reads one table; `signals` are the default.
    pub(super) fn read(
        s: &mut Section<'_>,
        rates: &Rates,
        ids: &UniqueIds,
        signals: TrackingSignals,
    ) -> Self {
        let id = s.text("id", Required("dsp-1"), "Unique id of the DSP, also used in metrics.");
        ids.check(s, "id", &id);
        if id == DIRECT_DSP {
            s.problem("id", "\"direct\"", "is the id of direct campaigns, choose another");
        }
        let url = s.url(
            "url",
            Required("http://127.0.0.1:9001/bid"),
            "URL that bid requests are posted to, with TLS if it is `https`.",
        );
        let authorities = read_authorities(s);
        if authorities.is_some() && !url.secure {
            s.problem("ca", "***", "means nothing without https in `url`");
        }
        let tls = url.secure.then(|| TlsOptions::new(&url.host, authorities));
        let tls = tls.transpose().unwrap_or_else(|error| {
            s.problem("url", &url, format!("has a host that no certificate can name: {error}"));
            None
        });
        let rules = read_rules(s, id, &url.host, rates, signals);
        let mut options = EndpointOptions {
            authority: url.authority(),
            path: Secret::new(url.path),
            headers: Vec::new(),
            currencies: rules.currencies.clone(),
            response_bytes_max: s.bytes(
                "response_bytes_max",
                "64KiB",
                256..=16 * 1024 * 1024,
                "Maximum size of a response body. A larger one is dropped and its connection \
                 closed.",
            ),
            gzip: s.boolean("gzip", false, "Whether to accept gzip-compressed responses."),
            gzip_requests: s.boolean(
                "gzip_requests",
                false,
                "Whether to compress bid requests with gzip. The DSP must support it.",
            ),
            http: s.one_of(
                "http",
                "auto",
                &[
                    ("auto", HttpVersions::Auto),
                    ("1.1", HttpVersions::Http1),
                    ("2", HttpVersions::Http2),
                ],
                "Version of HTTP. `auto` is HTTP/2 if the DSP offers it under TLS, else HTTP/1.1. \
                 Over HTTP/2, one connection carries many calls at a time.",
            ),
            tls,
        };
        let guard = DspGuard::read(s);
        options.headers = s.secret_map(
            "headers",
            &[("x-api-key", "env:DSP_1_KEY")],
            header,
            "Extra header fields for every bid request. Their values are secrets.",
        );
        Self { rules, address: DspAddress { host: url.host, port: url.port, options }, guard }
    }
}

/// The part of a DSP's table that the rules of the auction need.
fn read_rules(
    s: &mut Section<'_>,
    id: String,
    host: &str,
    rates: &Rates,
    signals: TrackingSignals,
) -> Dsp {
    let seats = s.texts(
        "seats",
        Optional(&["seat-1"]),
        not_empty,
        "Seats that the DSP may bid for, the default one first. If absent, its `id` is its only \
         seat.",
    );
    if seats.as_ref().is_some_and(Vec::is_empty) {
        s.problem("seats", "[]", "must name a seat, or be absent");
    }
    let seats = seats.filter(|seats| !seats.is_empty()).unwrap_or_else(|| vec![id.clone()]);
    let formats = s.texts(
        "formats",
        &["banner", "video", "audio", "native"],
        format,
        "Ad formats that the DSP buys.",
    );
    let currencies = read_currencies(s, rates);
    Dsp {
        notice_hosts: read_notice_hosts(s, host),
        id: id.into(),
        seats: seats.into_iter().map(Into::into).collect(),
        formats: formats.into_iter().fold(0, |set, format| set | format.bit()),
        sizes: s.texts(
            "sizes",
            &[],
            size,
            "Banner sizes that the DSP buys, for example 300x250. If empty, all sizes.",
        ),
        countries: read_ids(
            s,
            "countries",
            country,
            "Countries that the DSP buys (ISO 3166-1 alpha-3). If empty, all countries.",
        ),
        publishers_allowed: read_ids(
            s,
            "publishers_allowed",
            not_empty,
            "Ids of publishers that the DSP buys from. If empty, all publishers.",
        ),
        publishers_blocked: read_ids(
            s,
            "publishers_blocked",
            not_empty,
            "Ids of publishers that the DSP does not buy from.",
        ),
        currencies,
        timeout: s.duration(
            "timeout",
            "60s",
            ms(1)..=secs(60),
            "Timeout for the DSP's response. The auction may close earlier.",
        ),
        network_margin: s.duration(
            "network_margin",
            Optional("20ms"),
            ms(0)..=secs(10),
            "Subtracted from the `tmax` sent to this DSP, to allow for the network round trip. If \
             absent, `exchange.network_margin`.",
        ),
        targeting: targeting::read(s),
        privacy: s.section("privacy", PRIVACY, |s| read_own_signals(s, signals)),
    }
}

const PRIVACY: &str =
    "Privacy signals that limit what this DSP sees of the user: see docs/privacy.md.";

fn read_own_signals(s: &mut Section<'_>, usual: TrackingSignals) -> TrackingSignals {
    let lmt = s.boolean(
        "lmt",
        Optional(false),
        "Whether to enforce `device.lmt` = 1. If absent, `exchange.privacy.lmt`.",
    );
    let dnt = s.boolean(
        "dnt",
        Optional(true),
        "Whether to enforce `device.dnt` = 1. If absent, `exchange.privacy.dnt`.",
    );
    TrackingSignals { lmt: lmt.unwrap_or(usual.lmt), dnt: dnt.unwrap_or(usual.dnt) }
}

fn read_notice_hosts(s: &mut Section<'_>, own: &str) -> Vec<Box<str>> {
    let hosts = s.texts(
        "notice_hosts",
        Optional(&["dsp.example"]),
        not_empty,
        "Hosts that notices may be sent to: domain names, which include their subdomains, or IP \
         addresses. If absent, the host of `url`.",
    );
    let hosts = hosts.unwrap_or_else(|| vec![own.to_owned()]);
    hosts.into_iter().map(Into::into).collect()
}

fn read_currencies(s: &mut Section<'_>, rates: &Rates) -> Vec<Currency> {
    let parse = |code: &str| {
        let currency = Currency::parse(code).ok_or("is not an ISO 4217 code such as `USD`")?;
        if rates.knows(currency) { Ok(currency) } else { Err(no_rate(currency)) }
    };
    let currencies = s.texts(
        "currencies",
        Optional(&[]),
        parse,
        "Currencies that the DSP may bid in, the preferred one first. If absent, USD.",
    );
    if currencies.as_ref().is_some_and(Vec::is_empty) {
        s.problem("currencies", "[]", "must name a currency, or be absent");
    }
    currencies.filter(|list| !list.is_empty()).unwrap_or_else(|| vec![Currency::USD])
}

fn header(name: &str, value: Secret) -> Result<(String, Secret), String> {
    use hyper::header::{HeaderName, HeaderValue};
    if OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name)) {
        return Err("is written by the exchange itself, remove it".to_owned());
    }
    HeaderName::try_from(name).map_err(|_| format!("`{name}` is not a header name"))?;
    HeaderValue::try_from(value.expose()).map_err(|_| "is not a header value".to_owned())?;
    Ok((name.to_owned(), value))
}
