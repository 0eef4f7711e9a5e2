//! Parses filter expressions.

use std::ops::Range;

use diagnostics::{Diagnostic, listed, nearest, shortened};
use exchange_core::Fate;
use exchange_core::record::AuctionEnding;
use openrtb::codes::MediaType;

use crate::filter::term::{FilterTerm, FilterTest};
use crate::time::ParsedTime;

/// Longest expression, in bytes.
pub const FILTER_BYTES_MAX: usize = 4096;

const FIELDS: [&str; 10] =
    ["time", "publisher", "seat", "dsp", "deal", "campaign", "format", "outcome", "sample", "id"];

/// The whole, in parts per million.
const PPM_MAX: u32 = 1_000_000;

/// The operator between a field and its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilterOp {
    Is,
    IsNot,
    Before,
    Through,
    From,
    After,
}

/// Longer operators first.
const OPS: [(&str, FilterOp); 6] = [
    ("!=", FilterOp::IsNot),
    ("<=", FilterOp::Through),
    (">=", FilterOp::From),
    ("=", FilterOp::Is),
    ("<", FilterOp::Before),
    (">", FilterOp::After),
];

/// A value and its place in the expression.
struct FilterValue {
    text: String,
    at: Range<usize>,
}

/// Parses the terms of an expression.
pub(super) fn terms(text: &str, now_us: u64) -> Result<Vec<FilterTerm>, Diagnostic> {
    let mut parser = FilterParser { text, at: 0, now_us };
    if text.len() > FILTER_BYTES_MAX {
        let problem = format!("the filter has {} bytes", text.len());
        let remedy = format!("at most {FILTER_BYTES_MAX} are read");
        return Err(parser.wrong(0..0, problem, remedy));
    }
    let mut terms = Vec::new();
    while parser.skip_space() {
        terms.push(parser.term()?);
    }
    Ok(terms)
}

struct FilterParser<'t> {
    text: &'t str,
    at: usize,
    now_us: u64,
}

