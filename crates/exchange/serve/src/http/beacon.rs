//! Beacons: our notice URLs, which browsers and callers call as `GET /n/{token}`.
//!
//! The answer tells only whether the call was taken: forged, altered, expired and unknown tokens
//! look alike.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use exchange_core::delivery::{Beacon, BeaconRefusal, BestEffort, ForwardedDevice, Notice};
use exchange_core::{
    Claims, LateValues, MacroValues, NoticeKind, NoticeMode, NoticeTarget, Rates, TokenId,
    VALUE_BYTES_MAX, macros_len,
};
use http_body_util::Full;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER,
    USER_AGENT,
};
use hyper::{Response, StatusCode, Uri};
use runtime::process::unix_ms;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::debug;
use units::{Cpm, Currency, Multiplier, Nanos, Ppm, Price, Rounding};

use crate::fanout::answer::NODE_HEADER;
use crate::notices::{
    BeaconAnswer, ForeignBeacon, MARKUP_TIMEOUT, MarkupFetch, NoticeCommand, Sealer, ServerAnswer,
};
use crate::shard::{ExchangeShard, ShardSnapshot};

pub const BEACON_PATH: &str = "/n/";

/// Smallest transparent image: 43 bytes of GIF.
const PIXEL: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

/// Untrusted price: ignore it above this multiple of our offer.
const PRICE_MULTIPLE_MAX: u32 = 100;

pub struct BeaconCall<'c> {
    pub shard: &'c ExchangeShard,
    pub snapshot: &'c ShardSnapshot,
    pub uri: &'c Uri,
    pub headers: &'c HeaderMap,
    pub peer: IpAddr,
}

