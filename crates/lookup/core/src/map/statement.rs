//! The query of a call to a database: SQL with parameters, as `$name`.

use std::fmt::Write as _;

/// A query in SQL, in which parameters stand by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlStatement {
    /// The text before the first parameter, and after each of them.
    texts: Vec<String>,
    /// The names between them.
    names: Vec<String>,
}

/// Why a text is no query of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableStatement {
    /// Nothing is asked for.
    #[error("is empty")]
    Empty,
    /// A string, a quoted name or a comment.
    #[error("has a quote or a comment that does not end")]
    Unclosed,
    /// A query is one statement.
    #[error("is one statement, without `;`")]
    Several,
    /// A number, or a quote with dollars, which would hide names.
    #[error("has a `$` that is not followed by the name of a parameter")]
    NoName,
}

impl SqlStatement {
    /// Reads a statement (PostgreSQL, Lexical Structure). What is in quotes and comments is left alone.
    ///
    /// # Errors
    /// See [`UnreadableStatement`].
    pub fn parse(text: &str) -> Result<Self, UnreadableStatement> {
        let text = text.trim();
        if text.is_empty() {
            return Err(UnreadableStatement::Empty);
        }
        let mut statement = Self { texts: Vec::new(), names: Vec::new() };
        let (mut at, mut from) = (0, 0);
        while let Some(next) = text[at..].chars().next() {
            let rest = &text[at..];
            let opaque = opaque_length(&text[..at], rest).ok_or(UnreadableStatement::Unclosed)?;
            if opaque > 0 {
                at += opaque;
                continue;
            }
            match next {
                ';' => return Err(UnreadableStatement::Several),
                '$' => {
                    let name = name_at(&rest[1..]).ok_or(UnreadableStatement::NoName)?;
                    statement.texts.push(text[from..at].to_owned());
                    statement.names.push(name.to_owned());
                    at += 1 + name.len();
                    from = at;
                }
                // A name may contain a dollar.
                _ if is_word(next) => at += word_length(rest),
                _ => at += next.len_utf8(),
            }
        }
        statement.texts.push(text[from..].to_owned());
        Ok(statement)
    }

    /// The names of its parameters, each once, in the order of their numbers.
    pub fn parameters(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in &self.names {
            if !names.contains(&&**name) {
                names.push(name);
            }
        }
        names
    }

    /// The text with numbers in place of names. Parameters are texts, or lists of texts.
    pub fn numbered(&self, is_list: impl Fn(&str) -> bool) -> String {
        let (parameters, mut text) = (self.parameters(), String::new());
        for (at, part) in self.texts.iter().enumerate() {
            text.push_str(part);
            if let Some(name) = self.names.get(at) {
                let number = parameters.iter().position(|of| of == name).expect("it is among them");
                let form = if is_list(name) { "text[]" } else { "text" };
                write!(text, "${}::{form}", number + 1).expect("a text grows");
            }
        }
        text
    }
}

fn is_word(first: char) -> bool {
    first.is_alphanumeric() || first == '_'
}

fn word_length(text: &str) -> usize {
    text.find(|c: char| !is_word(c) && c != '$').unwrap_or(text.len())
}

/// The name of a parameter: letters, digits and `_`, the first a letter.
fn name_at(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let name = &text[..end];
    let is_quote = text[end..].starts_with('$');
    (name.starts_with(|c: char| c.is_ascii_alphabetic()) && !is_quote).then_some(name)
}

/// The length of a string, a quoted name or a comment that begins here: 0 if none does. None if it does
/// not end.
fn opaque_length(before: &str, text: &str) -> Option<usize> {
    if text.starts_with("--") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return comment_length(text);
    }
    let quote = match text.as_bytes().first() {
        Some(quote @ (b'\'' | b'"')) => *quote,
        _ => return Some(0),
    };
    let has_escapes = quote == b'\'' && is_escape_prefix(before);
    let mut bytes = text.bytes().enumerate().skip(1);
    while let Some((at, byte)) = bytes.next() {
        if byte == b'\\' && has_escapes {
            bytes.next();
        } else if byte == quote {
            // Two are one within.
            if text.as_bytes().get(at + 1) != Some(&quote) {
                return Some(at + 1);
            }
            bytes.next();
        }
    }
    None
}

/// Whether a text ends with the `E` of a string with escapes.
fn is_escape_prefix(before: &str) -> bool {
    let mut last = before.chars().rev();
    let is_e = matches!(last.next(), Some('e' | 'E'));
    is_e && !last.next().is_some_and(|c| is_word(c) || c == '$')
}

/// Comments may be in comments.
fn comment_length(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return Some(at);
            }
        } else if rest.is_empty() {
            return None;
        } else {
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn numbered(text: &str, want: &str, names: &[&str]) {
        let statement = SqlStatement::parse(text).unwrap();
        assert_eq!(statement.numbered(|name| name == "ids"), want);
        assert_eq!(statement.parameters(), names);
    }

    #[test]
    fn names_become_numbers() {
        numbered("select 1", "select 1", &[]);
        numbered(
            " select id from t where id = any($ids) and ($seat is null or seat = $seat) ",
            "select id from t where id = any($1::text[]) and ($2::text is null or seat = $2::text)",
            &["ids", "seat"],
        );
        numbered("select $a::int+$b", "select $1::text::int+$2::text", &["a", "b"]);
    }

    #[test]
    fn quotes_and_comments_hide_names() {
        for text in [
            "select '$a'",
            "select 'it''s $a; --'",
            "select \"$a;\" from t",
            "select 1 -- $a; '",
            "select 1 -- $a\n + 2",
            "select 1 /* $a; /* ' */ */ + 2",
            r"select E'\'$a;'",
            r"select e'\\'",
            r"select E'it''s \'$x\''",
            "select ''''",
            r"select 'a\'",
            "select my$a from t",
        ] {
            numbered(text, text, &[]);
        }
        numbered("select '$a'||$b", "select '$a'||$1::text", &["b"]);
    }

    #[test]
    fn what_is_no_query_of_a_call_is_refused() {
        for (text, want) in [
            ("  ", UnreadableStatement::Empty),
            ("select 'a", UnreadableStatement::Unclosed),
            (r"select E'a\'", UnreadableStatement::Unclosed),
            ("select 1 /* /* */", UnreadableStatement::Unclosed),
            ("select 1; drop table t", UnreadableStatement::Several),
            ("select $1", UnreadableStatement::NoName),
            ("select $$a$$", UnreadableStatement::NoName),
            ("select $tag$ a $tag$", UnreadableStatement::NoName),
        ] {
            assert_eq!(SqlStatement::parse(text), Err(want), "{text}");
        }
    }
}
