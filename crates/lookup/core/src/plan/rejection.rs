//! Why calls cannot be used for a query.

use std::fmt::{self, Display, Formatter};

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// No provider of these names.
    UnknownSystem(String),
    /// No call of the chosen systems gives these keys.
    NothingGives(Vec<String>),
    /// Calls give them, but none can be used.
    AllRejected(Vec<RejectedCall>),
}

/// A call that gives what is asked for, but cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedCall {
    /// Its name: `provider.call`.
    pub name: String,
    /// Why.
    pub reason: Rejection,
}

/// Why a call cannot be used. The first that holds is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The query excludes its provider.
    OtherSystem,
    /// The provider has no such instance.
    NoInstance(String),
    /// A condition on this key cannot be passed to the provider.
    TakesNoCondition(String),
    /// This key takes no `*`.
    TakesNoPattern(String),
    /// This key takes no range.
    TakesNoRange(String),
    /// A value does not match the pattern of its parameter.
    Unfit {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What values look like.
        pattern: String,
    },
    /// It needs a condition on this key.
    NeedsCondition(String),
    /// The call that would find the values of a key cannot be used.
    NoFeeder {
        /// The key.
        key: String,
        /// That call, and why.
        feeder: Box<RejectedCall>,
    },
    /// Another call answers without steps before it.
    NotNeeded,
}

impl Display for Rejection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherSystem => f.write_str("is of a system that the query excludes"),
            Self::NoInstance(name) => write!(f, "has no instance `{name}`"),
            Self::TakesNoCondition(key) => write!(f, "takes no condition on `{key}`"),
            Self::TakesNoPattern(key) => write!(f, "takes no `*` in values of `{key}`"),
            Self::TakesNoRange(key) => write!(f, "takes no range of `{key}`"),
            Self::Unfit { key, value, pattern } => {
                write!(f, "takes values of `{key}` like `{pattern}`, not `{value}`")
            }
            Self::NeedsCondition(key) => write!(f, "needs a condition on `{key}`"),
            Self::NoFeeder { key, feeder } => {
                write!(f, "needs values of `{key}` from {}, which {}", feeder.name, feeder.reason)
            }
            Self::NotNeeded => f.write_str("needs steps that others do not"),
        }
    }
}

impl Display for PlanError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownSystem(name) => write!(f, "there is no system `{name}`"),
            Self::NothingGives(keys) => write!(f, "no provider gives {}", keys.join(" with ")),
            Self::AllRejected(calls) => {
                f.write_str("no provider answers this query")?;
                calls.iter().try_for_each(|call| write!(f, "\n  {} {}", call.name, call.reason))
            }
        }
    }
}

impl std::error::Error for PlanError {}
