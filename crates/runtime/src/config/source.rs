//! The text of a configuration file: where an offset lies, and how a value is quoted in a
//! message.
//!
//! It must not know keys or their meaning.

use std::ops::Range;

/// Longest excerpt of a value in a message, in characters.
const EXCERPT_CHARS_MAX: usize = 60;

/// A text and the offsets at which its lines begin.
pub(super) struct Source<'a> {
    text: &'a str,
    line_starts: Vec<usize>,
}

impl<'a> Source<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let after_newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { text, line_starts: std::iter::once(0).chain(after_newlines).collect() }
    }

    /// The line of a byte offset, counted from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= offset)
    }

    /// The column of a byte offset in its line, counted in characters from 1.
    pub(super) fn column(&self, offset: usize) -> usize {
        let start = self.line_starts[self.line(offset) - 1];
        1 + self.text.get(start..offset).map_or(0, |before| before.chars().count())
    }

    /// Whether one of the syntax errors is in the header of a table, so that the keys after it
    /// may belong to another.
    pub(super) fn header_broken(&self, errors: &[toml::de::Error]) -> bool {
        errors.iter().filter_map(toml::de::Error::span).any(|span| {
            let start = self.line_starts[self.line(span.start) - 1];
            self.text.get(start..).is_some_and(|line| line.trim_start().starts_with('['))
        })
    }

    /// The text of a value as the file has it, on one line and shortened.
    pub(super) fn excerpt(&self, span: Range<usize>) -> String {
        excerpt(self.text.get(span).unwrap_or_default())
    }
}

/// `text` on one line, without control characters, shortened to what a message bears.
pub(super) fn excerpt(text: &str) -> String {
    let mut shown = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == EXCERPT_CHARS_MAX {
            shown.push('…');
            break;
        }
        // A hostile file must not drive the terminal of whoever reads its problems.
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A key as TOML writes it: bare where it can be, quoted elsewhere, shortened.
pub(super) fn key_text(key: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !key.is_empty() && key.bytes().all(bare) {
        excerpt(key)
    } else {
        format!("\"{}\"", excerpt(key))
    }
}