impl BeaconCall<'_> {
    pub async fn answer(&self) -> Response<Full<Bytes>> {
        let Some(sealer) = &self.snapshot.generation.sealer else { return not_found() };
        let mut response = self.answer_with(sealer).await;
        if self.headers.contains_key(NODE_HEADER) {
            // A node that passed the call on must recognise our answer.
            response.headers_mut().insert(NODE_HEADER, sealer.node.into());
        }
        response
    }

    async fn answer_with(&self, sealer: &Sealer) -> Response<Full<Bytes>> {
        let token = self.uri.path().strip_prefix(BEACON_PATH).unwrap_or_default();
        let claims = match sealer.keys.open(token, unix_ms() / 1000) {
            Ok(claims) => claims,
            Err(error) => {
                self.shard.metrics.beacons_refused[error as usize].increment();
                return not_found();
            }
        };
        if let Some(node) = claims.node.filter(|node| *node != sealer.node) {
            return self.pass_on(sealer, &claims, node, token).await;
        }
        let upstream = UpstreamOutcome::of(self.uri.query().unwrap_or_default());
        debug!(kind = ?claims.kind, ?upstream, "a beacon was called");
        let late = LateValues { imp_ts_ms: Some(unix_ms()), loss: upstream.loss };
        let url = late.substitute(&claims.url);
        let notice = self.notice(sealer, &claims, url);
        if claims.relays_markup {
            return match notice {
                Some(notice) => self.relay(sealer, &claims, notice).await,
                // The token promises an ad, but its host is no longer the DSP's.
                None if !claims.url.is_empty() => bad_gateway(),
                None => self.without_notice(),
            };
        }
        match claims.kind {
            NoticeKind::Win => self.submit(BestEffort::Win, &claims, notice),
            NoticeKind::Loss => {
                if let Some(reservation) = &claims.reservation {
                    self.shard.release(reservation);
                }
                self.submit(BestEffort::Loss, &claims, notice)
            }
            NoticeKind::Billing if notice.is_none() && claims.reservation.is_none() => {
                self.without_notice()
            }
            NoticeKind::Billing => self.bill(&claims, notice, &upstream).await,
        }
    }

    /// Passes the call on to the node that sealed the token, and returns its answer. Refuses a call
    /// that a node has already passed on: nodes configured with each other's numbers would loop.
    async fn pass_on(
        &self,
        sealer: &Sealer,
        claims: &Claims<'_>,
        node: u32,
        token: &str,
    ) -> Response<Full<Bytes>> {
        let metrics = &self.shard.metrics;
        let listed =
            sealer.notices.nodes.get(&node).filter(|_| !self.headers.contains_key(NODE_HEADER));
        let (Some(base), Some(client)) = (listed, &self.shard.parts.nodes) else {
            metrics.beacons_foreign.increment();
            return not_found();
        };
        let market = &self.snapshot.config().market;
        let body_max = match claims.relays_markup {
            true => sealer.notices.markup_bytes_max + market.bid_macros_max * VALUE_BYTES_MAX,
            false => 0,
        };
        let beacon = ForeignBeacon {
            base,
            token,
            query: self.uri.query(),
            device: self.device(&sealer.notices.proxies_trusted),
            user_agent: self.user_agent(),
            node: sealer.node,
            body_max,
        };
        let (answered, metrics) = (client.pass_on(&beacon), Arc::clone(metrics));
        // A task of its own: the call is made and counted even if the caller leaves.
        let passed_on = self.shard.parts.tasks.spawn_isolated(async move {
            let answered = answered.await.inspect_err(|error| {
                debug!(node, %error, "a beacon could not be passed on");
            });
            let Some(response) = answered.ok().and_then(|answered| node_response(node, answered))
            else {
                metrics.beacons_not_passed_on.increment();
                return busy();
            };
            metrics.beacons_passed_on.increment();
            response
        });
        passed_on.await.unwrap_or_else(|_| busy())
    }

    fn user_agent(&self) -> Option<&str> {
        self.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok())
    }

    /// The beacon is our own signal; the DSP may have no notice.
    fn without_notice(&self) -> Response<Full<Bytes>> {
        self.shard.metrics.beacons_without_notice.increment();
        pixel()
    }

    /// The upstream auction's price. None if the query has none, for tests, and if the publisher's
    /// terms name no upstream auction. `Some(None)` if the price cannot be read or believed.
    fn upstream_payment(
        &self,
        claims: &Claims<'_>,
        upstream: &UpstreamOutcome<'_>,
    ) -> Option<Option<Nanos>> {
        let market = &self.snapshot.config().market;
        let terms = market.publishers.terms(Some(&claims.publisher));
        let is_said = claims.kind == NoticeKind::Billing
            && terms.notices == NoticeMode::Upstream
            && !upstream.price.is_empty()
            && !claims.is_test;
        is_said.then(|| {
            let net = Price { amount: claims.net, currency: claims.net_currency };
            upstream.payment(net, &market.rates, market.currency)
        })
    }

    /// The DSP's notice. None if it has none, or its host is no longer declared.
    fn notice(&self, sealer: &Sealer, claims: &Claims<'_>, url: String) -> Option<Notice> {
        let dsps = &self.snapshot.config().market.dsps;
        let dsp = dsps.iter().position(|dsp| *dsp.id == *claims.dsp)?;
        // The declared hosts may have changed since the token was sealed.
        NoticeTarget::parse(&url).filter(|target| target.is_declared(&dsps[dsp].notice_hosts))?;
        let device = self.device(&sealer.notices.proxies_trusted).to_string();
        let id = Arc::clone(&self.snapshot.dsps[dsp].id);
        Notice::new(id, url, ForwardedDevice::new(Some(&device), self.user_agent())).ok()
    }

    /// The caller's address. Behind trusted proxies: the nearest hop that is not one of them.
    fn device(&self, trusted: &[ipnet::IpNet]) -> IpAddr {
        let is_trusted = |ip: &IpAddr| trusted.iter().any(|network| network.contains(ip));
        let mut device = self.peer;
        let lines = self.headers.get_all("x-forwarded-for").iter();
        let hops: Vec<&str> =
            lines.flat_map(|line| line.to_str().unwrap_or_default().split(',')).collect();
        // Nearest hop first: anyone may have written what precedes an untrusted one.
        for hop in hops.into_iter().rev() {
            let Some(hop) = hop.trim().parse().ok().filter(|_| is_trusted(&device)) else { break };
            device = hop;
        }
        device
    }

    /// Win and loss notices are best effort.
    fn submit(
        &self,
        kind: BestEffort,
        claims: &Claims<'_>,
        notice: Option<Notice>,
    ) -> Response<Full<Bytes>> {
        let Some(notice) = notice else { return self.without_notice() };
        let command = NoticeCommand::Submit(kind, notice, Some(token_and_expiry(claims)));
        if self.shard.send_command(command) { pixel() } else { busy() }
    }

    /// Answers once the billing record is durable, which settles the win even without a notice.
    async fn bill(
        &self,
        claims: &Claims<'_>,
        notice: Option<Notice>,
        upstream: &UpstreamOutcome<'_>,
    ) -> Response<Full<Bytes>> {
        let (id, expires_ms) = token_and_expiry(claims);
        if notice.is_none() {
            self.shard.metrics.beacons_without_notice.increment();
        }
        let (call, reservation) = (0, claims.reservation); // The dispatcher numbers calls.
        let beacon = Beacon { call, id, expires_ms, notice, reservation };
        let (answer, acknowledged) = oneshot::channel();
        if !self.shard.send_command(NoticeCommand::Beacon(Box::new(beacon), answer)) {
            return busy();
        }
        let paid = self.upstream_payment(claims, upstream);
        let acknowledged = match paid {
            None => acknowledged,
            Some(paid) => self.count_payment(paid, acknowledged),
        };
        match acknowledged.await {
            Ok(Ok(_)) => pixel(),
            Ok(Err(BeaconRefusal::Expired)) => not_found(),
            Ok(Err(BeaconRefusal::Busy | BeaconRefusal::Journal)) | Err(_) => busy(),
        }
    }

    fn count_payment(
        &self,
        paid: Option<Nanos>,
        acknowledged: oneshot::Receiver<BeaconAnswer>,
    ) -> oneshot::Receiver<BeaconAnswer> {
        let metrics = Arc::clone(&self.shard.metrics);
        on_first_call(acknowledged, move || match paid {
            Some(paid) => {
                metrics.upstream_priced.increment();
                metrics.upstream_nanos.add(paid.get());
            }
            None => metrics.upstream_unreadable.increment(),
        })
    }

    /// Returns the ad from the DSP's answer, once per token.
    async fn relay(
        &self,
        sealer: &Sealer,
        claims: &Claims<'_>,
        notice: Notice,
    ) -> Response<Full<Bytes>> {
        let (done, answered) = oneshot::channel();
        let once = Some(token_and_expiry(claims));
        let fetch = MarkupFetch { notice, body_max: sealer.notices.markup_bytes_max, once, done };
        if !self.shard.fetch(fetch) {
            return busy();
        }
        let Ok(answered) = timeout(MARKUP_TIMEOUT, answered).await else { return bad_gateway() };
        let Ok(answered) = answered else { return not_found() };
        match answered {
            // Only a win notice; the ad came with the bid.
            Ok(answered) if is_empty_answer(&answered) => no_ad(),
            Ok(answered) if answered.status == 200 => match String::from_utf8(answered.body) {
                Ok(markup)
                    if macros_len(&markup) <= self.snapshot.config().market.bid_macros_max =>
                {
                    ad(with_macros(claims, &markup))
                }
                Ok(_) | Err(_) => bad_gateway(),
            },
            Ok(_) => bad_gateway(),
            Err(error) => {
                debug!(%error, "an ad could not be relayed");
                bad_gateway()
            }
        }
    }
}

