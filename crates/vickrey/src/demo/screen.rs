//! The demo's screen: a terminal's alternate screen, which preserves the previous content.
//!
//! Knows sizes and escape codes, not what is shown.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use console::{Term, truncate_str};

/// Escape codes (ECMA-48, and xterm's for the alternate screen and the cursor).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const ERASE_ALL: &str = "\x1b[2J";
const HOME: &str = "\x1b[H";
const ERASE_LINE_END: &str = "\x1b[K";
const ERASE_BELOW: &str = "\x1b[J";

/// Rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScreenSize {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// Shows the alternate screen until dropped.
pub(super) struct Screen {
    term: Term,
    drawn: Option<ScreenSize>,
}

impl Screen {
    /// None if stdout is not a terminal, or one that cannot move its cursor.
    pub(super) fn open() -> io::Result<Option<Self>> {
        let term = Term::stdout();
        let is_dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb" || name.is_empty());
        if !term.is_term() || is_dumb {
            return Ok(None);
        }
        put(ENTER)?;
        Ok(Some(Self { term, drawn: None }))
    }

    pub(super) fn size(&self) -> ScreenSize {
        let (rows, columns) = self.term.size();
        ScreenSize { rows: rows.into(), columns: columns.into() }
    }

    pub(super) fn draw(&mut self, page: &str, size: ScreenSize) -> io::Result<()> {
        let is_same = self.drawn.replace(size) == Some(size);
        put(&frame(page, size, is_same))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        drop(put(LEAVE));
    }
}

/// Where progress and reports go: with `--json` only the final result is printed.
pub(super) fn output(is_json: bool) -> Box<dyn io::Write> {
    match is_json {
        true => Box::new(io::sink()),
        false => Box::new(io::stdout().lock()),
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The page cut to the size, over the frame before, which is erased first unless it had this size.
fn frame(page: &str, size: ScreenSize, is_same: bool) -> String {
    let mut frame = String::from(if is_same { "" } else { ERASE_ALL });
    frame.push_str(HOME);
    // The last column stays empty: some terminals wrap once it is written.
    let width = size.columns.saturating_sub(1);
    for (row, line) in page.lines().take(size.rows).enumerate() {
        let line = truncate_str(line, width, "");
        let end = if row == 0 { "" } else { "\r\n" };
        write!(frame, "{end}{line}{ERASE_LINE_END}").expect("a String takes any text");
    }
    frame.push_str(ERASE_BELOW);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_its_screen() {
        let size = |rows, columns| ScreenSize { rows, columns };
        let page = "one\ntwo and more\nthree";
        assert_eq!(
            frame(page, size(24, 80), true),
            "\x1b[Hone\x1b[K\r\ntwo and more\x1b[K\r\nthree\x1b[K\x1b[J"
        );
        assert_eq!(frame(page, size(2, 8), true), "\x1b[Hone\x1b[K\r\ntwo and\x1b[K\x1b[J");
        assert!(frame(page, size(2, 8), false).starts_with("\x1b[2J\x1b[H"));
        assert_eq!(frame(page, size(0, 0), true), "\x1b[H\x1b[J");
        // Colours have no width, and end with the line.
        let coloured = frame("\x1b[1mabcdef\x1b[0m", size(1, 4), true);
        assert!(coloured.contains("abc") && !coloured.contains("abcd"), "{coloured:?}");
        assert!(coloured.contains("\x1b[0m"), "{coloured:?}");
    }
}
