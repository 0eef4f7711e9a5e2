//! Parses queries.

use std::cmp::Ordering;
use std::ops::Range;

use diagnostics::{Diagnostic, nearest, shortened};

use super::ast::{Comparison, LookupQuery, QueryCondition, QueryTest, QueryValue};
use super::cursor::TokenCursor;
use super::limits::QueryLimits;
use super::token::{TokenKind, diagnostic, tokens};
use super::value::{ValueKind, loose_number};
use super::vocabulary::{
    DATE, INSTANCE, OPERATORS, SPECIAL_KEYS, SYSTEM, Vocabulary, is_name, is_operator,
};

/// Parses a query.
///
/// # Errors
/// What is wrong, where, and what to write instead.
pub fn parse(
    text: &str,
    vocabulary: &Vocabulary,
    limits: QueryLimits,
) -> Result<LookupQuery, Diagnostic> {
    if text.len() > limits.bytes_max {
        let problem = format!("the query has {} bytes", text.len());
        let remedy = format!("at most {} are read", limits.bytes_max);
        return Err(diagnostic("", 0..0, problem, remedy));
    }
    let tokens = tokens(text)?;
    let mut cursor = TokenCursor { text, tokens: &tokens, read_at: 0..0, vocabulary, limits };
    let mut head = QueryHead::default();
    head.read(&mut cursor)?;
    let pipe = cursor.pipe()?;
    let QueryHead { fields, conditions, systems, instance } = head;
    Ok(LookupQuery { fields, conditions, systems, instance, pipe })
}

/// The part before the first `|`.
#[derive(Default)]
struct QueryHead {
    fields: Vec<String>,
    conditions: Vec<QueryCondition>,
    systems: Vec<String>,
    instance: Option<String>,
}

impl QueryHead {
    fn read(&mut self, cursor: &mut TokenCursor<'_>) -> Result<(), Diagnostic> {
        const EXAMPLE: &str = "for example `file dataset=/a/b/c`";
        if cursor.peek().is_none() {
            return Err(cursor.unexpected("the query is empty", EXAMPLE));
        }
        match cursor.peek_word().filter(|word| word.starts_with('/')) {
            Some(path) => self.path(cursor, path)?,
            None => self.fields(cursor)?,
        }
        let are_fields_given = !self.fields.is_empty();
        while !matches!(cursor.peek(), None | Some(TokenKind::Pipe)) {
            self.condition(cursor)?;
        }
        if !are_fields_given {
            let asked = self.conditions.iter().map(|condition| condition.key.clone());
            self.fields = asked.filter(|key| key != DATE).collect();
        }
        if self.fields.is_empty() {
            return Err(cursor.unexpected("the query has no field", EXAMPLE));
        }
        Ok(())
    }

    /// A path that stands for a condition.
    fn path(&mut self, cursor: &mut TokenCursor<'_>, path: &str) -> Result<(), Diagnostic> {
        let key = match path {
            _ if path.ends_with(".root") => "file",
            _ if path.contains('#') => "block",
            _ => "dataset",
        };
        cursor.check_key(key, cursor.here())?;
        cursor.advance();
        let test = QueryTest::Is(QueryValue::Text(path.to_owned()));
        self.conditions.push(QueryCondition { key: key.to_owned(), test });
        Ok(())
    }

    fn fields(&mut self, cursor: &mut TokenCursor<'_>) -> Result<(), Diagnostic> {
        while let Some(word) = cursor.peek_word()
            && !begins_condition(cursor)
        {
            let at = cursor.here();
            if SPECIAL_KEYS.contains(&word) {
                let problem = format!("`{word}` is no field");
                let remedy = "it needs a value, as in `date last 24h` or `system=name`";
                return Err(cursor.wrong(at, problem, remedy));
            }
            check_condition_key(cursor, word, at.clone())?;
            if self.fields.iter().any(|field| field == word) {
                let problem = format!("the field `{word}` stands here twice");
                return Err(cursor.wrong(at, problem, "write it once"));
            }
            cursor.check_room(self.fields.len(), "fields")?;
            self.fields.push(word.to_owned());
            cursor.advance();
            let has_comma = cursor.take(&TokenKind::Comma);
            if has_comma && (cursor.peek_word().is_none() || begins_condition(cursor)) {
                let remedy = "write another key behind the comma, or no comma";
                return Err(cursor.unexpected("a field is missing", remedy));
            }
        }
        Ok(())
    }

