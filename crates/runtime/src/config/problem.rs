//! What is wrong with a configuration, and how it is told.
//!
//! It must not know how a value is read.

use std::collections::HashSet;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::section::KnownKey;
use super::source::{MAIN, SourcePlace, SourceTexts};

/// Most problems that are kept of one configuration; the rest are counted.
pub const PROBLEMS_MAX: usize = 1000;

/// One thing to mend in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ConfigProblem {
    /// The included file that has it; none for the main one.
    pub file: Option<String>,
    /// Line in the file, from 1, where known.
    pub line: Option<usize>,
    /// Column in that line, in characters from 1; of syntax errors only.
    pub column: Option<usize>,
    /// Dotted key, as in `exchange.dsp[3].url`; empty where the whole file is meant.
    pub key: String,
    /// The offending value as the file has it, shortened, never a secret; none for what is missing,
    /// and for tables.
    pub value: Option<String>,
    /// What is wrong and what to write instead, as a lower-case fragment.
    pub remedy: String,
}

impl ConfigProblem {
    /// What is wrong at a place, known or not.
    pub(super) fn at(source: &SourceTexts<'_>, place: Option<SourcePlace>, remedy: String) -> Self {
        let included = place.filter(|place| place.file != MAIN);
        Self {
            file: included.map(|place| source.name(place.file).to_owned()),
            line: place.map(|place| place.line).filter(|&line| line != 0),
            column: None,
            key: String::new(),
            value: None,
            remedy,
        }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_deref();
        match (file, self.line) {
            (Some(file), Some(line)) => write!(f, "{file} line {line}")?,
            (Some(file), None) => f.write_str(file)?,
            (None, Some(line)) => write!(f, "line {line}")?,
            (None, None) => (),
        }
        if let Some(column) = self.column {
            write!(f, ", column {column}")?;
        }
        if file.is_some() || self.line.is_some() {
            f.write_str(": ")?;
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

/// Everything that is wrong with one configuration, in the order of its files and their lines.
///
/// Displayed, it is what follows `error: ` on the terminal:
///
/// ```text
/// 2 problems in vickrey.toml; nothing was started
///   line 7: exchange.tmax = "120": needs a unit, for example "120ms"
///   dsps.d/acme.toml line 2: dsp[0].url: is missing, …
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblems {
    file: String,
    problems: Vec<ConfigProblem>,
    unlisted: usize,
}

impl ConfigProblems {
    /// The problems, at most [`PROBLEMS_MAX`] of them.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigProblem> {
        self.problems.iter()
    }

    /// The main file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// How many problems there are, those beyond [`PROBLEMS_MAX`] included.
    pub fn count(&self) -> usize {
        self.problems.len() + self.unlisted
    }
}

impl fmt::Display for ConfigProblems {
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

impl std::error::Error for ConfigProblems {}

/// Collects problems while the files are read.
#[derive(Default)]
pub(super) struct ProblemLog {
    problems: Vec<(Option<SourcePlace>, ConfigProblem)>,
    unlisted: usize,
    /// Lines with a syntax error: what the parser recovered from them is a guess.
    broken_lines: HashSet<SourcePlace>,
    /// Files with such a line, or that were not read: what they hold may be what is missing.
    broken_files: HashSet<usize>,
    /// Some file's tables may not be known, so that what others say of them cannot be judged.
    incomplete: bool,
    describing: bool,
    recording: ProblemRecorder,
    /// Room for the keys of tables that are read next: thousands of tables are read in turn.
    pub(super) unused_keys: Vec<Vec<KnownKey>>,
}

/// Which settings a reading records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ProblemRecorder {
    /// Those of all declared keys.
    #[default]
    All,
    /// Those that files give.
    Given,
}

impl ProblemLog {
    /// A log for a run without a file, in which tables that may be absent are visited.
    pub(super) fn describing() -> Self {
        Self { describing: true, ..Self::default() }
    }

    /// A log of a reading that records no more than that.
    pub(super) fn recording(recording: ProblemRecorder) -> Self {
        Self { recording, ..Self::default() }
    }

    /// Whether keys are recorded that no file gives.
    pub(super) fn records_all(&self) -> bool {
        self.recording == ProblemRecorder::All
    }

    pub(super) fn is_describing(&self) -> bool {
        self.describing
    }

    pub(super) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// Keeps a syntax error at an offset among all files. From here on, problems that may only
    /// echo it are passed over.
    pub(super) fn syntax(
        &mut self,
        source: &SourceTexts<'_>,
        file: usize,
        error: (Option<usize>, &str),
    ) {
        let (offset, message) = error;
        let place = offset.map_or(SourcePlace::whole(file), |offset| source.place(offset));
        let column = offset.map(|offset| source.column(offset));
        self.broken_lines.insert(place);
        self.unknown(file);
        self.record(Some(place), || ConfigProblem {
            column,
            ..ConfigProblem::at(source, Some(place), message.to_owned())
        });
    }

    /// From here on, what is missing, and what depends on several keys, is not judged: `file` may
    /// hold more than is known.
    pub(super) fn unknown(&mut self, file: usize) {
        self.broken_files.insert(file);
        self.incomplete = true;
    }

    /// Whether what depends on several keys cannot be judged.
    pub(super) fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// Whether a key that is missing may be one that a broken file has; `file` is the only one
    /// that may have it, if there is only one.
    pub(super) fn may_be_lost(&self, file: Option<usize>) -> bool {
        match file {
            Some(file) => self.broken_files.contains(&file),
            None => !self.broken_files.is_empty(),
        }
    }

    /// Keeps a problem of a key, unless it may only echo a syntax error.
    pub(super) fn note(
        &mut self,
        source: &SourceTexts<'_>,
        (place, key): (Option<SourcePlace>, String),
        value: Option<String>,
        remedy: impl FnOnce() -> String,
    ) {
        if place.is_some_and(|place| self.broken_lines.contains(&place)) {
            return;
        }
        self.record(place, || ConfigProblem {
            key,
            value,
            ..ConfigProblem::at(source, place, remedy())
        });
    }

    /// Keeps a problem, or counts it where enough are kept: it is made only in the first case.
    pub(super) fn record(
        &mut self,
        place: Option<SourcePlace>,
        problem: impl FnOnce() -> ConfigProblem,
    ) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push((place, problem()));
        } else {
            self.unlisted += 1;
        }
    }

    pub(super) fn into_problems(mut self, file: &str) -> ConfigProblems {
        self.problems.sort_by_key(|(place, _)| *place);
        let problems = self.problems.into_iter().map(|(_, problem)| problem).collect();
        ConfigProblems { file: file.to_owned(), problems, unlisted: self.unlisted }
    }
}
