//! An origin's service: answers GET on every path, and counts.

use std::sync::Arc;
use std::time::Duration;

use super::fault::OriginFault;
use super::object::{OriginAnswer, OriginObject};
use super::options::OriginOptions;
use crate::draws::Draws;
use crate::server::http::BAD_REQUEST;
use crate::server::{
    AnswerRemains, ConnectionCounters, HttpMethod, Misbehaviour, Performed, Script,
    ServerBehaviour, ServerRequest, ServiceReply, SimulatedService, SingleWriterCounter, Spoilable,
};

/// What an origin counts.
#[derive(Debug, Default)]
pub(super) struct OriginCounters {
    pub(super) connections: ConnectionCounters,
    pub(super) requests: SingleWriterCounter,
    pub(super) not_modified: SingleWriterCounter,
    pub(super) parts: SingleWriterCounter,
    pub(super) faults: SingleWriterCounter,
}

#[derive(Debug)]
pub(super) struct OriginResponder {
    options: OriginOptions,
    origin: String,
    /// None if it is healthy.
    misbehaviour: Option<Box<Misbehaviour<OriginFault>>>,
    counters: Arc<OriginCounters>,
}

impl OriginResponder {
    pub(super) fn new(
        options: OriginOptions,
        origin: String,
        counters: Arc<OriginCounters>,
    ) -> Self {
        Self { options, origin, misbehaviour: None, counters }
    }
}

impl SimulatedService for OriginResponder {
    type Fault = OriginFault;
    type Change = OriginOptions;

    fn respond(&mut self, request: &ServerRequest<'_>, out: &mut Vec<u8>) -> ServiceReply {
        self.counters.requests.add(1);
        if request.method != HttpMethod::Get {
            out.extend_from_slice(BAD_REQUEST);
            return ServiceReply::AT_ONCE;
        }
        let (options, origin) = (&self.options, &*self.origin);
        let object = OriginObject::of(request, options);
        if let Some(misbehaviour) = &self.misbehaviour {
            // Each request of a path draws anew: a fault that befell it always would never be
            // followed by a good answer.
            let draw = [request.target.as_bytes(), &self.counters.requests.read().to_le_bytes()];
            let mut answer = SpoilableAnswer { object: &object, request, options, origin };
            let befallen = misbehaviour.befall(options.seed, &draw.concat(), &mut answer, lie);
            if let Some((script, _)) = befallen {
                self.counters.faults.add(1);
                return ServiceReply::Script(Box::new(script));
            }
        }
        match object.answer(request, options, out) {
            OriginAnswer::Whole => (),
            OriginAnswer::NotModified => self.counters.not_modified.add(1),
            OriginAnswer::Part => self.counters.parts.add(1),
        }
        ServiceReply::Whole(options.latency)
    }

    fn behave(&mut self, behaviour: &ServerBehaviour<OriginFault>) {
        self.misbehaviour = Misbehaviour::of(behaviour).map(Box::new);
    }

    fn change(&mut self, options: OriginOptions) {
        self.options = options;
    }

    fn connections(&self) -> &ConnectionCounters {
        &self.counters.connections
    }
}

struct SpoilableAnswer<'a> {
    object: &'a OriginObject,
    request: &'a ServerRequest<'a>,
    options: &'a OriginOptions,
    origin: &'a str,
}

#[expect(clippy::unnecessary_wraps, reason = "faults of other services may not fit a request")]
fn lie(answer: &mut SpoilableAnswer<'_>, _: &mut Draws, fault: &OriginFault) -> Option<Performed> {
    Some((fault.script(answer.object, answer.options), AnswerRemains::Nothing))
}

impl Spoilable for SpoilableAnswer<'_> {
    fn healthy(&mut self) -> Script {
        let mut bytes = Vec::new();
        self.object.answer(self.request, self.options, &mut bytes);
        Script::whole(bytes, self.options.latency)
    }

    fn content(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        self.object.write_body(&mut body);
        Some(body)
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn accepts_gzip(&self) -> bool {
        self.request.accepts_gzip
    }

    fn delay(&self) -> Duration {
        self.options.latency
    }

    fn origin(&self) -> &str {
        self.origin
    }
}
