//! What the server says besides the messages of the feed.

use serde::Serialize;

use super::error::{LiveError, LiveErrorCode};
use crate::feed::{FeedLane, FeedPosition, SlowPolicy};

/// The version of the protocol.
const PROTOCOL: u32 = 1;

/// Where the first messages of a subscription come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedOrigin {
    /// The next message that is recorded.
    Now,
    /// From memory.
    Ring,
    /// From the log, and then from memory.
    Log,
}

/// A message of the server's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerMessage<'s> {
    /// The first of a connection.
    Welcome {
        /// The version of the protocol.
        protocol: u32,
        /// The node whose log numbers the messages.
        node: u32,
        /// Time between heartbeats.
        heartbeat_ms: u64,
    },
    /// The token is in force.
    Authenticated {
        /// The command's number.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        /// Who it is.
        subject: &'s str,
        /// When it expires, in Unix seconds.
        expires_s: Option<u64>,
    },
    /// The subscription is in force: its messages are those behind `after`.
    Subscribed {
        /// The command's number.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        /// The topic.
        topic: &'s str,
        /// The lane of its records.
        lane: FeedLane,
        /// What happens when the client reads too slowly.
        policy: SlowPolicy,
        /// The place behind which it begins.
        after: FeedPosition,
        /// Where the first messages come from.
        origin: FeedOrigin,
    },
    /// The subscription has ended.
    Unsubscribed {
        /// The command's number.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        /// The topic.
        topic: &'s str,
    },
    /// The message is on its way to the log and to the subscribers.
    Published {
        /// The command's number.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        /// The topic.
        topic: &'s str,
    },
    /// All messages of the subscription up to `covered` were sent: resume behind it.
    Heartbeat {
        /// The topic.
        topic: &'s str,
        /// The last record that was looked at.
        covered: FeedPosition,
        /// The sequence of the next record of the lane.
        next: u64,
    },
    /// Messages were left out because the client reads too slowly.
    Skipped {
        /// The topic.
        topic: &'s str,
        /// How many.
        messages: u64,
    },
    /// A command was refused; nothing has changed.
    Error {
        /// The command's number.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        /// The kind, for programs.
        code: LiveErrorCode,
        /// The field that is wrong.
        #[serde(skip_serializing_if = "Option::is_none")]
        field: Option<&'static str>,
        /// Why a lot or the ledger refuses, for programs.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'static str>,
        /// What is wrong and what helps.
        message: &'s str,
    },
}

impl<'s> ServerMessage<'s> {
    /// The first message of a connection.
    pub const fn welcome(node: u32, heartbeat_ms: u64) -> Self {
        Self::Welcome { protocol: PROTOCOL, node, heartbeat_ms }
    }

    /// A refusal of the command with this number.
    pub fn error(id: Option<u64>, error: &'s LiveError) -> Self {
        let LiveError { code, field, reason, message } = error;
        Self::Error { id, code: *code, field: *field, reason: *reason, message }
    }

    /// The message as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a message of texts and numbers is JSON")
    }
}
