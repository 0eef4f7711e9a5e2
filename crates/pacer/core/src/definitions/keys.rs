//! Idempotency keys: a request that comes twice is done once, and answered twice.
//!
//! Owns for how long a key is known, and how many are. Keys stand in the audit record beside what was
//! done with them, so that they are durable with it.

use std::collections::{HashMap, VecDeque};
use std::hash::Hasher as _;

use serde_json::Value;
use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// How long a key is known: a day.
pub const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Most keys that are known; beyond, the oldest is forgotten.
pub const KEYS_MAX: usize = 10_000;

/// Most bytes of their answers; beyond, the oldest is forgotten as well.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A key, and what it came with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedRequest {
    /// As the request has it.
    pub key: String,
    /// A digest of what was asked.
    pub body: String,
}

impl KeyedRequest {
    /// `asked` is all that makes two requests the same.
    pub fn new(key: &str, asked: &str) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(asked.as_bytes());
        Self { key: key.to_owned(), body: format!("{:032x}", hasher.finish128().as_u128()) }
    }
}

/// What a key is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyLookup {
    /// It did not come before.
    Fresh,
    /// It did, with something else.
    Reused,
    /// It did, and this was answered.
    Answered(Value),
}

/// The keys that are known.
#[derive(Debug, Default)]
pub struct IdempotencyKeys {
    by_key: HashMap<String, (String, Box<str>)>,
    by_age: VecDeque<(u64, String)>,
    /// Of all answers.
    bytes: usize,
}

impl IdempotencyKeys {
    /// What is known of a key.
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

    /// Remembers what a key was answered.
    pub fn keep(&mut self, keyed: KeyedRequest, answer: &Value, at_unix_ms: u64) {
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
