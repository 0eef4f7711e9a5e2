//! What is wrong with a configuration, and how it is told.
//!
//! It must not know how a value is read.

use std::collections::HashSet;
use std::fmt;

use super::source::Source;

/// Most problems that are kept of one file; the rest are counted.
pub const PROBLEMS_MAX: usize = 1000;

/// One thing to mend in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line in the file, from 1, where known.
    pub line: Option<usize>,
    /// Column in that line, in characters from 1; of syntax errors only.
    pub column: Option<usize>,
    /// Dotted key, as in `exchange.dsp[3].url`; empty where the whole file is meant.
    pub key: String,
    /// The offending value as the file has it, shortened; `None` for what is missing, and for
    /// tables.
    pub value: Option<String>,
    /// What is wrong and what to write instead, as a lower-case fragment.
    pub remedy: String,
}

impl Problem {
    pub(super) fn of_file(remedy: String) -> Self {
        Self { line: None, column: None, key: String::new(), value: None, remedy }
    }

    pub(super) fn of_syntax(source: &Source<'_>, error: &toml::de::Error) -> Self {
        let at = error.span().map(|span| span.start);
        Self {
            line: at.map(|at| source.line(at)),
            column: at.map(|at| source.column(at)),
            ..Self::of_file(error.message().to_owned())
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => write!(f, "line {line}, column {column}: ")?,
            (Some(line), None) => write!(f, "line {line}: ")?,
            _ => (),
        }
        f.write_str(&self.key)?;
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        if !self.key.is_empty() {
            f.write_str(": ")?;
        }
        f.write_str(&self.remedy)
    }
}

/// Everything that is wrong with one configuration, in the order of its lines.
///
/// Displayed, it is what follows `error: ` on the terminal:
///
/// ```text
/// 2 problems in vickrey.toml; nothing was started
///   line 7: exchange.tmax = "120": needs a unit, for example "120ms"
///   line 9: exchange.floor = "0.5 usd": unknown currency `usd`, did you mean `USD`?
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    file: String,
    problems: Vec<Problem>,
    unlisted: usize,
}

impl Problems {
    pub(super) fn of_file(file: &str, problem: Problem) -> Self {
        Self { file: file.to_owned(), problems: vec![problem], unlisted: 0 }
    }

    /// The problems, at most [`PROBLEMS_MAX`] of them.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter()
    }

    /// How many problems there are, those beyond [`PROBLEMS_MAX`] included.
    pub fn count(&self) -> usize {
        self.problems.len() + self.unlisted
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count();
        let noun = if count == 1 { "problem" } else { "problems" };
        write!(f, "{count} {noun} in {}; nothing was started", self.file)?;
        for problem in &self.problems {
            write!(f, "\n  {problem}")?;
        }
        match self.unlisted {
            0 => Ok(()),
            unlisted => write!(f, "\n  … and {unlisted} more"),
        }
    }
}

impl std::error::Error for Problems {}

/// Collects problems while a file is read.
#[derive(Default)]
pub(super) struct Log {
    problems: Vec<Problem>,
    unlisted: usize,
    /// Lines with a syntax error: what the parser recovered from them is a guess.
    broken_lines: HashSet<usize>,
    describing: bool,
}

impl Log {
    /// A log for a run without a file, in which tables that may be absent are visited.
    pub(super) fn describing() -> Self {
        Self { describing: true, ..Self::default() }
    }

    pub(super) fn is_describing(&self) -> bool {
        self.describing
    }

    pub(super) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// From here on, passes over problems that may only echo one of the syntax errors.
    pub(super) fn skip_doubtful(&mut self, source: &Source<'_>, errors: &[toml::de::Error]) {
        let lines = errors.iter().filter_map(toml::de::Error::span);
        self.broken_lines = lines.map(|span| source.line(span.start)).collect();
    }

    /// Whether a problem on this line, or with a key that is missing, may only echo a syntax
    /// error.
    pub(super) fn is_doubtful(&self, line: Option<usize>, missing: bool) -> bool {
        let broken = line.is_some_and(|line| self.broken_lines.contains(&line));
        broken || (missing && !self.broken_lines.is_empty())
    }

    /// Keeps a problem, or counts it where enough are kept: it is made only in the first case.
    pub(super) fn record(&mut self, problem: impl FnOnce() -> Problem) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem());
        } else {
            self.unlisted += 1;
        }
    }

    pub(super) fn into_problems(mut self, file: &str) -> Problems {
        self.problems.sort_by_key(|problem| problem.line);
        Problems { file: file.to_owned(), problems: self.problems, unlisted: self.unlisted }
    }
}
