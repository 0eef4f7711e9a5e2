//! A provider's service: answers GET from its catalogue, refuses what is too much, and counts.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::catalogue::{ProviderAnswer, ProviderCatalogue};
use super::fault::ProviderFault;
use super::options::ProviderOptions;
use crate::draws::Draws;
use crate::server::http::{BAD_REQUEST, NOT_FOUND};
use crate::server::{
    AnswerRemains, ConnectionCounters, HttpMethod, Misbehaviour, Performed, Script,
    ServerBehaviour, ServerRequest, ServiceReply, SimulatedService, SingleWriterCounter, Spoilable,
};

/// What a provider counts.
#[derive(Debug, Default)]
pub(super) struct ProviderCounters {
    pub(super) connections: ConnectionCounters,
    pub(super) requests: SingleWriterCounter,
    pub(super) concurrent_max: SingleWriterCounter,
    pub(super) overloaded: SingleWriterCounter,
    pub(super) faults: SingleWriterCounter,
    pub(super) unknown: SingleWriterCounter,
}

#[derive(Debug)]
pub(super) struct ProviderResponder {
    index: usize,
    options: ProviderOptions,
    origin: String,
    /// None if it is healthy.
    misbehaviour: Option<Box<Misbehaviour<ProviderFault>>>,
    /// When the requests that are being answered will be.
    answering: VecDeque<Instant>,
    counters: Arc<ProviderCounters>,
}

impl ProviderResponder {
    pub(super) fn new(
        index: usize,
        options: ProviderOptions,
        origin: String,
        counters: Arc<ProviderCounters>,
    ) -> Self {
        let answering = VecDeque::new();
        Self { index, options, origin, misbehaviour: None, answering, counters }
    }

    /// Takes a request, unless too many are being answered.
    fn admits(&mut self) -> bool {
        let now = Instant::now();
        while self.answering.front().is_some_and(|due| *due <= now) {
            self.answering.pop_front();
        }
        if self.options.concurrency_max.is_some_and(|most| most <= self.answering.len()) {
            self.counters.overloaded.add(1);
            return false;
        }
        self.answering.push_back(now + self.options.latency);
        let concurrent = self.answering.len() as u64;
        let known = self.counters.concurrent_max.read();
        self.counters.concurrent_max.add(concurrent.saturating_sub(known));
        true
    }
}

impl SimulatedService for ProviderResponder {
    type Fault = ProviderFault;
    type Change = ProviderOptions;

    fn respond(&mut self, request: &ServerRequest<'_>, out: &mut Vec<u8>) -> ServiceReply {
        self.counters.requests.add(1);
        if request.method != HttpMethod::Get {
            out.extend_from_slice(BAD_REQUEST);
            return ServiceReply::AT_ONCE;
        }
        if !self.admits() {
            let status = self.options.refusal;
            let after = if matches!(status, 429 | 503) { "Retry-After: 1\r\n" } else { "" };
            write!(out, "HTTP/1.1 {status} Refused\r\n{after}Content-Length: 0\r\n\r\n")
                .expect("memory");
            return ServiceReply::AT_ONCE;
        }
        let options = &self.options;
        let catalogue = ProviderCatalogue {
            options: &options.catalogue,
            provider: self.index,
            seed: options.seed,
        };
        let Some(answer) = catalogue.answer(request.target) else {
            self.counters.unknown.add(1);
            out.extend_from_slice(NOT_FOUND);
            return ServiceReply::Whole(options.latency);
        };
        if let Some(misbehaviour) = &self.misbehaviour {
            // Each request draws anew: otherwise no call would ever succeed when it is made again.
            let draw = [request.target.as_bytes(), &self.counters.requests.read().to_le_bytes()];
            let accepts_gzip = request.accepts_gzip;
            let mut spoilable =
                SpoilableRecords { answer: &answer, accepts_gzip, options, origin: &self.origin };
            let befallen = misbehaviour.befall(options.seed, &draw.concat(), &mut spoilable, lie);
            if let Some((script, _)) = befallen {
                self.counters.faults.add(1);
                return ServiceReply::Script(Box::new(script));
            }
        }
        write_answer(&answer, &answer.body, out);
        ServiceReply::Whole(options.latency)
    }

    fn behave(&mut self, behaviour: &ServerBehaviour<ProviderFault>) {
        self.misbehaviour = Misbehaviour::of(behaviour).map(Box::new);
    }

    fn change(&mut self, options: ProviderOptions) {
        self.options = options;
    }

    fn connections(&self) -> &ConnectionCounters {
        &self.counters.connections
    }
}

fn write_answer(answer: &ProviderAnswer, body: &[u8], out: &mut Vec<u8>) {
    let (kind, length) = (answer.kind, body.len());
    write!(out, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n")
        .expect("memory");
    out.extend_from_slice(body);
}

struct SpoilableRecords<'a> {
    answer: &'a ProviderAnswer,
    accepts_gzip: bool,
    options: &'a ProviderOptions,
    origin: &'a str,
}

#[expect(clippy::unnecessary_wraps, reason = "faults of other services may not fit a request")]
fn lie(
    spoilable: &mut SpoilableRecords<'_>,
    _: &mut Draws,
    fault: &ProviderFault,
) -> Option<Performed> {
    let mut bytes = Vec::new();
    write_answer(spoilable.answer, &fault.body(&spoilable.answer.body), &mut bytes);
    Some((Script::whole(bytes, spoilable.options.latency), AnswerRemains::Nothing))
}

impl Spoilable for SpoilableRecords<'_> {
    fn healthy(&mut self) -> Script {
        let mut bytes = Vec::new();
        write_answer(self.answer, &self.answer.body, &mut bytes);
        Script::whole(bytes, self.options.latency)
    }

    fn content(&mut self) -> Option<Vec<u8>> {
        Some(self.answer.body.clone())
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn accepts_gzip(&self) -> bool {
        self.accepts_gzip
    }

    fn delay(&self) -> Duration {
        self.options.latency
    }

    fn origin(&self) -> &str {
        self.origin
    }
}
