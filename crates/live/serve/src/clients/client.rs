//! What a client has asked for, over whatever protocol: its rights, its subscriptions, and how often
//! it may ask.

use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

use events::Publication;
use live_core::feed::FeedRing;
use live_core::floor::FloorAnswer;
use live_core::protocol::{
    Command, LiveError, LiveErrorCode, ParsedCommand, ServerMessage, Subscribe,
};
use live_core::rights::LiveRights;
use runtime::process::unix_ms;
use serde::Serialize;

use crate::clients::subscription::{
    DeliveryContext, NextMessages, Subscription, SubscriptionEnd, write_message, write_text,
};
use crate::feed::ReaderId;
use crate::feed::selection::Selection;
use crate::lots::commands::{floor_command, refusal};
use crate::lots::outlet::{AnswerAddress, ClientAnswer};
use crate::shard::LiveShard;

/// How long unused commands are saved up.
const SAVED_MAX: Duration = Duration::from_secs(10);
/// Commands about lots that a client may have sent without an answer.
const ASKED_MAX: usize = 16;

/// How many commands a client may still send: a bucket that fills with time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandAllowance {
    cost: Duration,
    saved: Duration,
    at: Instant,
}

impl CommandAllowance {
    /// A full allowance of this many commands per second.
    pub fn new(per_s: u32, now: Instant) -> Self {
        Self { cost: Duration::from_secs(1) / per_s, saved: SAVED_MAX, at: now }
    }

    /// Takes one command; returns whether it is allowed.
    pub fn take(&mut self, now: Instant) -> bool {
        self.saved = (self.saved + now.saturating_duration_since(self.at)).min(SAVED_MAX);
        self.at = now;
        match self.saved.checked_sub(self.cost) {
            Some(left) => self.saved = left,
            None => return false,
        }
        true
    }
}

/// What a client has for the moment.
pub(crate) struct ClientFeed {
    /// None until it has sent a token.
    rights: Option<LiveRights>,
    subscriptions: Vec<Subscription>,
    /// The subscription to look at first: they take turns.
    first: usize,
    /// Commands about lots that are not answered.
    asked: usize,
}

/// An answer of the floor, as it is sent.
#[derive(Serialize)]
struct AnswerMessage<'a> {
    #[serde(flatten)]
    answer: &'a FloorAnswer,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
}

/// What is to be sent next.
pub(crate) enum NextDelivery {
    /// Nothing, for now.
    Wait,
    /// Frames, which were appended.
    Appended,
    /// What the ring has for the subscription of this number.
    Ring(usize),
    /// Nothing more: the subscription's end ends the connection.
    End(SubscriptionEnd),
}

impl ClientFeed {
    /// A client without subscriptions.
    pub const fn new(rights: Option<LiveRights>) -> Self {
        Self { rights, subscriptions: Vec::new(), first: 0, asked: 0 }
    }

    /// Whether it may do anything.
    pub const fn has_rights(&self) -> bool {
        self.rights.is_some()
    }

    /// Whether its rights have ended.
    pub fn is_expired(&self) -> bool {
        self.rights.as_ref().is_some_and(|rights| rights.is_expired(unix_ms() / 1000))
    }

    pub fn subscription(&mut self, number: usize) -> &mut Subscription {
        &mut self.subscriptions[number]
    }

    /// Obeys a command; its answer is appended to `out`, now or once a subscription is complete.
    pub fn obey(&mut self, shard: &Rc<LiveShard>, reader: ReaderId, text: &str, out: &mut Vec<u8>) {
        let ParsedCommand { id, command } = ParsedCommand::parse(text);
        let obeyed = command.and_then(|command| match command {
            Command::Auth { token } => {
                let rights = shard.context.access.verify(&token)?;
                let (subject, expires_s) = (&*rights.subject, rights.expires_s);
                write_message(&ServerMessage::Authenticated { id, subject, expires_s }, out);
                self.rights = Some(rights);
                Ok(())
            }
            Command::Subscribe(wanted) => self.subscribe(shard, reader, id, &wanted),
            Command::Unsubscribe { topic } => {
                let at = self.position(topic.as_str()).ok_or_else(|| {
                    let message = "there is no subscription to this topic";
                    LiveError::field(LiveErrorCode::Subscription, "topic", message)
                })?;
                self.remove(shard, reader, at);
                write_message(&ServerMessage::Unsubscribed { id, topic: topic.as_str() }, out);
                Ok(())
            }
            Command::Publish { topic, key, body } => {
                let rights = self.rights()?;
                let (topic, publisher) = (&*topic, &*rights.subject);
                let publication = Publication { topic, publisher, key: &key, body: body.get() };
                shard.publish(rights, &publication)?;
                write_message(&ServerMessage::Published { id, topic }, out);
                Ok(())
            }
            Command::Lots(command) => {
                let command = floor_command(self.rights()?, command)?;
                if self.asked >= ASKED_MAX {
                    let message = format!("{ASKED_MAX} commands about lots are not answered yet");
                    return Err(LiveError::new(LiveErrorCode::RateLimited, message));
                }
                let to = AnswerAddress::Client { shard: shard.index, reader, id };
                shard.lots()?.send(to, command).map_err(|refused| refusal(&refused))?;
                self.asked += 1;
                Ok(())
            }
        });
        if let Err(error) = obeyed {
            self.refuse(shard, id, &error, out);
        }
    }

