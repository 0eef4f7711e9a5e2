//! The words and signs of a query, with their places.

use std::ops::Range;

use diagnostics::Diagnostic;

use super::ast::Comparison;

/// A word or a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: TokenKind,
    /// Its bytes in the query.
    pub at: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// Without quotes.
    Word(String),
    /// The text between quotes.
    Quoted(String),
    Comparison(Comparison),
    Comma,
    Pipe,
    OpenBracket,
    CloseBracket,
    OpenParenthesis,
    CloseParenthesis,
}

/// Longer signs first.
const SIGNS: [(&str, TokenKind); 12] = [
    ("!=", TokenKind::Comparison(Comparison::Unequal)),
    ("<=", TokenKind::Comparison(Comparison::LessOrEqual)),
    (">=", TokenKind::Comparison(Comparison::GreaterOrEqual)),
    ("=", TokenKind::Comparison(Comparison::Equal)),
    ("<", TokenKind::Comparison(Comparison::Less)),
    (">", TokenKind::Comparison(Comparison::Greater)),
    (",", TokenKind::Comma),
    ("|", TokenKind::Pipe),
    ("[", TokenKind::OpenBracket),
    ("]", TokenKind::CloseBracket),
    ("(", TokenKind::OpenParenthesis),
    (")", TokenKind::CloseParenthesis),
];

/// Whether a character can be in a word without quotes.
pub(super) fn is_word_char(c: char) -> bool {
    !c.is_whitespace() && !"!=<>,|[]()\"'".contains(c)
}

/// All tokens of a query.
///
/// # Errors
/// A quote does not end, or a `!` is alone.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Diagnostic> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let start = at;
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let kind = if let Some((sign, kind)) = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign))
        {
            at += sign.len();
            kind.clone()
        } else if matches!(first, '"' | '\'') {
            let (inside, length) = quoted(rest, first).ok_or_else(|| {
                let remedy =
                    format!("end it with {first}; within it, \\ goes before {first} and \\");
                diagnostic(text, start..text.len(), "the quote does not end", remedy)
            })?;
            at += length;
            TokenKind::Quoted(inside)
        } else {
            let length = rest.find(|c| !is_word_char(c)).unwrap_or(rest.len());
            if length == 0 {
                let remedy = "write `!=`, or put the text into quotes";
                return Err(diagnostic(text, at..at + 1, "`!` alone means nothing", remedy));
            }
            at += length;
            TokenKind::Word(rest[..length].to_owned())
        };
        tokens.push(Token { kind, at: start..at });
    }
    Ok(tokens)
}

/// The text in quotes at the beginning of `rest`, and how many bytes it takes. None if it does not end.
fn quoted(rest: &str, quote: char) -> Option<(String, usize)> {
    let (mut inside, mut is_escaped) = (String::new(), false);
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\\' if !is_escaped => is_escaped = true,
            _ if c == quote && !is_escaped => return Some((inside, at + 1)),
            _ => {
                inside.push(c);
                is_escaped = false;
            }
        }
    }
    None
}

/// An error at a place of the query.
pub(super) fn diagnostic(
    text: &str,
    at: Range<usize>,
    problem: impl Into<String>,
    remedy: impl Into<String>,
) -> Diagnostic {
    let (text, problem, remedy) = (text.to_owned(), problem.into(), remedy.into());
    Diagnostic { text, at, problem, remedy }
}
