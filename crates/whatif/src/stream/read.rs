//! Reads a stream, and reports where and how one is wrong. Its options bound its memory.

use std::io::{self, BufRead, Read as _};

use units::{Cpm, DecimalError, Rounding};

use super::{COLUMNS, StreamAuction, TIME_MS_MAX};

/// Most characters of a wrong value in an error.
const SHOWN_MAX: usize = 40;

/// Limits on what is read.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Most auctions. Memory holds them all, 24 bytes each, because the optimum needs the whole
    /// stream and 16 more bytes for each.
    pub rows_max: usize,
    /// Longest line in bytes, without its end.
    pub line_max: usize,
}

impl Default for StreamOptions {
    /// 20 million auctions (800 MB in total), lines of 4 KiB.
    fn default() -> Self {
        Self { rows_max: 20_000_000, line_max: 4_096 }
    }
}

/// Why a stream is refused. Lines are counted from 1, the header.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum StreamError {
    /// Reading failed.
    #[error("line {line} cannot be read: {error}")]
    Io { line: u64, error: io::Error },
    /// There is no header.
    #[error("it is empty: begin it with the header {}", header())]
    Empty,
    /// The header lacks a column.
    #[error(
        "line 1: column `{column}` is missing: the header must name {}, tab-separated",
        header()
    )]
    ColumnMissing { column: &'static str },
    /// The header repeats a column.
    #[error("line 1: column `{column}` is there twice: remove one")]
    ColumnTwice { column: &'static str },
    /// A line is too long.
    #[error(
        "line {line} is longer than {line_max} bytes: leave out what is not needed, only {} are",
        header()
    )]
    LineTooLong { line: u64, line_max: usize },
    /// A line is not UTF-8.
    #[error("line {line} is not UTF-8 text: save the file as UTF-8")]
    NotText { line: u64 },
    /// A line has another number of fields than the header.
    #[error(
        "line {line} has {found} fields, the header has {wanted}: separate them by one tab each"
    )]
    Fields { line: u64, found: usize, wanted: usize },
    /// A field is not valid in its column.
    #[error("line {line}, column `{column}`: `{value}` {problem}")]
    Value { line: u64, column: &'static str, value: String, problem: ValueProblem },
    /// A line is earlier than the one before it.
    #[error(
        "line {line}, column `time_ms`: `{time_ms}` is before the line above it, `{before_ms}`: sort the file by time_ms"
    )]
    Backwards { line: u64, time_ms: u64, before_ms: u64 },
    /// There are more auctions than the limit.
    #[error("line {line} is beyond {rows_max} auctions: give a part of the file, or allow more")]
    TooManyRows { line: u64, rows_max: usize },
    /// There is only a header.
    #[error("it has no auctions: one line each must follow the header")]
    NoRows,
}

/// The problem of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueProblem {
    /// Not a time.
    #[error("is no time: write whole milliseconds since 1970, at most {TIME_MS_MAX}")]
    Time,
    /// Not a price.
    #[error("is not a number: write the price of 1000 impressions as a decimal, such as 1.25")]
    Price,
    /// A negative price.
    #[error("is negative: a price is 0 or more")]
    Negative,
    /// A price above the limit.
    #[error("is too large: a price of 1000 impressions is at most {}", Cpm::MAX)]
    TooLarge,
}

fn header() -> String {
    COLUMNS.map(|column| format!("`{column}`")).join(", ")
}

/// All auctions of `input`, which must be in order of time.
///
/// Decimals beyond a micro are rounded, market prices up and values down, so that rounding wins
/// nothing.
///
/// # Errors
/// The first problem; nothing is read beyond it.
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

struct Lines<R> {
    input: R,
    options: StreamOptions,
    line: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    /// The next line without its LF or CR LF. None after the last.
    fn next_line(&mut self) -> Result<Option<&str>, StreamError> {
        self.line += 1;
        let (line, line_max) = (self.line, self.options.line_max);
        self.buffer.clear();
        // Two bytes for the line end: a longer line is still detected.
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

struct StreamColumns {
    /// Field numbers of [`COLUMNS`], in their order.
    at: [usize; 3],
    count: usize,
}

impl StreamColumns {
    fn of(header: &str) -> Result<Self, StreamError> {
        // Spreadsheets mark UTF-8 with a BOM.
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

/// A field for a terminal, shortened and escaped.
fn shown(field: &str) -> String {
    let mut shown: String = field.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if field.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}