    /// Appends an answer of the floor.
    pub fn answer(&mut self, shard: &LiveShard, answer: &ClientAnswer, out: &mut Vec<u8>) {
        self.asked -= 1;
        let ClientAnswer { id, outcome, .. } = answer;
        match outcome {
            Ok(answer) => {
                let message = AnswerMessage { answer, id: *id };
                let text = serde_json::to_vec(&message).expect("texts and numbers are JSON");
                write_text(&text, out);
            }
            Err(refused) => self.refuse(shard, *id, &refusal(refused), out),
        }
    }

    /// Appends a refusal, and counts it.
    pub fn refuse(&self, shard: &LiveShard, id: Option<u64>, error: &LiveError, out: &mut Vec<u8>) {
        shard.count_refusal(error);
        write_message(&ServerMessage::error(id, error), out);
    }

    fn rights(&self) -> Result<&LiveRights, LiveError> {
        let rights = self.rights.as_ref().filter(|rights| !rights.is_expired(unix_ms() / 1000));
        rights.ok_or_else(|| {
            let message = "send a token first: {\"op\":\"auth\",\"token\":\"…\"}";
            LiveError::new(LiveErrorCode::BadToken, message)
        })
    }

    /// Begins a subscription.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn subscribe(
        &mut self,
        shard: &Rc<LiveShard>,
        reader: ReaderId,
        id: Option<u64>,
        wanted: &Subscribe<'_>,
    ) -> Result<(), LiveError> {
        let Subscribe { topic, filter, policy, after } = wanted;
        let limits = &shard.context.config.limits;
        if let live_core::topic::TopicName::Declared(name) = topic
            && !shard.context.config.topics.contains(name)
        {
            let known = shard.context.topics_shown();
            let message = format!("there is no such topic: topics are {known}");
            return Err(LiveError::field(LiveErrorCode::UnknownTopic, "topic", message));
        }
        let scope = self.rights()?.scope(topic).ok_or_else(|| {
            let message = format!("the token does not grant `{topic}`");
            LiveError::field(LiveErrorCode::Forbidden, "topic", message)
        })?;
        if self.position(topic.as_str()).is_some() {
            let message = "there is a subscription to this topic: end it first";
            return Err(LiveError::field(LiveErrorCode::Subscription, "topic", message));
        }
        if self.subscriptions.len() >= limits.subscriptions {
            let message = format!("a connection has at most {} topics", limits.subscriptions);
            return Err(LiveError::new(LiveErrorCode::Limit, message));
        }
        let selection = Selection::new(topic.clone(), filter, scope)?;
        let view = shard.join_view(selection, reader)?;
        shard.count_subscription(*policy, 1);
        self.subscriptions.push(Subscription::new(view, *policy, *after, id));
        Ok(())
    }

    fn position(&self, topic: &str) -> Option<usize> {
        self.subscriptions.iter().position(|known| known.topic() == topic)
    }

    fn remove(&mut self, shard: &LiveShard, reader: ReaderId, at: usize) {
        let ended = self.subscriptions.remove(at);
        shard.count_subscription(ended.policy, -1);
        // A view is left only with its last subscription: a topic has one per client.
        shard.leave_view(&ended.view, reader);
    }

    /// Ends all subscriptions.
    pub fn leave(&mut self, shard: &LiveShard, reader: ReaderId) {
        while !self.subscriptions.is_empty() {
            self.remove(shard, reader, 0);
        }
    }

    /// What is to be sent next.
    pub fn next(
        &mut self,
        reader: ReaderId,
        with: &DeliveryContext<'_>,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> NextDelivery {
        let count = self.subscriptions.len();
        for turn in 0..count {
            let at = (self.first + turn) % count;
            match self.subscriptions[at].next(with, cx, out) {
                NextMessages::Wait => (),
                NextMessages::Appended => return NextDelivery::Appended,
                NextMessages::Ring => {
                    self.first = at + 1;
                    return NextDelivery::Ring(at);
                }
                NextMessages::End(SubscriptionEnd::Refused(id, error)) => {
                    self.remove(with.shard, reader, at);
                    self.refuse(with.shard, id, &error, out);
                    return NextDelivery::Appended;
                }
                NextMessages::End(end) => return NextDelivery::End(end),
            }
        }
        NextDelivery::Wait
    }

    /// Why the connection ends although its client takes nothing: a strict subscription of it fell
    /// behind.
    pub fn fell_behind(&self, ring: &FeedRing) -> Option<SubscriptionEnd> {
        self.subscriptions.iter().find_map(|subscription| subscription.fell_behind(ring))
    }

    /// Appends a heartbeat of each subscription that has read everything.
    pub fn beat(&mut self, ring: &FeedRing, out: &mut Vec<u8>) {
        self.subscriptions.iter_mut().for_each(|subscription| subscription.beat(ring, out));
    }
}
