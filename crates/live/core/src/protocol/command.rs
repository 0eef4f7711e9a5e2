//! Reads a client's command.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::{LiveError, LiveErrorCode, quoted};
use crate::feed::{FeedPosition, SlowPolicy};
use crate::topic::TopicName;

/// Every `op`.
const OPS: [&str; 12] = [
    "auth",
    "subscribe",
    "unsubscribe",
    "publish",
    "lots",
    "lot",
    "bid",
    "create_lot",
    "open_lot",
    "extend_lot",
    "close_lot",
    "cancel_lot",
];

/// A command, and the number by which its answer is recognised.
#[derive(Debug)]
pub struct ParsedCommand<'m> {
    /// The client's own number, which the answer repeats.
    pub id: Option<u64>,
    /// The command, or why it is refused.
    pub command: Result<Command<'m>, LiveError>,
}

/// What a client wants.
#[derive(Debug)]
pub enum Command<'m> {
    /// Use the rights of this token from now on.
    Auth {
        /// The token.
        token: Cow<'m, str>,
    },
    /// Send the messages of a topic.
    Subscribe(Subscribe<'m>),
    /// Send no more of a topic.
    Unsubscribe {
        /// The topic.
        topic: TopicName,
    },
    /// Send a message to the subscribers of a declared topic.
    Publish {
        /// The topic.
        topic: Cow<'m, str>,
        /// What the message is about: a later one replaces it for subscribers that conflate.
        key: Cow<'m, str>,
        /// The message, as the client wrote it.
        body: &'m RawValue,
    },
    /// A command about lots.
    Lots(LotsCommand<'m>),
}

/// A command about lots.
#[derive(Debug)]
pub enum LotsCommand<'m> {
    /// Show lots.
    List {
        /// Behind this one. None from the first one on.
        after: Option<Cow<'m, str>>,
    },
    /// Show a lot.
    Show {
        /// The lot.
        lot: Cow<'m, str>,
    },
    /// Bid for a lot.
    Bid(BidCommand<'m>),
    /// Create a lot.
    Create {
        /// Its terms, as the client wrote them.
        terms: &'m RawValue,
    },
    /// Open a lot before its time.
    Open {
        /// The lot.
        lot: Cow<'m, str>,
    },
    /// Postpone a lot's end.
    Extend {
        /// The lot.
        lot: Cow<'m, str>,
        /// The new end in Unix milliseconds.
        closes_ms: u64,
    },
    /// Close a lot before its time.
    Close {
        /// The lot.
        lot: Cow<'m, str>,
    },
    /// End a lot without a sale.
    Cancel {
        /// The lot.
        lot: Cow<'m, str>,
        /// Published with the lot.
        reason: Cow<'m, str>,
    },
}

/// A bid as a client writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BidCommand<'m> {
    /// The lot.
    pub lot: Cow<'m, str>,
    /// The most that the bidder pays for 1000 impressions: decimal text.
    pub maximum: Cow<'m, str>,
    /// The currency of `maximum`.
    pub currency: Cow<'m, str>,
    /// Idempotency key.
    pub key: Cow<'m, str>,
}

/// A wish for the messages of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe<'m> {
    /// The topic.
    pub topic: TopicName,
    /// Which of its messages; empty for all.
    pub filter: Cow<'m, str>,
    /// What happens when the client reads too slowly.
    pub policy: SlowPolicy,
    /// Begin behind this place. None: with the next message.
    pub after: Option<FeedPosition>,
}

/// The fields of all commands.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandFields<'m> {
    #[serde(borrow)]
    op: Cow<'m, str>,
    id: Option<u64>,
    #[serde(borrow)]
    token: Option<Cow<'m, str>>,
    #[serde(borrow)]
    topic: Option<Cow<'m, str>>,
    #[serde(borrow)]
    filter: Option<Cow<'m, str>>,
    policy: Option<SlowPolicy>,
    after: Option<FeedPosition>,
    #[serde(borrow)]
    key: Option<Cow<'m, str>>,
    #[serde(borrow)]
    body: Option<&'m RawValue>,
    #[serde(borrow)]
    lot: Option<Cow<'m, str>>,
    #[serde(borrow)]
    maximum: Option<Cow<'m, str>>,
    #[serde(borrow)]
    currency: Option<Cow<'m, str>>,
    #[serde(borrow)]
    reason: Option<Cow<'m, str>>,
    #[serde(borrow)]
    terms: Option<&'m RawValue>,
    closes_ms: Option<u64>,
}

/// Only the number, for the answer to a command that is otherwise wrong.
#[derive(Default, Deserialize)]
struct CommandId {
    id: Option<u64>,
}