    fn condition(&mut self, cursor: &mut TokenCursor<'_>) -> Result<(), Diagnostic> {
        const FORMS: &str = "conditions are as `run=1`, `run in [1, 2]`, `run between [1, 9]` and \
                             `date last 24h`, with spaces between them";
        let at = cursor.here();
        let Some(key) = cursor.peek_word() else {
            return Err(cursor.unexpected("a condition begins with a key", FORMS));
        };
        if !begins_condition(cursor) {
            let problem = format!("nothing is asked of `{}`", shortened(key));
            return Err(cursor.unexpected(problem, format!("fields come first; {FORMS}")));
        }
        let kind = match key {
            DATE => ValueKind::Time,
            SYSTEM | INSTANCE => ValueKind::Name,
            _ => {
                check_condition_key(cursor, key, at.clone())?;
                ValueKind::Any
            }
        };
        cursor.check_room(self.conditions.len(), "conditions")?;
        cursor.advance();
        let operator_at = cursor.here();
        let test = read_test(cursor, key, kind)?;
        if cursor.peek() == Some(&TokenKind::Comma) {
            let remedy =
                format!("write spaces between conditions, and `{key} in [1, 2]` for a list");
            return Err(cursor.unexpected("the condition ends here", remedy));
        }
        let is_repeated = match key {
            SYSTEM => !self.systems.is_empty(),
            INSTANCE => self.instance.is_some(),
            _ => self.conditions.iter().any(|condition| condition.key == key),
        };
        if is_repeated {
            let remedy = format!("write `{key} in [\u{2026}]` for several values");
            return Err(cursor.wrong(at, format!("`{key}` has two conditions"), remedy));
        }
        match (key, names(&test)) {
            (SYSTEM, Some(names)) => self.systems = names,
            (INSTANCE, Some(names)) if matches!(test, QueryTest::Is(_)) => {
                self.instance = names.into_iter().next();
            }
            (SYSTEM | INSTANCE, _) => {
                let problem = format!("`{key}` has no such condition");
                return Err(cursor.wrong(operator_at, problem, format!("write `{key}=name`")));
            }
            _ => self.conditions.push(QueryCondition { key: key.to_owned(), test }),
        }
        Ok(())
    }
}

/// The texts of a test that is about texts alone.
fn names(test: &QueryTest) -> Option<Vec<String>> {
    let name = |value: &QueryValue| match value {
        QueryValue::Text(text) => Some(text.clone()),
        _ => None,
    };
    match test {
        QueryTest::Is(value) => Some(vec![name(value)?]),
        QueryTest::In(values) => values.iter().map(name).collect(),
        QueryTest::Between(_) | QueryTest::Last(_) => None,
    }
}

/// Whether a condition comes next, perhaps with a misspelt operator.
fn begins_condition(cursor: &TokenCursor<'_>) -> bool {
    let kinds: Vec<_> = cursor.tokens.iter().take(3).map(|token| &token.kind).collect();
    match kinds.get(1) {
        Some(TokenKind::Comparison(_) | TokenKind::OpenBracket) => true,
        Some(TokenKind::Word(word)) => {
            let is_list = kinds.get(2) == Some(&&TokenKind::OpenBracket);
            is_list || is_operator(word)
        }
        _ => false,
    }
}

/// Checks the key of a field or a condition, where attributes must not be.
fn check_condition_key(
    cursor: &TokenCursor<'_>,
    word: &str,
    at: Range<usize>,
) -> Result<(), Diagnostic> {
    let is_key = |key: &str| is_name(key) && cursor.vocabulary.has_key(key);
    if let Some((key, _)) = word.split_once('.').filter(|(key, _)| is_key(key)) {
        let remedy = format!("write `{key}` here, and `| grep {}`", shortened(word));
        return Err(cursor.wrong(at, "attributes are for the stages behind `|`", remedy));
    }
    cursor.check_key(word, at)
}