/// Our answer for `node`'s. None if it is busy, or another server answers at its URL.
fn node_response(node: u32, answered: ServerAnswer) -> Option<Response<Full<Bytes>>> {
    if answered.node != Some(node) {
        debug!(node, by = answered.node, status = answered.status, "another server answered");
        return None;
    }
    match answered.status {
        200 => Some(match String::from_utf8(answered.body) {
            Ok(markup) if !markup.is_empty() => ad(markup),
            Ok(_) | Err(_) => pixel(),
        }),
        204 => Some(no_ad()),
        404 => Some(not_found()),
        502 => Some(bad_gateway()),
        _ => None,
    }
}

fn is_empty_answer(answered: &ServerAnswer) -> bool {
    answered.status == 204 || (answered.status == 200 && answered.body.trim_ascii().is_empty())
}

/// Runs `then` at the token's first call, even if the caller has left. Passes the answer on.
fn on_first_call(
    acknowledged: oneshot::Receiver<BeaconAnswer>,
    then: impl FnOnce() + 'static,
) -> oneshot::Receiver<BeaconAnswer> {
    let (answer, answered) = oneshot::channel();
    tokio::task::spawn_local(async move {
        let Ok(acknowledged) = acknowledged.await else { return };
        if acknowledged == Ok(false) {
            then();
        }
        let _ = answer.send(acknowledged);
    });
    answered
}

