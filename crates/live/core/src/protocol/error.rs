//! Why a command was refused.

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};
use units::labelled;

/// Most bytes of a client's own words in a message.
const SHOWN_BYTES_MAX: usize = 60;

/// The kind of a refusal, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, VariantArray, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LiveErrorCode {
    /// The message is not JSON, or not an object.
    Malformed,
    /// There is no such `op`.
    UnknownOp,
    /// A field that the command does not have, lacks, or that has another type.
    BadField,
    /// There is no such topic.
    UnknownTopic,
    /// The filter cannot be parsed, or the topic has none.
    BadFilter,
    /// The token is missing, damaged, not ours, or expired.
    BadToken,
    /// The token does not grant this.
    Forbidden,
    /// The connection already has this subscription, or does not have it.
    Subscription,
    /// A limit of the connection or of the server is reached.
    Limit,
    /// Too many commands: wait.
    RateLimited,
    /// The server cannot take more now: wait.
    Busy,
    /// The body is too long.
    TooLarge,
    /// There is no such lot.
    UnknownLot,
    /// The lot or the ledger refuses the command: see the reason.
    Refused,
}
labelled!(LiveErrorCode);

/// A refusal: nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LiveError {
    /// Its kind.
    pub code: LiveErrorCode,
    /// The field that is wrong. None if the command as a whole is.
    pub field: Option<&'static str>,
    /// Why a lot or the ledger refuses, for programs. None of other kinds.
    pub reason: Option<&'static str>,
    /// What is wrong and what helps.
    pub message: String,
}

impl LiveError {
    /// About the command as a whole.
    pub fn new(code: LiveErrorCode, message: impl Into<String>) -> Self {
        Self { code, field: None, reason: None, message: message.into() }
    }

    /// About a field.
    pub fn field(code: LiveErrorCode, field: &'static str, message: impl Into<String>) -> Self {
        Self { field: Some(field), ..Self::new(code, message) }
    }
}

/// A client's own word in backquotes, shortened and without control characters.
pub(super) fn quoted(word: &str) -> String {
    let mut shown: String =
        word.chars().filter(|c| !c.is_control()).take(SHOWN_BYTES_MAX).collect();
    if shown.len() < word.len() {
        shown.push('…');
    }
    format!("`{shown}`")
}