impl<'m> ParsedCommand<'m> {
    /// Reads a message.
    pub fn parse(text: &'m str) -> Self {
        match serde_json::from_str::<CommandFields<'m>>(text) {
            Ok(fields) => {
                let id = fields.id;
                Self { id, command: fields.command() }
            }
            Err(error) => {
                let CommandId { id } = serde_json::from_str(text).unwrap_or_default();
                Self { id, command: Err(of_json(&error)) }
            }
        }
    }
}

fn of_json(error: &serde_json::Error) -> LiveError {
    let code = if error.is_data() { LiveErrorCode::BadField } else { LiveErrorCode::Malformed };
    // Its words may quote a whole field of the client.
    let words: String = error.to_string().chars().filter(|c| !c.is_control()).take(200).collect();
    LiveError::new(code, format!("{words}; commands are described in docs/live.md"))
}

impl<'m> CommandFields<'m> {
    fn command(mut self) -> Result<Command<'m>, LiveError> {
        let op = std::mem::take(&mut self.op);
        let command = match &*op {
            "auth" => Command::Auth { token: needed("token", self.token.take())? },
            "subscribe" => Command::Subscribe(Subscribe {
                topic: TopicName::of(&needed("topic", self.topic.take())?),
                filter: self.filter.take().unwrap_or_default(),
                policy: self.policy.take().unwrap_or_default(),
                after: self.after.take(),
            }),
            "unsubscribe" => {
                let topic = TopicName::of(&needed("topic", self.topic.take())?);
                Command::Unsubscribe { topic }
            }
            "publish" => Command::Publish {
                topic: needed("topic", self.topic.take())?,
                key: self.key.take().unwrap_or_default(),
                body: needed("body", self.body.take())?,
            },
            other => Command::Lots(self.lots_command(other)?),
        };
        match self.left_over() {
            None => Ok(command),
            Some(field) => {
                let message = format!("{} has no field `{field}`: leave it out", quoted(&op));
                Err(LiveError::field(LiveErrorCode::BadField, field, message))
            }
        }
    }

    fn lots_command(&mut self, op: &str) -> Result<LotsCommand<'m>, LiveError> {
        let lot = self.lot.take();
        if op == "lots" {
            return Ok(LotsCommand::List { after: lot });
        }
        let lot = || needed("lot", lot);
        Ok(match op {
            "lot" => LotsCommand::Show { lot: lot()? },
            "bid" => LotsCommand::Bid(BidCommand {
                lot: lot()?,
                maximum: needed("maximum", self.maximum.take())?,
                currency: needed("currency", self.currency.take())?,
                key: needed("key", self.key.take())?,
            }),
            "create_lot" => LotsCommand::Create { terms: needed("terms", self.terms.take())? },
            "open_lot" => LotsCommand::Open { lot: lot()? },
            "extend_lot" => LotsCommand::Extend {
                lot: lot()?,
                closes_ms: needed("closes_ms", self.closes_ms.take())?,
            },
            "close_lot" => LotsCommand::Close { lot: lot()? },
            "cancel_lot" => {
                LotsCommand::Cancel { lot: lot()?, reason: needed("reason", self.reason.take())? }
            }
            other => {
                let message =
                    format!("there is no op {}: it is one of {}", quoted(other), OPS.join(", "));
                return Err(LiveError::field(LiveErrorCode::UnknownOp, "op", message));
            }
        })
    }

    /// A field that the command did not take.
    fn left_over(&self) -> Option<&'static str> {
        let Self { op: _, id: _, token, topic, filter, policy, after, key, body, .. } = self;
        let Self { lot, maximum, currency, reason, terms, closes_ms, .. } = self;
        [
            ("token", token.is_some()),
            ("topic", topic.is_some()),
            ("filter", filter.is_some()),
            ("policy", policy.is_some()),
            ("after", after.is_some()),
            ("key", key.is_some()),
            ("body", body.is_some()),
            ("lot", lot.is_some()),
            ("maximum", maximum.is_some()),
            ("currency", currency.is_some()),
            ("reason", reason.is_some()),
            ("terms", terms.is_some()),
            ("closes_ms", closes_ms.is_some()),
        ]
        .into_iter()
        .find_map(|(field, is_given)| is_given.then_some(field))
    }
}

fn needed<T>(field: &'static str, value: Option<T>) -> Result<T, LiveError> {
    value.ok_or_else(|| {
        LiveError::field(LiveErrorCode::BadField, field, format!("`{field}` is missing"))
    })
}

#[cfg(test)]
mod tests;
