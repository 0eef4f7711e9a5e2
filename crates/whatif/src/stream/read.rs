//! Reads a stream, and says where and how one is wrong. What it holds is bounded by its options.

use std::io::{self, BufRead, Read as _};

use units::{Cpm, DecimalError, Rounding};

use super::{COLUMNS, StreamAuction, TIME_MS_MAX};

/// Most characters of a wrong value that an error repeats.
const SHOWN_MAX: usize = 40;

/// How much is read at most.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Most auctions. All are held in memory, 24 bytes each, for the optimum is known only at the
    /// end; to find it takes 16 bytes more for each.
    pub rows_max: usize,
    /// Longest line in bytes, its end apart.
    pub line_max: usize,
}

impl Default for StreamOptions {
    /// 20 million auctions (800 MB in all), lines of 4 KiB.
    fn default() -> Self {
        Self { rows_max: 20_000_000, line_max: 4_096 }
    }
}

/// Why a stream was not read. Lines are counted from 1, the header's.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The file, not its content.
    #[error("line {line} cannot be read: {error}")]
    Io {
        /// At which line.
        line: u64,
        /// What happened.
        error: io::Error,
    },
    /// Not even a header.
    #[error("it is empty: begin it with the header {}", header())]
    Empty,
    /// The header lacks one.
    #[error(
        "line 1: column `{column}` is missing: the header must name {}, tab-separated",
        header()
    )]
    ColumnMissing {
        /// Which.
        column: &'static str,
    },
    /// The header has one twice.
    #[error("line 1: column `{column}` is there twice: remove one")]
    ColumnTwice {
        /// Which.
        column: &'static str,
    },
    /// Longer than allowed.
    #[error(
        "line {line} is longer than {line_max} bytes: leave out what is not needed, only {} are",
        header()
    )]
    LineTooLong {
        /// Which.
        line: u64,
        /// The limit.
        line_max: usize,
    },
    /// Not UTF-8.
    #[error("line {line} is not UTF-8 text: save the file as UTF-8")]
    NotText {
        /// Which.
        line: u64,
    },
    /// Another number of fields than the header.
    #[error(
        "line {line} has {found} fields, the header has {wanted}: separate them by one tab each"
    )]
    Fields {
        /// Which.
        line: u64,
        /// In this line.
        found: usize,
        /// In the header.
        wanted: usize,
    },
    /// A field that is not what its column holds.
    #[error("line {line}, column `{column}`: `{value}` {problem}")]
    Value {
        /// Which.
        line: u64,
        /// Of the header.
        column: &'static str,
        /// What stands there, shortened, control characters escaped.
        value: String,
        /// What is wrong with it, and what to do.
        problem: ValueProblem,
    },
    /// Earlier than the line before.
    #[error(
        "line {line}, column `time_ms`: `{time_ms}` is before the line above it, `{before_ms}`: sort the file by time_ms"
    )]
    Backwards {
        /// Which.
        line: u64,
        /// Its time.
        time_ms: u64,
        /// The time of the line before it.
        before_ms: u64,
    },
    /// More than are held.
    #[error("line {line} is beyond {rows_max} auctions: give a part of the file, or allow more")]
    TooManyRows {
        /// The first too many.
        line: u64,
        /// The limit.
        rows_max: usize,
    },
    /// A header alone.
    #[error("it has no auctions: one line each must follow the header")]
    NoRows,
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueProblem {
    /// Of a time.
    #[error("is no time: write whole milliseconds since 1970, at most {TIME_MS_MAX}")]
    Time,
    /// Of money.
    #[error("is not a number: write the price of 1000 impressions as a decimal, such as 1.25")]
    Price,
    /// Of money.
    #[error("is negative: a price is 0 or more")]
    Negative,
    /// Of money.
    #[error("is too large: a price of 1000 impressions is at most {}", Cpm::MAX)]
    TooLarge,
}

fn header() -> String {
    COLUMNS.map(|column| format!("`{column}`")).join(", ")
}

