//! How a simulated origin answers.

use std::time::Duration;

use crate::server::LATENCY_MAX;

/// Largest body, in bytes.
pub const OBJECT_BYTES_MAX: usize = 64 << 20;

/// How the origin answers every request, unless a fault befalls it.
#[derive(Clone, Debug)]
pub struct OriginOptions {
    /// Of a body whose query does not say it, in bytes.
    pub bytes: usize,
    /// The value of `Cache-Control`.
    pub cache_control: String,
    /// Whether answers have a validator and conditions are answered 304.
    pub is_validated: bool,
    /// The field of requests by which bodies vary, in lower case. None if they do not.
    pub vary: Option<String>,
    /// Into how many groups `Surrogate-Key` divides all paths: `group-0` and so on. 0: none.
    pub surrogate_keys: usize,
    /// From request to answer.
    pub latency: Duration,
    /// Of validators, groups and faults.
    pub seed: u64,
}

impl Default for OriginOptions {
    /// 1 KiB, fresh for a minute, with validators, at once.
    fn default() -> Self {
        Self {
            bytes: 1_024,
            cache_control: "max-age=60".to_owned(),
            is_validated: true,
            vary: None,
            surrogate_keys: 0,
            latency: Duration::ZERO,
            seed: 1,
        }
    }
}

impl OriginOptions {
    /// What is wrong with them. None if they are valid.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let is_line = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let is_name = |name: &str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            !name.is_empty() && name.bytes().all(fits)
        };
        if self.bytes > OBJECT_BYTES_MAX {
            return Some("bodies of at most 64 MiB");
        }
        if !is_line(&self.cache_control) {
            return Some("a Cache-Control that fits in a line");
        }
        if self.vary.as_deref().is_some_and(|name| !is_name(name)) {
            return Some("the name of a header field by which bodies vary");
        }
        (self.latency > LATENCY_MAX).then_some("a latency of at most 60 s")
    }
}