/// The token's id and expiry in Unix milliseconds, to recognise repeated calls.
fn token_and_expiry(claims: &Claims<'_>) -> (TokenId, u64) {
    (claims.id(), claims.expires_unix_s.saturating_mul(1000))
}

/// The ad with macros filled in from the token; unknown values become empty (OpenRTB 4.4).
fn with_macros(claims: &Claims<'_>, markup: &str) -> String {
    let auction_id = format!("{:032x}", claims.auction_id);
    let values = MacroValues {
        auction_id: &auction_id,
        bid_id: "",
        imp_id: &claims.imp_id,
        seat_id: &claims.seat,
        ad_id: "",
        price: Some(claims.paid),
        currency: claims.paid_currency,
        bid: None,
        min_to_win: None,
        multiplier: None,
        discount: Ppm::ZERO,
        loss: Some(0),
        left: &[],
    };
    values.substitute(markup)
}

/// The upstream auction's outcome, for the record. DSPs only learn why a bid lost there.
#[derive(Debug, Default, PartialEq, Eq)]
struct UpstreamOutcome<'q> {
    price: &'q str,
    currency: &'q str,
    loss: Option<u32>,
    min_to_win: &'q str,
}

impl<'q> UpstreamOutcome<'q> {
    /// Reads the query that our notices carry, and ignores other keys.
    fn of(query: &'q str) -> Self {
        let mut upstream = Self::default();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match key {
                "p" => upstream.price = value,
                "c" => upstream.currency = value,
                // 0 is not a loss reason.
                "l" => upstream.loss = value.parse().ok().filter(|code| *code != 0),
                "m" => upstream.min_to_win = value,
                _ => (),
            }
        }
        upstream
    }

    /// The upstream's price of an impression, in `base`; without a currency, in that of `net`. None
    /// if it cannot be read, or exceeds [`PRICE_MULTIPLE_MAX`] times our offer `net`.
    fn payment(&self, net: Price, rates: &Rates, base: Currency) -> Option<Nanos> {
        let price = Cpm::parse(self.price, Rounding::Down).ok()?;
        let currency = match self.currency {
            "" => net.currency,
            code => Currency::parse(code)?,
        };
        let paid = rates.convert(price, currency, base, Rounding::Down)?;
        let offered = rates.convert(net.amount, net.currency, base, Rounding::Up)?;
        let is_believed = paid <= offered.saturating_times(PRICE_MULTIPLE_MAX);
        paid.cost(Multiplier::ONE).filter(|_| is_believed)
    }
}

