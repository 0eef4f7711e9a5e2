//! The refusal of a bid request: a path, a problem in words, and a bounded reason to count by.

use std::fmt;

use strum::{IntoStaticStr, VariantArray};

/// The class of a refusal; bounded, so it may be a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum InvalidReason {
    /// The body is not JSON, or not UTF-8.
    NotJson,
    /// Nested deeper than [`crate::DEPTH_MAX`].
    TooDeep,
    /// A value has the wrong type or range, or a key stands twice.
    WrongType,
    /// A required attribute is absent or empty.
    Missing,
    /// Two impressions or deals share an id.
    Duplicate,
    /// An impression offers no format, or an empty `mimes`.
    NoFormat,
    /// More than one of `site`, `app`, `dooh`.
    SeveralChannels,
    /// More impressions or deals than one auction takes.
    TooMany,
    /// A value that the exchange does not support, such as an auction type or a currency.
    Unsupported,
}

units::labelled!(InvalidReason);

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRequest {
    /// The class of the refusal.
    pub reason: InvalidReason,
    /// Path of the value, for example `imp[0].banner.w`; empty for the whole body.
    pub path: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl InvalidRequest {
    /// A refusal at `path`.
    pub fn at(reason: InvalidReason, path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { reason, path: path.into(), problem: problem.into() }
    }

    /// The body of the 400 answer.
    pub fn to_json(&self) -> String {
        error_json(&self.path, &self.problem)
    }
}

/// The body of an error's answer: `{"error":{"path":…,"problem":…}}`.
pub fn error_json(path: &str, problem: &str) -> String {
    serde_json::json!({ "error": { "path": path, "problem": problem } }).to_string()
}

impl fmt::Display for InvalidRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.problem),
            path => write!(f, "{path}: {}", self.problem),
        }
    }
}

impl std::error::Error for InvalidRequest {}
