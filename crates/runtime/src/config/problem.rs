//! The problems of a configuration, and their display. It must not know how a value is read.

use std::collections::HashSet;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::source::{MAIN, SourcePlace, SourceTexts};

/// Most problems kept of one configuration; the rest are counted.
pub const PROBLEMS_MAX: usize = 1000;

/// A problem in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ConfigProblem {
    /// The included file with the problem; null for the main file.
    pub file: Option<String>,
    /// Line in the file, from 1, if known.
    pub line: Option<usize>,
    /// Column in that line, in characters from 1; only for syntax errors.
    pub column: Option<usize>,
    /// Dotted key, as in `exchange.dsp[3].url`; empty if the problem concerns the whole file.
    pub key: String,
    /// The invalid value as in the file, shortened, never a secret; null for missing keys and for
    /// tables.
    pub value: Option<String>,
    /// The problem and the remedy, as a lower-case fragment.
    pub remedy: String,
}

impl ConfigProblem {
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

/// All problems of one configuration, in the order of its files and their lines.
///
/// Displayed as the text after `error: ` on the terminal:
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
    /// The problems, at most [`PROBLEMS_MAX`].
    pub fn iter(&self) -> impl Iterator<Item = &ConfigProblem> {
        self.problems.iter()
    }

    /// The main file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The number of problems, including those beyond [`PROBLEMS_MAX`].
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

/// A key with a problem, and where the problem is.
pub(super) struct KeyPlace {
    /// None if the key is given nowhere.
    pub(super) place: Option<SourcePlace>,
    /// The dotted key.
    pub(super) key: String,
}

#[derive(Clone, Copy)]
pub(super) struct KnownKey {
    pub(super) name: &'static str,
    pub(super) kind: KeyKind,
}

/// How messages treat a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    Plain,
    Secret,
    /// A former key, which no message suggests.
    Renamed,
}

#[derive(Default)]
pub(super) struct ProblemLog {
    problems: Vec<(Option<SourcePlace>, ConfigProblem)>,
    unlisted: usize,
    /// Lines with a syntax error, from which the parser recovers by guessing.
    broken_lines: HashSet<SourcePlace>,
    /// Files with such a line, and unread files: they may contain a missing key.
    broken_files: HashSet<usize>,
    /// A file's tables may be unknown, so problems across keys cannot be judged.
    incomplete: bool,
    describing: bool,
    recording: ProblemRecorder,
    /// Reusable buffers for the keys of tables, because thousands of tables are read in turn.
    pub(super) unused_keys: Vec<Vec<KnownKey>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ProblemRecorder {
    /// All declared keys.
    #[default]
    All,
    /// Keys that files give.
    Given,
}

impl ProblemLog {
    /// For a run without a file, which visits optional tables.
    pub(super) fn describing() -> Self {
        Self { describing: true, ..Self::default() }
    }

    pub(super) fn recording(recording: ProblemRecorder) -> Self {
        Self { recording, ..Self::default() }
    }

    /// Whether keys without a value from a file are recorded.
    pub(super) fn records_all(&self) -> bool {
        self.recording == ProblemRecorder::All
    }

    pub(super) fn is_describing(&self) -> bool {
        self.describing
    }

    pub(super) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// Records a syntax error at an offset among all files. Possible echoes of it are then dropped.
    pub(super) fn syntax(
        &mut self,
        source: &SourceTexts<'_>,
        file: usize,
        offset: Option<usize>,
        message: &str,
    ) {
        let place = offset.map_or(SourcePlace::whole(file), |offset| source.place(offset));
        let column = offset.map(|offset| source.column(offset));
        self.broken_lines.insert(place);
        self.unknown(file);
        self.record(Some(place), || ConfigProblem {
            column,
            ..ConfigProblem::at(source, Some(place), message.to_owned())
        });
    }

    /// Stops judging missing keys and problems across keys: `file` may contain more than was read.
    pub(super) fn unknown(&mut self, file: usize) {
        self.broken_files.insert(file);
        self.incomplete = true;
    }

    pub(super) fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// Whether a broken file may contain a missing key: `file` if given, otherwise any.
    pub(super) fn may_be_lost(&self, file: Option<usize>) -> bool {
        match file {
            Some(file) => self.broken_files.contains(&file),
            None => !self.broken_files.is_empty(),
        }
    }

    /// Records a problem of a key, unless it may only echo a syntax error.
    pub(super) fn note(
        &mut self,
        source: &SourceTexts<'_>,
        at: KeyPlace,
        value: Option<String>,
        remedy: impl FnOnce() -> String,
    ) {
        let KeyPlace { place, key } = at;
        if place.is_some_and(|place| self.broken_lines.contains(&place)) {
            return;
        }
        self.record(place, || ConfigProblem {
            key,
            value,
            ..ConfigProblem::at(source, place, remedy())
        });
    }

    /// Creates and records a problem; if enough are recorded, only counts it.
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
