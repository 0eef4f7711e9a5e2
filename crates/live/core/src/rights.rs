//! Who may see and say what.
//!
//! Owns the claims of a token and what they allow. How a token is signed is not its concern.

use serde::{Deserialize, Serialize};

use crate::topic::{FeedTopic, TopicName};

/// What a token says of its bearer: the payload of a JSON Web Token (RFC 7519).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveClaims {
    /// Who it is, in logs and published messages.
    pub sub: String,
    /// When the token expires, in Unix seconds.
    pub exp: u64,
    /// When it was issued, in Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iat: Option<u64>,
    /// Seats whose fates it may see: `dsp/seat`, or `dsp` for all seats of a DSP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seats: Vec<String>,
    /// Topics that it may see entirely; `*` for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// Declared topics to which it may publish; `*` for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub publish: Vec<String>,
    /// As whom it may bid for lots: `dsp/seat`. Needs `account`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bidder: Option<String>,
    /// The account that pays for its bids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Whether it may create lots, and open, extend, close and cancel them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub operator: bool,
}

/// As whom a client bids, and who pays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BidderRights {
    /// `dsp/seat`.
    pub bidder: String,
    /// The account that pays.
    pub account: String,
}

/// What a client may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRights {
    /// Who it is; empty without a token.
    pub subject: String,
    /// Until when, in Unix seconds. None without a token: for as long as the connection lasts.
    pub expires_s: Option<u64>,
    seats: Vec<String>,
    topics: Vec<String>,
    publish: Vec<String>,
    /// None: it may not bid.
    pub bidder: Option<BidderRights>,
    /// Whether it may change lots.
    pub is_operator: bool,
}

/// Which messages of a topic a client may see.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TopicScope {
    /// All.
    Whole,
    /// Those about these seats: `dsp/seat`, or `dsp` for all seats of a DSP; sorted.
    Seats(Vec<String>),
}

impl LiveRights {
    /// Those that a token grants.
    pub fn of(claims: LiveClaims) -> Self {
        let LiveClaims { sub, exp, seats, topics, publish, .. } = claims;
        let bidder = claims.bidder.zip(claims.account);
        Self {
            subject: sub,
            expires_s: Some(exp),
            seats,
            topics,
            publish,
            bidder: bidder.map(|(bidder, account)| BidderRights { bidder, account }),
            is_operator: claims.operator,
        }
    }

    /// Those of an operator on the machine itself: all.
    pub fn local() -> Self {
        let all = || vec!["*".to_owned()];
        Self {
            subject: String::new(),
            expires_s: None,
            seats: Vec::new(),
            topics: all(),
            publish: all(),
            bidder: None,
            is_operator: true,
        }
    }

    /// What it may see of a topic. None: nothing.
    pub fn scope(&self, topic: &TopicName) -> Option<TopicScope> {
        let sees_lots = self.bidder.is_some() || self.is_operator;
        let is_lots = *topic == TopicName::Feed(FeedTopic::Lots);
        if grants(&self.topics, topic.as_str()) || is_lots && sees_lots {
            return Some(TopicScope::Whole);
        }
        let has_seats = *topic == TopicName::Feed(FeedTopic::Fates) && !self.seats.is_empty();
        has_seats.then(|| {
            let mut seats = self.seats.clone();
            seats.sort_unstable();
            seats.dedup();
            TopicScope::Seats(seats)
        })
    }

    /// Whether it may publish to a declared topic.
    pub fn may_publish(&self, topic: &str) -> bool {
        grants(&self.publish, topic)
    }

    /// Whether the rights have ended at `unix_s`.
    pub fn is_expired(&self, unix_s: u64) -> bool {
        self.expires_s.is_some_and(|expires| expires <= unix_s)
    }
}

fn grants(names: &[String], name: &str) -> bool {
    names.iter().any(|granted| granted == "*" || granted == name)
}

impl TopicScope {
    /// Whether messages about this seat may be seen.
    pub fn has_seat(&self, dsp: &str, seat: &str) -> bool {
        match self {
            Self::Whole => true,
            Self::Seats(seats) => seats.iter().any(|granted| {
                let rest = granted.strip_prefix(dsp);
                rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('/') == Some(seat))
            }),
        }
    }
}

#[cfg(test)]
mod tests;
