//! The load generator's interface to a system: how to call it, and how to judge its answers.

use std::time::Duration;

/// One kind of load: makes calls, sends each over a connection and judges the answer. Runs on the
/// generating thread, with many calls in flight.
///
/// A call is what is sent and answered together, in any protocol. It may carry several requests,
/// which the workload counts in its outcomes.
pub trait Workload: Send + 'static {
    /// A connection. The default is closed; its first call opens it.
    type Connection: Default + 'static;
    /// The content of one call.
    type Request: 'static;
    /// The answer to one call.
    type Answer: CallAnswer + 'static;
    /// The workload's counts of measured answers: keys of the report's `counts`, and rows of its
    /// table.
    type Outcomes: 'static;

    /// The next request.
    fn request(&self) -> Self::Request;

    /// Bytes of a request, without protocol overhead.
    fn request_bytes(request: &Self::Request) -> u64;

    /// Opens a connection before the first call.
    fn open(
        &self,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), CallFailure>>;

    /// Sends a request and waits for the whole answer. On a timeout the future is dropped and so is
    /// the connection: a late answer must not be taken for the next call's.
    fn call(
        &self,
        connection: &mut Self::Connection,
        request: Self::Request,
    ) -> impl Future<Output = Result<Self::Answer, CallFailure>>;

    /// Counts the answer of a measured call.
    fn count(&self, answer: &Self::Answer);

    /// Acts on an answer, on its connection, before the next call.
    fn follow_up(
        &self,
        _connection: &mut Self::Connection,
        _answer: Self::Answer,
        _options: FollowUp,
    ) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// The counts.
    fn outcomes(&self) -> Self::Outcomes;
}

/// An answer as the load generator sees it.
pub trait CallAnswer {
    /// The verdict on the answer.
    fn verdict(&self) -> Verdict<'_>;

    /// The protocol's code, for example the HTTP status, by which reports group answers.
    fn status(&self) -> u16;

    /// Bytes of the answer, without protocol overhead.
    fn bytes(&self) -> u64;

    /// The quote of a refusal in the report, which shows the first of each status.
    fn quote(&self) -> String;
}

/// The verdict on an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// The target did its job.
    Valid,
    /// The target refused. Refusals are quick, so they do not count in the latency.
    Refused,
    /// Not an answer to the request; with the reason.
    Invalid(&'a str),
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// There is no connection.
    Unconnected(String),
    /// The connection ended before the answer was complete.
    Broken(String),
}

/// Limits of a follow-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowUp {
    /// Whether the call was measured.
    pub is_measured: bool,
    /// Timeout of a call.
    pub timeout: Duration,
}
