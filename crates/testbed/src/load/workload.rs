//! What the load generator needs to know of a system: how it is called, and what its answers are
//! worth.

use std::time::Duration;

/// One kind of load: makes calls, sends each over a connection and judges the answer. Runs on the
/// generating thread, where many calls are in flight at once.
///
/// A call is what is sent together and answered together, in any protocol. It may carry several
/// requests, which the workload counts in its outcomes.
pub trait Workload: Send + 'static {
    /// A connection. The default is one that is not open yet, and is opened by its first call.
    type Connection: Default + 'static;
    /// What one call sends.
    type Request: 'static;
    /// What one call gets.
    type Answer: CallAnswer + 'static;
    /// What the workload counts of measured answers; keys of the report's `counts` and rows of its
    /// table.
    type Outcomes: 'static;

    /// The next request.
    fn request(&self) -> Self::Request;

    /// Bytes of a request, without the protocol's own.
    fn request_bytes(request: &Self::Request) -> u64;

    /// Opens a connection before there is anything to send.
    fn open(
        &self,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), CallFailure>>;

    /// Sends a request and waits for the whole answer. At a timeout the future is dropped and so
    /// is the connection: a late answer must not be taken for that of the next call.
    fn call(
        &self,
        connection: &mut Self::Connection,
        request: Self::Request,
    ) -> impl Future<Output = Result<Self::Answer, CallFailure>>;

    /// Counts the answer of a measured call.
    fn count(&self, answer: &Self::Answer);

    /// What follows an answer on its connection, before the next call.
    fn follow_up(
        &self,
        _connection: &mut Self::Connection,
        _answer: Self::Answer,
        _options: FollowUp,
    ) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// What was counted.
    fn outcomes(&self) -> Self::Outcomes;
}

/// What an answer means to the load generator.
pub trait CallAnswer {
    /// What it is worth.
    fn verdict(&self) -> Verdict<'_>;

    /// Code of the protocol, for example HTTP's status: reports tell answers apart by it.
    fn status(&self) -> u16;

    /// Bytes of the answer, without the protocol's own.
    fn bytes(&self) -> u64;

    /// What a report says of a refusal: the first with each status is quoted.
    fn quote(&self) -> String;
}

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// The target did what it is for.
    Valid,
    /// The target said that it does not: such answers are quick, and have no part in the latency.
    Refused,
    /// Not an answer to the request, with the reason.
    Invalid(&'a str),
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// There is no connection.
    Unconnected(String),
    /// The connection ended before the answer did.
    Broken(String),
}

/// The terms of what follows an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowUp {
    /// Whether the call was measured.
    pub is_measured: bool,
    /// Timeout of a call.
    pub timeout: Duration,
}
