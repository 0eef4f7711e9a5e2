//! Values of conditions and comparisons.

use std::fmt::{self, Display, Formatter, Write as _};

use diagnostics::{Diagnostic, shortened};
use jiff::civil::{Date, DateTime, date};

use super::ast::QueryValue;
use super::cursor::TokenCursor;
use super::token::{TokenKind, is_word_char};

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// Most digits before and behind the point of a number. Doubles hold them well enough to print them
/// again.
const DIGITS_MAX: usize = 15;

/// How a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// As a number if it is one and not in quotes, else as a text.
    Any,
    /// As a text.
    Name,
    Time,
}

const TIME_FORMS: &str = "write a date as 20110124, or \"20110124 08:30:00\", in UTC";

/// The number that a word is, if it is written as it is printed. Others, such as `007` and `5.10`, may be
/// names.
pub(crate) fn number(word: &str) -> Option<QueryValue> {
    let number = loose_number(word)?;
    (number.to_string() == word).then_some(number)
}

/// The number that a word is, with needless zeros or not.
pub(crate) fn loose_number(word: &str) -> Option<QueryValue> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some((whole, fraction)) = digits.split_once('.') {
        let is_short = whole.len() <= DIGITS_MAX && fraction.len() <= DIGITS_MAX;
        let is_number = is_digits(whole) && is_digits(fraction) && is_short;
        return is_number.then(|| word.parse().ok().map(QueryValue::Decimal))?;
    }
    is_digits(digits).then(|| word.parse().ok().map(QueryValue::Integer))?
}

/// Seconds since 1970 of `20110124` or `20110124 08:30:00`, in UTC. None if it has another form, or is
/// before 1970.
pub(super) fn seconds(text: &str) -> Option<i64> {
    let number = |at: std::ops::Range<usize>| -> Option<i8> {
        let digits = text.get(at)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let year = i16::from(number(0..2)?) * 100 + i16::from(number(2..4)?);
    let date = Date::new(year, number(4..6)?, number(6..8)?).ok()?;
    let has =
        |signs: [(usize, u8); 3]| signs.iter().all(|(at, sign)| text.as_bytes()[*at] == *sign);
    let (hour, minute, second) = match text.len() {
        8 => (0, 0, 0),
        17 if has([(8, b' '), (11, b':'), (14, b':')]) => {
            (number(9..11)?, number(12..14)?, number(15..17)?)
        }
        _ => return None,
    };
    let time = jiff::civil::Time::new(hour, minute, second, 0).ok()?;
    let seconds = date.to_datetime(time).duration_since(EPOCH).as_secs();
    Some(seconds).filter(|seconds| 0 <= *seconds)
}

/// A time as [`seconds`] reads it.
fn written_time(seconds: i64) -> String {
    let time = EPOCH.saturating_add(jiff::SignedDuration::from_secs(seconds));
    let form = if seconds % 86_400 == 0 { "%Y%m%d" } else { "\"%Y%m%d %H:%M:%S\"" };
    time.strftime(form).to_string()
}

impl Display for QueryValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            // With a point, so that it stays a decimal.
            Self::Decimal(number) if number.fract() == 0.0 => write!(f, "{number:.1}"),
            Self::Decimal(number) => write!(f, "{number}"),
            Self::Text(text) if number(text).is_some() => write!(f, "\"{text}\""),
            Self::Text(text) => write!(f, "{}", Word(text)),
            Self::Time(seconds) => f.write_str(&written_time(*seconds)),
        }
    }
}

/// A text, in quotes if it needs them.
pub(super) struct Word<'w>(pub &'w str);

impl Display for Word<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() && self.0.chars().all(is_word_char) {
            return f.write_str(self.0);
        }
        f.write_char('"')?;
        for c in self.0.chars() {
            if matches!(c, '"' | '\\') {
                f.write_char('\\')?;
            }
            f.write_char(c)?;
        }
        f.write_char('"')
    }
}

impl TokenCursor<'_> {
    /// Reads a value.
    pub fn value(&mut self, kind: ValueKind) -> Result<QueryValue, Diagnostic> {
        let (text, is_quoted) = match self.peek() {
            Some(TokenKind::Word(word)) => (word, false),
            Some(TokenKind::Quoted(text)) => (text, true),
            _ => {
                let remedy = match kind {
                    ValueKind::Any => "write a number, a word or a \"text\"",
                    ValueKind::Name => "write a name",
                    ValueKind::Time => TIME_FORMS,
                };
                return Err(self.unexpected("a value is missing", remedy));
            }
        };
        let of_kind = match kind {
            ValueKind::Any if !is_quoted => number(text),
            ValueKind::Any | ValueKind::Name => None,
            ValueKind::Time => Some(QueryValue::Time(seconds(text).ok_or_else(|| {
                self.unexpected(format!("`{}` is no time", shortened(text)), TIME_FORMS)
            })?)),
        };
        let value = of_kind.unwrap_or_else(|| QueryValue::Text(text.clone()));
        self.advance();
        Ok(value)
    }

    /// Reads values in brackets.
    pub fn values(&mut self, kind: ValueKind) -> Result<Vec<QueryValue>, Diagnostic> {
        let open = self.here();
        if !self.take(&TokenKind::OpenBracket) {
            return Err(self.unexpected("a list is missing", "write it in brackets: [1, 2]"));
        }
        let mut values = Vec::new();
        loop {
            if values.len() == self.limits.values_max {
                let problem = format!("the list has more than {} values", values.len());
                let remedy = "ask several queries, or use a pattern or `between`";
                return Err(self.unexpected(problem, remedy));
            }
            if values.is_empty() && self.peek() == Some(&TokenKind::CloseBracket) {
                return Err(self.unexpected("the list is empty", "write at least one value"));
            }
            values.push(self.value(kind)?);
            if self.take(&TokenKind::CloseBracket) {
                return Ok(values);
            }
            if !self.take(&TokenKind::Comma) {
                return Err(match self.peek() {
                    None => self.wrong(open, "the bracket is not closed", "end the list with `]`"),
                    Some(_) => self.unexpected(
                        "the list does not go on like this",
                        "write commas between values, and `]` behind the last one",
                    ),
                });
            }
        }
    }
}
