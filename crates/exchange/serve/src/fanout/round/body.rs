//! Request bodies of one round. Requests with the same view share one body, joined once with room
//! for each head, so that a request is one write; other bodies are written in parts.

use std::cell::RefCell;
use std::io::IoSlice;

use http_kit::gzip::gzip;
use openrtb::{Outbound, OutboundView};

use super::request::DspRequest;
use crate::fanout::connection::call::CallMessage;

/// Most parts per write; more are joined first.
const PARTS_MAX: usize = 64;

pub(super) struct Bodies<'q> {
    outbound: &'q Outbound<'q>,
    requests: &'q [DspRequest<'q>],
    distinct: Vec<Body<'q>>,
    /// The distinct body of each request.
    of: Vec<usize>,
    head_room: usize,
}

struct Body<'q> {
    request: &'q DspRequest<'q>,
    is_shared: bool,
    joined: RefCell<JoinedBody>,
}

/// A body in one piece. Empty until first used.
#[derive(Default)]
struct JoinedBody {
    /// Room for a head, then length, blank line and body.
    bytes: Vec<u8>,
    /// Where the body begins.
    body_at: usize,
}

/// The message of one call.
pub(super) struct BodyMessage<'b, 'q> {
    bodies: &'b Bodies<'q>,
    slot: usize,
    tmax_ms: u32,
}

impl CallMessage for BodyMessage<'_, '_> {
    fn http1<T>(&self, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        let Self { bodies, slot, tmax_ms } = *self;
        let request = &bodies.requests[slot];
        let endpoint = request.pool.endpoint();
        let is_shared = bodies.distinct[bodies.of[slot]].is_shared && !self.is_delayed();
        if !endpoint.gzip_requests && !is_shared {
            return bodies.write_parts(request, tmax_ms, write);
        }
        self.joined(|joined| {
            let head = endpoint.head.as_bytes();
            let start = bodies.head_room - head.len();
            joined.bytes[start..bodies.head_room].copy_from_slice(head);
            write(&[IoSlice::new(&joined.bytes[start..])])
        })
    }

    fn http2<T>(&self, write: impl FnOnce(&[(&str, &str)], &[u8]) -> T) -> T {
        self.joined(|joined| write(&[], &joined.bytes[joined.body_at..]))
    }

    fn body_len(&self) -> usize {
        self.joined(|joined| joined.bytes.len() - joined.body_at)
    }
}

impl BodyMessage<'_, '_> {
    /// Whether the call has less time than its DSP would have had at once.
    fn is_delayed(&self) -> bool {
        self.tmax_ms != self.bodies.requests[self.slot].tmax_ms
    }

    /// Passes the joined body, which all calls share that see the same and are not delayed.
    fn joined<T>(&self, pass: impl FnOnce(&mut JoinedBody) -> T) -> T {
        let Self { bodies, slot, tmax_ms } = *self;
        let request = &bodies.requests[slot];
        if self.is_delayed() {
            return pass(&mut bodies.join(request, tmax_ms));
        }
        let joined = &mut *bodies.distinct[bodies.of[slot]].joined.borrow_mut();
        if joined.bytes.is_empty() {
            *joined = bodies.join(request, tmax_ms);
        }
        pass(joined)
    }
}

impl<'q> Bodies<'q> {
    pub(super) fn new(outbound: &'q Outbound<'q>, requests: &'q [DspRequest<'q>]) -> Self {
        let mut bodies = Self {
            outbound,
            requests,
            distinct: Vec::with_capacity(4),
            of: Vec::with_capacity(requests.len()),
            head_room: 0,
        };
        for request in requests {
            bodies.head_room = bodies.head_room.max(request.pool.endpoint().head.len());
            let same = bodies.distinct.iter_mut().position(|body| {
                let same = sees_the_same(body.request, request);
                body.is_shared |= same;
                same
            });
            bodies.of.push(same.unwrap_or(bodies.distinct.len()));
            if same.is_none() {
                bodies.distinct.push(Body {
                    request,
                    is_shared: false,
                    joined: RefCell::default(),
                });
            }
        }
        bodies
    }

    /// The message of a call; `tmax_ms` is at most its request's.
    pub(super) const fn message(&self, slot: usize, tmax_ms: u32) -> BodyMessage<'_, 'q> {
        BodyMessage { bodies: self, slot, tmax_ms }
    }

    fn write_parts<T>(
        &self,
        request: &DspRequest<'_>,
        tmax_ms: u32,
        write: impl FnOnce(&[IoSlice<'_>]) -> T,
    ) -> T {
        let mut tmax = itoa::Buffer::new();
        let view = view(request, tmax.format(tmax_ms));
        // The first three are head, length and blank line.
        let mut parts = [IoSlice::new(&[]); PARTS_MAX];
        let (mut used, mut length) = (3, 0);
        self.outbound.for_each(&view, |slice| {
            length += slice.len();
            if let Some(part) = parts.get_mut(used) {
                *part = IoSlice::new(slice.as_bytes());
            }
            used += 1;
        });
        let joined;
        if used > PARTS_MAX {
            joined = self.outbound.to_text(&view);
            parts[3] = IoSlice::new(joined.as_bytes());
            used = 4;
        }
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(length);
        parts[0] = IoSlice::new(request.pool.endpoint().head.as_bytes());
        parts[1] = IoSlice::new(digits.as_bytes());
        parts[2] = IoSlice::new(b"\r\n\r\n");
        write(&parts[..used])
    }

    fn join(&self, request: &DspRequest<'_>, tmax_ms: u32) -> JoinedBody {
        let mut tmax = itoa::Buffer::new();
        let view = view(request, tmax.format(tmax_ms));
        if request.pool.endpoint().gzip_requests {
            let compressed =
                gzip(|write| self.outbound.for_each(&view, |part| write(part.as_bytes())));
            let mut joined = self.room(compressed.len());
            joined.bytes.extend_from_slice(&compressed);
            return joined;
        }
        let mut length = 0;
        self.outbound.for_each(&view, |slice| length += slice.len());
        let mut joined = self.room(length);
        self.outbound.for_each(&view, |slice| joined.bytes.extend_from_slice(slice.as_bytes()));
        joined
    }

    /// A buffer with room for a head, then the length and the blank line.
    fn room(&self, length: usize) -> JoinedBody {
        let mut bytes = Vec::with_capacity(self.head_room + length + 24);
        bytes.resize(self.head_room, 0);
        bytes.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
        bytes.extend_from_slice(b"\r\n\r\n");
        JoinedBody { body_at: bytes.len(), bytes }
    }
}

fn view<'v>(request: &'v DspRequest<'_>, tmax: &'v str) -> OutboundView<'v> {
    OutboundView {
        imps: request.imps,
        deals: request.deals,
        tmax,
        cur: &request.pool.endpoint().cur,
        buyeruid: request.buyeruid,
        bidder: request.bidder,
        is_limited: request.is_limited,
    }
}

fn sees_the_same(one: &DspRequest<'_>, other: &DspRequest<'_>) -> bool {
    one.imps == other.imps
        && one.deals == other.deals
        && one.tmax_ms == other.tmax_ms
        && one.buyeruid == other.buyeruid
        && one.bidder == other.bidder
        && one.is_limited == other.is_limited
        && one.pool.endpoint().cur == other.pool.endpoint().cur
        && one.pool.endpoint().gzip_requests == other.pool.endpoint().gzip_requests
}