/// Reads the operator of a condition and its values.
fn read_test(
    cursor: &mut TokenCursor<'_>,
    key: &str,
    kind: ValueKind,
) -> Result<QueryTest, Diagnostic> {
    let at = cursor.here();
    match cursor.peek() {
        Some(TokenKind::Comparison(Comparison::Equal)) => {
            cursor.advance();
            Ok(QueryTest::Is(cursor.value(kind)?))
        }
        Some(TokenKind::Comparison(comparison)) => {
            let problem = format!("`{}` is for `grep` alone", comparison.sign());
            let remedy = format!("write `{key} between [1, 9]`, or `| grep` behind the conditions");
            Err(cursor.wrong(at, problem, remedy))
        }
        Some(TokenKind::Word(word)) => {
            cursor.advance();
            match &**word {
                "in" => Ok(QueryTest::In(cursor.values(kind)?)),
                "between" => between(cursor, key, kind),
                "last" => last(cursor, kind),
                _ => Err(unknown_operator(cursor, word, at)),
            }
        }
        _ => Err(unknown_operator(cursor, "", at)),
    }
}

fn unknown_operator(cursor: &TokenCursor<'_>, word: &str, at: Range<usize>) -> Diagnostic {
    let meant = nearest(word, OPERATORS).map(|near| format!("did you mean `{near}`? "));
    let remedy = format!("{}operators are =, in, between and last", meant.unwrap_or_default());
    let problem = match word {
        "" => "an operator is missing".to_owned(),
        _ => format!("there is no operator `{}`", shortened(word)),
    };
    cursor.wrong(at, problem, remedy)
}

fn between(
    cursor: &mut TokenCursor<'_>,
    key: &str,
    kind: ValueKind,
) -> Result<QueryTest, Diagnostic> {
    let start = cursor.here().start;
    let mut values = cursor.values(kind)?;
    for value in &mut values {
        // A text that is a number, as the bound of a range it is one.
        if let QueryValue::Text(text) = value
            && let Some(number) = loose_number(text)
        {
            *value = number;
        }
    }
    let at = start..cursor.read_at.end;
    let order = match &*values {
        [QueryValue::Integer(low), QueryValue::Integer(high)]
        | [QueryValue::Time(low), QueryValue::Time(high)] => Some(low.cmp(high)),
        [
            QueryValue::Integer(_) | QueryValue::Decimal(_),
            QueryValue::Integer(_) | QueryValue::Decimal(_),
        ] => double(&values[0]).partial_cmp(&double(&values[1])),
        [_, _] => None,
        _ => {
            let problem = format!("`between` takes two values, not {}", values.len());
            let remedy = format!("write `{key} in [\u{2026}]` for a list");
            return Err(cursor.wrong(at, problem, remedy));
        }
    };
    match (order, <[QueryValue; 2]>::try_from(values)) {
        (Some(Ordering::Less | Ordering::Equal), Ok(values)) => Ok(QueryTest::Between(values)),
        (Some(_), _) => {
            let remedy = "write the lower one first";
            Err(cursor.wrong(at, "the first value is above the second", remedy))
        }
        (None, _) => Err(cursor.wrong(
            at,
            "`between` takes numbers or dates",
            "write `in` for a list of texts",
        )),
    }
}

/// The value of a number.
#[expect(clippy::cast_precision_loss, reason = "only a comparison with a decimal")]
fn double(value: &QueryValue) -> f64 {
    match value {
        QueryValue::Integer(number) => *number as f64,
        QueryValue::Decimal(number) => *number,
        QueryValue::Text(_) | QueryValue::Time(_) => f64::NAN,
    }
}

fn last(cursor: &mut TokenCursor<'_>, kind: ValueKind) -> Result<QueryTest, Diagnostic> {
    if kind != ValueKind::Time {
        let remedy = "write it of `date`: `date last 24h`";
        return Err(cursor.wrong(cursor.read_at.clone(), "only `date` has a `last`", remedy));
    }
    let seconds = cursor.peek_word().and_then(|word| {
        let unit = match word.as_bytes().last()? {
            b's' => 1,
            b'm' => 60,
            b'h' => 3_600,
            b'd' => 86_400,
            _ => return None,
        };
        let count = word[..word.len() - 1].parse::<u32>().ok().filter(|count| 0 < *count)?;
        Some(u64::from(count) * unit)
    });
    let seconds = seconds.ok_or_else(|| {
        let remedy = "write a number with s, m (minutes), h or d, as in `date last 24h`";
        cursor.unexpected("a time span is missing", remedy)
    })?;
    cursor.advance();
    Ok(QueryTest::Last(seconds))
}
