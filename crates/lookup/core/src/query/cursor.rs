//! The place of the parser in the tokens of a query.

use std::ops::Range;

use diagnostics::{Diagnostic, listed, nearest, shortened};

use super::limits::QueryLimits;
use super::token::{Token, TokenKind, diagnostic};
use super::vocabulary::{Vocabulary, is_name, is_operator};

/// Most keys or attributes that a message lists.
const LISTED_MAX: usize = 30;

/// The tokens that are not read yet, and what they may say.
pub(super) struct TokenCursor<'q> {
    pub text: &'q str,
    pub tokens: &'q [Token],
    /// The place of the last token that was read.
    pub read_at: Range<usize>,
    pub vocabulary: &'q Vocabulary,
    pub limits: QueryLimits,
}

impl<'q> TokenCursor<'q> {
    pub fn peek(&self) -> Option<&'q TokenKind> {
        self.tokens.first().map(|token| &token.kind)
    }

    /// The word that comes next, if it is one.
    pub fn peek_word(&self) -> Option<&'q str> {
        match self.peek() {
            Some(TokenKind::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// The place of the next token, or the end.
    pub fn here(&self) -> Range<usize> {
        self.tokens.first().map_or(self.text.len()..self.text.len(), |token| token.at.clone())
    }

    pub fn advance(&mut self) {
        self.read_at = self.here();
        self.tokens = self.tokens.get(1..).unwrap_or_default();
    }

    /// Whether this token was next; then it is read.
    pub fn take(&mut self, kind: &TokenKind) -> bool {
        let is_next = self.peek() == Some(kind);
        if is_next {
            self.advance();
        }
        is_next
    }

    /// An error at a place.
    pub fn wrong(
        &self,
        at: Range<usize>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Diagnostic {
        diagnostic(self.text, at, problem, remedy)
    }

    /// An error at the next token.
    pub fn unexpected(&self, problem: impl Into<String>, remedy: impl Into<String>) -> Diagnostic {
        self.wrong(self.here(), problem, remedy)
    }

    /// Checks that one more may come behind so many.
    pub fn check_room(&self, count: usize, what: &str) -> Result<(), Diagnostic> {
        if count < self.limits.items_max {
            return Ok(());
        }
        Err(self.unexpected(format!("there are more than {count} {what}"), "leave some out"))
    }

    /// An error at an unknown word, with the known ones.
    pub fn unknown<'k>(
        &self,
        at: Range<usize>,
        what: &str,
        word: &str,
        known: impl Iterator<Item = &'k str> + Clone,
    ) -> Diagnostic {
        let names: Vec<_> = known.clone().take(LISTED_MAX + 1).collect();
        let mut remedy = match names.len() {
            0 => "none is known".to_owned(),
            count if count > LISTED_MAX => {
                format!("known are {}, …", names[..LISTED_MAX].join(", "))
            }
            _ => format!("known are {}", listed(&names)),
        };
        if let Some(near) = nearest(word, known) {
            remedy = format!("did you mean `{near}`? {remedy}");
        }
        self.wrong(at, format!("there is no {what} `{}`", shortened(word)), remedy)
    }

    /// Checks that a word is a key.
    pub fn check_key(&self, word: &str, at: Range<usize>) -> Result<(), Diagnostic> {
        if !is_name(word) {
            let problem = format!("`{}` is no key", shortened(word));
            return Err(self.wrong(at, problem, "keys are letters, digits and `_`, as in `file`"));
        }
        if is_operator(word) {
            let remedy = "write a key before it, as in `run in [1, 2]`";
            return Err(self.wrong(at, format!("`{word}` is an operator"), remedy));
        }
        if self.vocabulary.has_key(word) {
            return Ok(());
        }
        Err(self.unknown(at, "key", word, self.vocabulary.keys().collect::<Vec<_>>().into_iter()))
    }

    /// Reads a field: a key, or a key and the names of its attribute.
    pub fn field(&mut self, example: &str) -> Result<String, Diagnostic> {
        let Some(word) = self.peek_word() else {
            return Err(self.unexpected("a field is missing", example));
        };
        let at = self.here();
        self.check_field(word, at)?;
        self.advance();
        Ok(word.to_owned())
    }

    /// Checks that a word is a field.
    pub fn check_field(&self, word: &str, at: Range<usize>) -> Result<(), Diagnostic> {
        let (key, attribute) = word.split_once('.').map_or((word, None), |(k, a)| (k, Some(a)));
        self.check_key(key, at.start..at.start + key.len())?;
        let Some(attribute) = attribute else { return Ok(()) };
        let at = at.start + key.len() + 1..at.start + word.len();
        if !attribute.split('.').all(is_name) {
            let problem = format!("`{}` is no attribute", shortened(attribute));
            return Err(self.wrong(at, problem, "write a key and a name, as in `file.size`"));
        }
        if self.vocabulary.has_attribute(key, attribute) {
            return Ok(());
        }
        let what = format!("attribute of `{key}` with the name");
        let known: Vec<_> = self.vocabulary.attributes(key).collect();
        Err(self.unknown(at, &what, attribute, known.into_iter()))
    }
}