impl<'t> FilterParser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Skips space; returns whether anything follows.
    fn skip_space(&mut self) -> bool {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        !self.rest().is_empty()
    }

    fn wrong(
        &self,
        at: Range<usize>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Diagnostic {
        let (text, problem, remedy) = (self.text.to_owned(), problem.into(), remedy.into());
        Diagnostic { text, at, problem, remedy }
    }

    /// An unquoted word.
    fn word(&mut self) -> Range<usize> {
        let ends =
            |c: char| c.is_whitespace() || matches!(c, ',' | '=' | '!' | '<' | '>' | '"' | '\'');
        let rest = self.rest();
        let start = self.at;
        self.at += rest.find(ends).unwrap_or(rest.len());
        start..self.at
    }

    fn term(&mut self) -> Result<FilterTerm, Diagnostic> {
        let field = self.field()?;
        let (op, op_at) = self.op(field)?;
        let is_ordered = !matches!(op, FilterOp::Is | FilterOp::IsNot);
        if is_ordered && field != "time" {
            let problem = format!("`{field}` has no order");
            return Err(self.wrong(op_at, problem, "write `=` or `!=`"));
        }
        let values = self.values(field)?;
        if let [_, second, ..] = values.as_slice()
            && is_ordered
        {
            let remedy = "one value stands behind `<`, `<=`, `>` or `>=`";
            return Err(self.wrong(second.at.clone(), "there is more than one time", remedy));
        }
        let test = self.test(field, op, values)?;
        Ok(FilterTerm { is_not: op == FilterOp::IsNot, test })
    }

    fn field(&mut self) -> Result<&'static str, Diagnostic> {
        let mut at = self.word();
        let word = &self.text[at.clone()];
        if let Some(field) = FIELDS.into_iter().find(|field| *field == word) {
            return Ok(field);
        }
        let known = format!("fields are {}", listed(&FIELDS));
        if word.is_empty() {
            at.end += self.rest().chars().next().map_or(0, char::len_utf8);
            return Err(self.wrong(at, "a term begins with a field", known));
        }
        let remedy =
            suggestion(word, &FIELDS).map_or(known.clone(), |near| format!("{near} {known}"));
        let problem = format!("there is no field `{}`", shortened(word));
        Err(self.wrong(at, problem, remedy))
    }

    fn op(&mut self, field: &str) -> Result<(FilterOp, Range<usize>), Diagnostic> {
        self.skip_space();
        let rest = self.rest();
        for (sign, op) in OPS {
            if rest.starts_with(sign) {
                let at = self.at..self.at + sign.len();
                self.at = at.end;
                return Ok((op, at));
            }
        }
        let end = self.at + rest.chars().next().map_or(0, char::len_utf8);
        let remedy = match field {
            "time" => {
                "write `=`, `!=`, `<`, `<=`, `>` or `>=`, in quotes, so that the shell leaves it alone"
            }
            _ => "write `=` or `!=`",
        };
        Err(self.wrong(self.at..end, format!("nothing is asked of `{field}`"), remedy))
    }

    fn values(&mut self, field: &str) -> Result<Vec<FilterValue>, Diagnostic> {
        let mut values = Vec::new();
        loop {
            self.skip_space();
            values.push(self.value(field)?);
            let behind = self.at;
            self.skip_space();
            if !self.rest().starts_with(',') {
                // The parser decides what may follow.
                if behind == self.at && !self.rest().is_empty() {
                    let end = self.at + self.rest().chars().next().map_or(0, char::len_utf8);
                    let remedy = "between terms stands a space, between values a comma; what holds \
                                  either, or a quote or a sign, stands in quotes";
                    return Err(self.wrong(self.at..end, "the value ends here", remedy));
                }
                return Ok(values);
            }
            self.at += 1;
        }
    }

    fn value(&mut self, field: &str) -> Result<FilterValue, Diagnostic> {
        let quote = self.rest().chars().next().filter(|c| matches!(c, '"' | '\''));
        if let Some(quote) = quote {
            return self.quoted(quote);
        }
        let at = self.word();
        if at.is_empty() {
            let end = self.at + self.rest().chars().next().map_or(0, char::len_utf8);
            let remedy = match field {
                "time" => TIME_REMEDY.to_owned(),
                "format" => format!("formats are {}", listed(&formats())),
                "sample" => SAMPLE_REMEDY.to_owned(),
                "outcome" => format!("outcomes are {}", listed(&outcomes())),
                _ => format!("for example {field}=a,b; where it has none, {field}=\"\""),
            };
            return Err(self.wrong(at.start..end, "a value is missing", remedy));
        }
        Ok(FilterValue { text: self.text[at.clone()].to_owned(), at })
    }

    fn quoted(&mut self, quote: char) -> Result<FilterValue, Diagnostic> {
        let start = self.at;
        let (mut text, mut is_escaped) = (String::new(), false);
        for (offset, c) in self.rest().char_indices().skip(1) {
            match c {
                _ if is_escaped => {
                    text.push(c);
                    is_escaped = false;
                }
                '\\' => is_escaped = true,
                c if c == quote => {
                    self.at += offset + 1;
                    return Ok(FilterValue { text, at: start..self.at });
                }
                c => text.push(c),
            }
        }
        let remedy = format!("end it with {quote}; within it, \\ goes before {quote} and \\");
        Err(self.wrong(start..self.text.len(), "the quote does not end", remedy))
    }

    fn test(
        &self,
        field: &str,
        op: FilterOp,
        values: Vec<FilterValue>,
    ) -> Result<FilterTest, Diagnostic> {
        let texts = |values: Vec<FilterValue>| values.into_iter().map(|value| value.text).collect();
        Ok(match field {
            "time" => {
                let times = values.iter().map(|value| self.time(op, value));
                FilterTest::Time(times.collect::<Result<_, _>>()?)
            }
            "format" => {
                let mut set = 0;
                for value in &values {
                    set |= self.format(value)?;
                }
                FilterTest::Formats(set)
            }
            "outcome" => self.outcome(&values)?,
            "sample" => FilterTest::Sample(self.sample(&values)?),
            "publisher" => FilterTest::Publisher(texts(values)),
            "seat" => FilterTest::Seat(texts(values)),
            "dsp" => FilterTest::Dsp(texts(values)),
            "deal" => FilterTest::Deal(texts(values)),
            "campaign" => FilterTest::Campaign(texts(values)),
            _ => FilterTest::Id(texts(values)),
        })
    }

    /// The range of times of a term, in microseconds.
    fn time(&self, op: FilterOp, value: &FilterValue) -> Result<Range<u64>, Diagnostic> {
        let problem = || format!("`{}` is no time", shortened(&value.text));
        let written = ParsedTime::parse(&value.text, self.now_us);
        let written =
            written.ok_or_else(|| self.wrong(value.at.clone(), problem(), TIME_REMEDY))?;
        let range = match (written, op) {
            (ParsedTime::Within(range), _) => range,
            (ParsedTime::Ago(_), FilterOp::Is | FilterOp::IsNot) => {
                let problem = "nothing happens exactly so long ago";
                return Err(self.wrong(value.at.clone(), problem, "write `>=` or `<`"));
            }
            (ParsedTime::Ago(us), _) => us..us,
        };
        Ok(match op {
            FilterOp::Is | FilterOp::IsNot => range,
            FilterOp::Before => 0..range.start,
            FilterOp::Through => 0..range.end,
            FilterOp::From => range.start..u64::MAX,
            FilterOp::After => range.end..u64::MAX,
        })
    }

    fn format(&self, value: &FilterValue) -> Result<u8, Diagnostic> {
        let known = MediaType::ALL.into_iter().find(|format| format.label() == value.text);
        known.map(MediaType::bit).ok_or_else(|| self.unknown(value, "format", &formats()))
    }

    /// A share of the auctions, in parts per million.
    fn sample(&self, values: &[FilterValue]) -> Result<u32, Diagnostic> {
        if let [_, second, ..] = values {
            let problem = "there is more than one share";
            return Err(self.wrong(second.at.clone(), problem, SAMPLE_REMEDY));
        }
        let value = &values[0];
        let share = value.text.parse().ok().filter(|share| *share <= PPM_MAX);
        share.ok_or_else(|| {
            let problem = format!("`{}` is no share", shortened(&value.text));
            self.wrong(value.at.clone(), problem, SAMPLE_REMEDY)
        })
    }

    fn outcome(&self, values: &[FilterValue]) -> Result<FilterTest, Diagnostic> {
        let (mut endings, mut fates) = (Vec::new(), Vec::new());
        for value in values {
            let ending = AuctionEnding::ALL.into_iter().find(|ending| ending.label() == value.text);
            let fate = Fate::ALL.into_iter().find(|fate| fate.label() == value.text);
            match (ending, fate) {
                (Some(ending), _) => endings.push(ending),
                (None, Some(fate)) => fates.push(fate),
                (None, None) => return Err(self.unknown(value, "outcome", &outcomes())),
            }
            if !endings.is_empty() && !fates.is_empty() {
                let problem = "an auction's ending and a bid's fate are two things";
                let remedy = "write a term for each: they must both hold";
                return Err(self.wrong(value.at.clone(), problem, remedy));
            }
        }
        Ok(if fates.is_empty() { FilterTest::Ending(endings) } else { FilterTest::Fate(fates) })
    }

    fn unknown(&self, value: &FilterValue, what: &str, known: &[&str]) -> Diagnostic {
        let problem = format!("there is no {what} `{}`", shortened(&value.text));
        let listed = format!("{what}s are {}", listed(known));
        let near = suggestion(&value.text, known);
        let remedy = near.map_or(listed.clone(), |near| format!("{near} {listed}"));
        self.wrong(value.at.clone(), problem, remedy)
    }
}

const SAMPLE_REMEDY: &str =
    "a sample is a share of all auctions in parts per million, as 10000 for one in a hundred";

const TIME_REMEDY: &str = "times are as 2026-11-22, 2026-11-22T08:30, 2026-11-22T08:30:00Z, \
                           2026-11-22T10:30:00+02:00, or before now as -15m (s, m, h or d)";

fn formats() -> Vec<&'static str> {
    MediaType::ALL.into_iter().map(MediaType::label).collect()
}

fn outcomes() -> Vec<&'static str> {
    let fates = Fate::ALL.into_iter().rev().map(Fate::label);
    AuctionEnding::ALL.into_iter().map(AuctionEnding::label).chain(fates).collect()
}

/// A question about the word that was meant.
fn suggestion(word: &str, known: &[&str]) -> Option<String> {
    nearest(word, known.iter().copied()).map(|near| format!("did you mean `{near}`?"))
}
