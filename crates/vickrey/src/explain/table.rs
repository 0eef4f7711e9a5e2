//! Text for a terminal of 100 columns: headings, aligned columns, wrapped lines. Outside text
//! reaches the terminal only as visible characters.

use std::fmt::Write as _;

use crate::log::line::visible;

pub(super) const WIDTH: usize = 100;

/// The style of a text, if colours are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextStyle {
    Plain,
    Heading,
    Good,
    Bad,
    Faint,
}

impl TextStyle {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Heading => "\x1b[1m",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
            Self::Faint => "\x1b[2m",
        }
    }
}

/// A page that grows line by line.
#[derive(Debug)]
pub(super) struct TablePage {
    text: String,
    colours: bool,
}

impl TablePage {
    pub(super) const fn new(colours: bool) -> Self {
        Self { text: String::new(), colours }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// A heading, with an empty line before all but the first.
    pub(super) fn heading(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.line(TextStyle::Heading, 0, text);
    }

    /// Writes `text` wrapped between words, and within words longer than a line.
    pub(super) fn line(&mut self, style: TextStyle, indent: usize, text: &str) {
        self.hanging(style, indent, "", text);
    }

    /// Writes `text` after `first`, with a hanging indent.
    pub(super) fn hanging(&mut self, style: TextStyle, indent: usize, first: &str, text: &str) {
        let (first, text) = (visible(first), visible(text));
        let hang = indent + first.chars().count();
        let room = WIDTH.saturating_sub(hang).max(20);
        for (number, piece) in wrapped(&text, room).iter().enumerate() {
            let lead = if number == 0 { first.as_str() } else { "" };
            let pad = if number == 0 { indent } else { hang };
            let line = format!("{:pad$}{lead}{piece}", "");
            self.write(style, line.trim_end());
        }
    }

    /// Writes `text` without wrapping, cut at the end of the line.
    pub(super) fn cut(&mut self, indent: usize, text: &str) {
        let text = visible(text);
        let room = WIDTH - indent;
        let pad = " ".repeat(indent);
        if text.chars().count() <= room {
            return self.write(TextStyle::Plain, &[&pad, text.as_str()].concat());
        }
        let kept: String = text.chars().take(room - 1).collect();
        self.write(TextStyle::Plain, &[&pad, kept.as_str(), "…"].concat());
    }

    /// Writes rows in aligned columns; the last column wraps.
    pub(super) fn rows(&mut self, indent: usize, rows: &[(TextStyle, Vec<String>)]) {
        let columns = rows.iter().map(|(_, row)| row.len()).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|(_, row)| row.get(column));
            cells.map(|cell| visible(cell).chars().count()).max().unwrap_or_default()
        };
        // A cell with long outside text must not push the last column off the page.
        let widths: Vec<_> = (0..columns).map(|column| width(column).min(24)).collect();
        for (style, row) in rows {
            let Some((last, cells)) = row.split_last() else { continue };
            let mut first = String::new();
            for (cell, width) in cells.iter().zip(&widths) {
                let _ = write!(first, "{:<width$}  ", clipped(&visible(cell), *width));
            }
            self.hanging(*style, indent, &first, last);
        }
    }

    fn write(&mut self, style: TextStyle, line: &str) {
        let code = if self.colours { style.code() } else { "" };
        let end = if code.is_empty() { "" } else { "\x1b[0m" };
        self.text.extend([code, line, end, "\n"]);
    }
}

fn clipped(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Lines of at most `room` characters; at least one.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let mut word: Vec<_> = word.chars().collect();
        if used > 0 && used + 1 + word.len() > room {
            lines.push(String::new());
            used = 0;
        }
        let line = lines.last_mut().expect("there is a line");
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        while word.len() > room {
            let rest = word.split_off(room);
            lines.last_mut().expect("there is a line").extend(word);
            lines.push(String::new());
            word = rest;
        }
        used += word.len();
        lines.last_mut().expect("there is a line").extend(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wrap_between_words_and_within_long_ones() {
        for (text, want) in [
            ("", vec![""]),
            ("a bc def", vec!["a bc", "def"]),
            ("abcdefghijkl m", vec!["abcde", "fghij", "kl m"]),
            ("a abcdefg", vec!["a", "abcde", "fg"]),
        ] {
            assert_eq!(wrapped(text, 5), want, "{text}");
        }
    }

    #[test]
    fn nothing_hidden_reaches_the_terminal() {
        let mut page = TablePage::new(false);
        page.line(TextStyle::Bad, 2, "a\x1b[31mb\u{202e}c\nd\u{85}");
        assert_eq!(page.into_text(), "  a\\u{1b}[31mb\\u{202e}c\\u{a}d\\u{85}\n");
    }

    #[test]
    fn columns_align_and_stay_on_the_page() {
        let row = |cells: [&str; 3]| (TextStyle::Plain, cells.map(str::to_owned).to_vec());
        let mut page = TablePage::new(false);
        let (long, text) = ("x".repeat(500), "word ".repeat(40));
        page.rows(2, &[row(["a", "bb", "c"]), row(["aaa", "b", &text]), row([&long, "b", "c"])]);
        let text = page.into_text();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.lines().next(), Some(&*format!("  a{:25}bb  c", "")), "{text}");
    }

    #[test]
    fn colours_are_for_terminals() {
        let mut page = TablePage::new(true);
        page.line(TextStyle::Good, 0, "won");
        page.line(TextStyle::Plain, 0, "lost");
        assert_eq!(page.into_text(), "\x1b[32mwon\x1b[0m\nlost\n");
    }
}
