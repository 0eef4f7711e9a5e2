//! What can be subscribed to.

use std::fmt;

use strum::{IntoStaticStr, VariantArray};
use units::labelled;

use crate::feed::FeedLane;

/// Longest name of a declared topic, in bytes.
pub const TOPIC_BYTES_MAX: usize = 64;

/// A topic that exists in every feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, VariantArray, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum FeedTopic {
    /// Every auction: when, how it ended, what was sold.
    Auctions,
    /// Auctions that sold something: each sale with its price.
    Wins,
    /// What became of the bids of one seat in one auction.
    Fates,
    /// What became of one deal in one auction.
    Deals,
    /// What became of the bids of one campaign in one auction.
    Campaigns,
    /// What happens to lots, as far as everyone may know it.
    Lots,
    /// Changes of the node itself: its configuration.
    System,
}
labelled!(FeedTopic);

impl FeedTopic {
    /// The lane that has its records.
    pub const fn lane(self) -> FeedLane {
        match self {
            Self::Lots | Self::System => FeedLane::Durable,
            _ => FeedLane::Firehose,
        }
    }

    /// Whether its messages are about auctions, so that a filter may select among them.
    pub const fn is_of_auctions(self) -> bool {
        !matches!(self, Self::Lots | Self::System)
    }
}

/// A topic: one of ours, or one that the configuration declares.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TopicName {
    /// One of ours.
    Feed(FeedTopic),
    /// What clients publish.
    Declared(String),
}

impl TopicName {
    /// The topic of this name. A name that is not ours is taken for a declared one.
    pub fn of(name: &str) -> Self {
        let known = FeedTopic::ALL.into_iter().find(|topic| topic.label() == name);
        known.map_or_else(|| Self::Declared(name.to_owned()), Self::Feed)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Feed(topic) => topic.label(),
            Self::Declared(name) => name,
        }
    }

    /// The lane that has its records.
    pub const fn lane(&self) -> FeedLane {
        match self {
            Self::Feed(topic) => topic.lane(),
            Self::Declared(_) => FeedLane::Firehose,
        }
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a name cannot be that of a declared topic.
///
/// # Errors
/// The remedy.
pub fn check_topic_name(name: &str) -> Result<(), &'static str> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > TOPIC_BYTES_MAX || !name.bytes().all(is_allowed) {
        Err("has 1 to 64 letters, digits and `-_.`")
    } else if matches!(TopicName::of(name), TopicName::Feed(_)) {
        Err("is a topic that exists in every feed: choose another name")
    } else {
        Ok(())
    }
}