/// All auctions of `input`, in their order, which is that of time.
///
/// Decimals beyond a micro are rounded: market prices up and values down, so that nothing is won
/// that would not have been.
///
/// # Errors
///
/// The first thing that is wrong; nothing is read beyond it.
pub fn read(
    input: impl BufRead,
    options: StreamOptions,
) -> Result<Vec<StreamAuction>, StreamError> {
    let mut lines = Lines { input, options, line: 0, buffer: Vec::new() };
    let columns = match lines.next_line()? {
        Some(text) => StreamColumns::of(text)?,
        None => return Err(StreamError::Empty),
    };
    let mut auctions: Vec<StreamAuction> = Vec::new();
    loop {
        let line = lines.line + 1;
        let Some(text) = lines.next_line()? else { break };
        if auctions.len() == options.rows_max {
            return Err(StreamError::TooManyRows { line, rows_max: options.rows_max });
        }
        let auction = columns.auction(line, text)?;
        let before_ms = auctions.last().map_or(0, |before| before.time_ms);
        if auction.time_ms < before_ms {
            return Err(StreamError::Backwards { line, time_ms: auction.time_ms, before_ms });
        }
        auctions.push(auction);
    }
    if auctions.is_empty() { Err(StreamError::NoRows) } else { Ok(auctions) }
}

/// Lines within their limit; never more than one is held.
struct Lines<R> {
    input: R,
    options: StreamOptions,
    line: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    /// The next one without its end, LF or CR LF; `None` after the last.
    fn next_line(&mut self) -> Result<Option<&str>, StreamError> {
        self.line += 1;
        let (line, line_max) = (self.line, self.options.line_max);
        self.buffer.clear();
        // Two bytes for the end: one that is longer still shows as too long.
        let room = u64::try_from(line_max).unwrap_or(u64::MAX).saturating_add(2);
        (&mut self.input)
            .take(room)
            .read_until(b'\n', &mut self.buffer)
            .map_err(|error| StreamError::Io { line, error })?;
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let text = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.len() > line_max {
            return Err(StreamError::LineTooLong { line, line_max });
        }
        std::str::from_utf8(text).map(Some).map_err(|_| StreamError::NotText { line })
    }
}

/// Where the columns stand.
struct StreamColumns {
    /// Of [`COLUMNS`], in their order.
    at: [usize; 3],
    count: usize,
}

impl StreamColumns {
    fn of(header: &str) -> Result<Self, StreamError> {
        // Spreadsheets mark UTF-8 by this.
        let header = header.strip_prefix('\u{feff}').unwrap_or(header);
        if header.is_empty() {
            return Err(StreamError::Empty);
        }
        let mut at = [0; 3];
        for (place, column) in at.iter_mut().zip(COLUMNS) {
            let mut found = header.split('\t').enumerate().filter(|(_, name)| *name == column);
            let (first, _) = found.next().ok_or(StreamError::ColumnMissing { column })?;
            if found.next().is_some() {
                return Err(StreamError::ColumnTwice { column });
            }
            *place = first;
        }
        Ok(Self { at, count: header.split('\t').count() })
    }

    fn auction(&self, line: u64, text: &str) -> Result<StreamAuction, StreamError> {
        let mut fields = [""; 3];
        let mut found = 0;
        for field in text.split('\t') {
            if let Some(column) = self.at.iter().position(|at| *at == found) {
                fields[column] = field;
            }
            found += 1;
        }
        if found != self.count {
            return Err(StreamError::Fields { line, found, wanted: self.count });
        }
        let wrong = |column: usize, problem| StreamError::Value {
            line,
            column: COLUMNS[column],
            value: shown(fields[column]),
            problem,
        };
        Ok(StreamAuction {
            time_ms: time(fields[0]).map_err(|problem| wrong(0, problem))?,
            market_price: price(fields[1], Rounding::Up).map_err(|problem| wrong(1, problem))?,
            value: price(fields[2], Rounding::Down).map_err(|problem| wrong(2, problem))?,
        })
    }
}

fn time(text: &str) -> Result<u64, ValueProblem> {
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit());
    let time = text.parse().ok().filter(|time_ms| is_whole && *time_ms <= TIME_MS_MAX);
    time.ok_or(ValueProblem::Time)
}

fn price(text: &str, round: Rounding) -> Result<Cpm, ValueProblem> {
    Cpm::parse(text, round).map_err(|error| match error {
        DecimalError::Malformed => ValueProblem::Price,
        DecimalError::Negative => ValueProblem::Negative,
        DecimalError::TooLarge => ValueProblem::TooLarge,
    })
}

/// What a terminal may be shown of a field.
fn shown(field: &str) -> String {
    let mut shown: String = field.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if field.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}
