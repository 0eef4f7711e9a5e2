//! `[exchange.pacer]`: a pacer in another process, whose campaigns pay for seats of DSPs.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use exchange_core::Dsp;
use http_kit::tls::client_config;
use pacer_client::PacerClientOptions;
use runtime::config::{Optional, Required, Secret, Section};
use runtime::service::{parse_identity, read_authorities};
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::sign::{CertifiedKey, SingleCertAndKey};

pub(super) const ABOUT: &str = "A pacer in another process, whose campaigns pay for seats of DSPs: \
                                one round trip per clearing, within `answer_reserve`. Needs \
                                [record] and [exchange.notices].";

/// The table `[exchange.pacer]`.
#[derive(Clone)]
pub struct RemotePacerConfig {
    /// Host and port of the pacer.
    pub address: String,
    /// This exchange's id at the pacer.
    pub id: String,
    /// Its secret there.
    pub secret: Secret,
    /// TLS, and the name in the pacer's certificate. None: the secret crosses the network in clear.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// Seats that win only if a campaign pays.
    pub seats: Vec<PacedSeat>,
}

/// A seat of a DSP, and the campaign of the pacer that pays its clearing prices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacedSeat {
    /// The DSP's id.
    pub dsp: Box<str>,
    /// The seat's id at the DSP.
    pub seat: Box<str>,
    /// The campaign's account.
    pub account: Arc<str>,
    /// The campaign's id.
    pub campaign: Arc<str>,
}

impl RemotePacerConfig {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let address = s.parsed(
            "address",
            Required("pacer.example:7100"),
            host_and_port,
            "Host and port of the pacer: its `pacer.listen`.",
        );
        let id = s.text("id", Required("exchange-1"), "Id of this exchange: a [[pacer.client]].");
        let secret = s.secret(
            "secret",
            Required("env:VICKREY_PACER_SECRET"),
            "The secret of this [[pacer.client]].",
        );
        let about = "TLS towards the pacer. If absent, `secret` crosses the network in clear text.";
        let host = address.rsplit_once(':').map_or("", |(host, _)| host).to_owned();
        let tls = s.table("tls", about, |s| read_tls(s, &host)).flatten();
        let about = "A seat that wins only if a campaign of the pacer pays its clearing price.";
        let seats = s.tables("seat", about, PacedSeat::read);
        if seats.is_empty() {
            s.problem("seat", "…", "the pacer pays for nobody: add an [[exchange.pacer.seat]]");
        }
        let mut seen = HashSet::new();
        for PacedSeat { dsp, seat, .. } in &seats {
            if !seen.insert((dsp.clone(), seat.clone())) {
                s.problem("seat", "…", format!("`{dsp}/{seat}` is named twice: remove one"));
            }
        }
        Self { address, id, secret, tls, seats }
    }

    /// How a client connects.
    pub fn options(&self) -> PacerClientOptions {
        let options = PacerClientOptions::new(&self.address, &self.id, self.secret.expose());
        match self.tls.clone() {
            Some((config, server)) => options.with_tls(config, server),
            None => options,
        }
    }

    /// Whether the same connection serves both.
    pub fn is_same_peer(&self, other: &Self) -> bool {
        let names = |it: &Self| it.tls.as_ref().map(|(_, server)| server.clone());
        (&self.address, &self.id, &self.secret, names(self))
            == (&other.address, &other.id, &other.secret, names(other))
    }
}

impl PacedSeat {
    fn read(s: &mut Section<'_>) -> Self {
        Self {
            dsp: s.text("dsp", Required("dsp-1"), "`id` of the [[dsp]].").into(),
            seat: s.text("seat", Required("seat-1"), "One of its `seats`.").into(),
            account: s
                .text("account", Required("acme"), "Account of the campaign at the pacer.")
                .into(),
            campaign: s.text("campaign", Required("spring"), "The campaign's id there.").into(),
        }
    }
}

impl fmt::Debug for RemotePacerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, id, seats, .. } = self;
        f.debug_struct("RemotePacerConfig")
            .field("address", address)
            .field("id", id)
            .field("seats", seats)
            .finish_non_exhaustive()
    }
}

/// Reports seats that no DSP has.
pub(super) fn check_seats(s: &mut Section<'_>, pacer: Option<&RemotePacerConfig>, dsps: &[Dsp]) {
    for PacedSeat { dsp, seat, .. } in pacer.iter().flat_map(|pacer| &pacer.seats) {
        let known = dsps.iter().find(|known| known.id == *dsp);
        if known.is_none_or(|known| known.seats.position(seat).is_none()) {
            let remedy = format!(
                "`{dsp}/{seat}` is the seat of no [[dsp]]: correct it, or add it to the DSP's `seats`"
            );
            s.problem("exchange.pacer.seat", "…", remedy);
        }
    }
}

fn host_and_port(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let is_address = port.is_some_and(|(_, port)| port.parse().is_ok_and(|port: u16| port > 0));
    is_address
        .then(|| text.to_owned())
        .ok_or_else(|| "must be a host and a port, for example \"pacer.example:7100\"".to_owned())
}

/// Reads `ca`, and `certificate` with `key` for a pacer that demands one. None after a problem.
fn read_tls(s: &mut Section<'_>, host: &str) -> Option<(Arc<ClientConfig>, ServerName<'static>)> {
    let mut config = client_config(read_authorities(s).as_deref());
    config.alpn_protocols = vec![b"vickrey-pacer".to_vec()];
    let certificate = s.secret(
        "certificate",
        Optional("file:/etc/vickrey/exchange.pem"),
        "This exchange's certificate chain in PEM, if the pacer demands one.",
    );
    let key = s.secret(
        "key",
        Optional("file:/etc/vickrey/exchange-key.pem"),
        "Private key of `certificate`, in PEM.",
    );
    match (certificate, key) {
        (None, None) => (),
        (Some(certificate), Some(key)) => {
            let (chain, key) = parse_identity(s, &certificate, &key)?;
            let own = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
            let own = own.map_err(|error| {
                s.problem("certificate", "***", format!("does not go with `key`: {error}"));
            });
            config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(own.ok()?));
        }
        (given, _) => {
            let missing = if given.is_some() { "key" } else { "certificate" };
            s.problem(missing, "", "is needed too: `certificate` and `key` go together");
        }
    }
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let server = ServerName::try_from(host).map_err(|error| {
        s.problem(
            "ca",
            "***",
            format!("`address` has a host that no certificate can name: {error}"),
        );
    });
    Some((Arc::new(config), server.ok()?))
}