fn respond(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Video players fetch from scripts on any page.
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

fn pixel() -> Response<Full<Bytes>> {
    respond(StatusCode::OK, "image/gif", PIXEL)
}

fn not_found() -> Response<Full<Bytes>> {
    respond(StatusCode::NOT_FOUND, "text/plain", "")
}

fn no_ad() -> Response<Full<Bytes>> {
    respond(StatusCode::NO_CONTENT, "text/plain", "")
}

fn bad_gateway() -> Response<Full<Bytes>> {
    respond(StatusCode::BAD_GATEWAY, "text/plain", "")
}

fn busy() -> Response<Full<Bytes>> {
    let mut response = respond(StatusCode::SERVICE_UNAVAILABLE, "text/plain", "");
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
    response
}

/// An ad; its content type follows from its first bytes.
fn ad(markup: String) -> Response<Full<Bytes>> {
    let start = markup.trim_start();
    let kind = if start.starts_with("<?xml") || start.starts_with("<VAST") {
        "application/xml"
    } else if start.starts_with('{') {
        "application/json"
    } else {
        "text/html; charset=utf-8"
    };
    respond(StatusCode::OK, kind, markup)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use tokio::task::LocalSet;
    use units::Ratio;

    use super::*;

    #[tokio::test]
    async fn the_first_call_books_whoever_waits_and_no_other_does() {
        let check = async |acknowledged: Option<BeaconAnswer>, is_awaited: bool, want: u32| {
            let (answer, receiver) = oneshot::channel();
            let booked = Rc::new(Cell::new(0));
            let counting = Rc::clone(&booked);
            let heard = on_first_call(receiver, move || counting.set(counting.get() + 1));
            let heard = is_awaited.then_some(heard);
            match acknowledged {
                Some(acknowledged) => answer.send(acknowledged).expect("somebody waits"),
                None => drop(answer),
            }
            match heard {
                Some(heard) => assert_eq!(heard.await.ok(), acknowledged),
                None => tokio::task::yield_now().await,
            }
            assert_eq!(booked.get(), want, "{acknowledged:?} {is_awaited}");
        };
        let test = async {
            for is_awaited in [true, false] {
                check(Some(Ok(false)), is_awaited, 1).await;
                check(Some(Ok(true)), is_awaited, 0).await;
                for refusal in [BeaconRefusal::Expired, BeaconRefusal::Busy, BeaconRefusal::Journal]
                {
                    check(Some(Err(refusal)), is_awaited, 0).await;
                }
                check(None, is_awaited, 0).await;
            }
        };
        LocalSet::new().run_until(test).await;
    }

    #[test]
    fn what_the_upstream_says() {
        let check = |query: &str, want: (&str, &str, Option<u32>, &str)| {
            let got = UpstreamOutcome::of(query);
            assert_eq!((got.price, got.currency, got.loss, got.min_to_win), want, "{query}");
        };
        check("p=1.5&c=USD&l=102&m=1.6", ("1.5", "USD", Some(102), "1.6"));
        check("p=&c=&l=0&m=", ("", "", None, ""));
        check("l=-1&p", ("", "", None, ""));
        check("l=99999999999", ("", "", None, ""));
        check("", ("", "", None, ""));
    }

    #[test]
    fn what_the_upstream_pays() {
        let code = |code| Currency::parse(code).unwrap();
        let rates = Rates::new([
            (code("USD"), Ratio::parse("1").unwrap()),
            (code("EUR"), Ratio::parse("1.25").unwrap()),
        ]);
        let check = |query: &str, want: Option<u64>| {
            let net = Price::parse("3 EUR", Rounding::Down).unwrap();
            let paid = UpstreamOutcome::of(query).payment(net, &rates, code("USD"));
            assert_eq!(paid.map(Nanos::get), want, "{query}");
        };
        check("p=4&c=USD", Some(4_000_000));
        check("p=4&c=EUR", Some(5_000_000));
        check("p=4&c=", Some(5_000_000));
        check("p=300&c=EUR", Some(375_000_000));
        check("p=300.000001&c=EUR", None);
        check("p=4&c=JPY", None);
        check("p=${AUCTION_PRICE}&c=USD", None);
        check("p=-4&c=USD", None);
        check("p=1e99&c=USD", None);
        check("c=USD", None);
    }
}
