//! The trace of a run: its hash and, if requested, its lines.

use std::fmt::{self, Write as _};
use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

/// Every message and outcome of a run.
#[derive(Default)]
pub(super) struct BudgetTrace {
    hasher: SipHasher13,
    lines: Option<Vec<String>>,
}

struct Hash<'a>(&'a mut SipHasher13);

impl fmt::Write for Hash<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl BudgetTrace {
    /// Keeps the lines if `is_kept`, otherwise only their hash.
    pub(super) fn new(is_kept: bool) -> Self {
        Self { hasher: SipHasher13::new(), lines: is_kept.then(Vec::new) }
    }

    pub(super) fn note(&mut self, line: fmt::Arguments<'_>) {
        Hash(&mut self.hasher).write_fmt(line).expect("a hash takes everything");
        self.hasher.write_u8(b'\n');
        if let Some(lines) = &mut self.lines {
            lines.push(line.to_string());
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
