//! What is wrong with a line of text, where, and the remedy.

use std::fmt;
use std::ops::Range;

/// Most characters of the text that are shown.
const SHOWN_MAX: usize = 72;

/// An error in a line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The whole text.
    pub text: String,
    /// The wrong bytes, between characters. An empty range is a place in the text, or its end.
    pub at: Range<usize>,
    /// What is wrong.
    pub problem: String,
    /// What to write instead.
    pub remedy: String,
}

impl std::error::Error for Diagnostic {}

impl fmt::Display for Diagnostic {
    /// The problem, the text with carets under the wrong part unless it is blank, and the remedy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, at, problem, remedy } = self;
        writeln!(f, "{problem}")?;
        if text.trim().is_empty() {
            return f.write_str(remedy);
        }
        let column = text[..at.start].chars().count();
        let width = text[at.clone()].chars().count().max(1);
        // A long text is shown from a little before the place.
        let skipped = if column + width.min(8) > SHOWN_MAX { column.saturating_sub(8) } else { 0 };
        let visible = |c: char| if c.is_control() || is_invisible(c) { '�' } else { c };
        let mut rest = text.chars().skip(skipped);
        let shown: String = rest.by_ref().take(SHOWN_MAX).map(visible).collect();
        let before = if skipped > 0 { "…" } else { "" };
        let after = if rest.next().is_some() { "…" } else { "" };
        writeln!(f, "  {before}{shown}{after}")?;
        let indent = 2 + before.chars().count() + column - skipped;
        let carets = width.min((SHOWN_MAX + skipped).saturating_sub(column).max(1));
        writeln!(f, "{:indent$}{}", "", "^".repeat(carets))?;
        f.write_str(remedy)
    }
}

/// Characters that would shift the caret or reverse the line.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests;
