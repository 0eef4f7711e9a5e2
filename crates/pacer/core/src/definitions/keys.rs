//! Idempotency keys: a repeated request is executed once, and answered again.
//!
//! Owns how long and how many keys are kept. The audit record makes them durable.

use std::collections::{HashMap, VecDeque};
use std::hash::Hasher as _;

use serde_json::Value;
use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// How long a key is kept: a day.
pub const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Maximum number of keys; above it the oldest is dropped.
pub const KEYS_MAX: usize = 10_000;

/// Maximum bytes of their answers; above it the oldest is dropped.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A key, and a digest of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedRequest {
    /// As in the request.
    pub key: String,
    /// A digest of the request.
    pub body: String,
}

impl KeyedRequest {
    /// `asked` is all that makes two requests equal.
    pub fn new(key: &str, asked: &str) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(asked.as_bytes());
        Self { key: key.to_owned(), body: format!("{:032x}", hasher.finish128().as_u128()) }
    }
}

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyLookup {
    /// The key is new.
    Fresh,
    /// The key was used for another request.
    Reused,
    /// The key was used for this request, with this answer.
    Answered(Value),
}

/// The known keys.
#[derive(Debug, Default)]
pub struct IdempotencyKeys {
    by_key: HashMap<String, (String, Box<str>)>,
    by_age: VecDeque<(u64, String)>,
    bytes: usize,
}

impl IdempotencyKeys {
    /// Looks up a key.
    pub fn look(&mut self, keyed: &KeyedRequest, now_unix_ms: u64) -> KeyLookup {
        self.forget(now_unix_ms);
        match self.by_key.get(&keyed.key) {
            None => KeyLookup::Fresh,
            Some((body, _)) if *body != keyed.body => KeyLookup::Reused,
            Some((_, answer)) => {
                KeyLookup::Answered(serde_json::from_str(answer).expect("it was written as JSON"))
            }
        }
    }

    /// Stores the answer to a key.
    pub fn remember(&mut self, keyed: KeyedRequest, answer: &Value, at_unix_ms: u64) {
        let answer: Box<str> = answer.to_string().into();
        self.bytes += answer.len();
        match self.by_key.insert(keyed.key.clone(), (keyed.body, answer)) {
            Some((_, before)) => self.bytes -= before.len(),
            None => self.by_age.push_back((at_unix_ms, keyed.key)),
        }
        self.forget(at_unix_ms);
    }

    fn forget(&mut self, now_unix_ms: u64) {
        let is_old = |(at, _): &(u64, String)| at.saturating_add(KEPT_MS) <= now_unix_ms;
        while self.by_age.front().is_some_and(is_old)
            || self.by_age.len() > KEYS_MAX
            || self.bytes > ANSWER_BYTES_MAX
        {
            let Some((_, key)) = self.by_age.pop_front() else { return };
            let gone = self.by_key.remove(&key).map_or(0, |(_, answer)| answer.len());
            self.bytes -= gone;
        }
    }
}

#[cfg(test)]
mod tests;
