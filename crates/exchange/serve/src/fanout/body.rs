//! The bodies of one round. DSPs that see the same are sent the same: what several share is joined
//! once, which spares each write a dozen small parts; what one alone sees is written in parts.

use std::cell::OnceCell;
use std::io::IoSlice;

use openrtb::{Outbound, View};

use super::round::Question;

/// Most parts of a request that go to the socket without being joined first.
const PARTS_MAX: usize = 64;

/// The bodies of all questions.
pub(super) struct Bodies<'q> {
    outbound: &'q Outbound<'q>,
    distinct: Vec<Body<'q>>,
    /// By question: which of the distinct bodies.
    of: Vec<usize>,
}

struct Body<'q> {
    question: &'q Question<'q>,
    is_shared: bool,
    /// What follows the head: length, blank line and the body.
    joined: OnceCell<String>,
}

impl<'q> Bodies<'q> {
    pub(super) fn new(outbound: &'q Outbound<'q>, questions: &'q [Question<'q>]) -> Self {
        let mut bodies = Self {
            outbound,
            distinct: Vec::with_capacity(4),
            of: Vec::with_capacity(questions.len()),
        };
        for question in questions {
            let same = bodies.distinct.iter_mut().position(|body| {
                let same = sees_the_same(body.question, question);
                body.is_shared |= same;
                same
            });
            bodies.of.push(same.unwrap_or(bodies.distinct.len()));
            if same.is_none() {
                bodies.distinct.push(Body { question, is_shared: false, joined: OnceCell::new() });
            }
        }
        bodies
    }

    /// Hands the parts of a whole request to `write`.
    pub(super) fn write<T>(
        &self,
        slot: usize,
        head: &str,
        write: impl FnOnce(&[IoSlice<'_>]) -> T,
    ) -> T {
        let body = &self.distinct[self.of[slot]];
        if body.is_shared {
            let rest = body.joined.get_or_init(|| self.join(body.question));
            let parts = [head, rest].map(|part| IoSlice::new(part.as_bytes()));
            return write(&parts);
        }
        self.write_parts(body.question, head, write)
    }

    fn write_parts<T>(
        &self,
        question: &Question<'_>,
        head: &str,
        write: impl FnOnce(&[IoSlice<'_>]) -> T,
    ) -> T {
        let mut tmax = itoa::Buffer::new();
        let view = view(question, tmax.format(question.tmax_ms));
        // Head, length and blank line come first; the body's parts follow.
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
        parts[0] = IoSlice::new(head.as_bytes());
        parts[1] = IoSlice::new(digits.as_bytes());
        parts[2] = IoSlice::new(b"\r\n\r\n");
        write(&parts[..used])
    }

    fn join(&self, question: &Question<'_>) -> String {
        let mut tmax = itoa::Buffer::new();
        let view = view(question, tmax.format(question.tmax_ms));
        let mut length = 0;
        self.outbound.for_each(&view, |slice| length += slice.len());
        let mut joined = String::with_capacity(length + 16);
        joined.push_str(itoa::Buffer::new().format(length));
        joined.push_str("\r\n\r\n");
        self.outbound.for_each(&view, |slice| joined.push_str(slice));
        joined
    }
}

fn view<'v>(question: &'v Question<'_>, tmax: &'v str) -> View<'v> {
    View {
        imps: question.imps,
        deals: question.deals,
        tmax,
        cur: &question.pool.endpoint.cur,
        buyeruid: question.buyeruid,
    }
}

fn sees_the_same(one: &Question<'_>, other: &Question<'_>) -> bool {
    one.imps == other.imps
        && one.deals == other.deals
        && one.tmax_ms == other.tmax_ms
        && one.buyeruid == other.buyeruid
        && one.pool.endpoint.cur == other.pool.endpoint.cur
}
