//! Good and bad values of every getter, with exact messages.

mod documents;
mod effective;
mod files;
mod getters;
mod includes;
mod secrets;
mod structure;

use std::path::{Path, PathBuf};

use super::inputs::Variables;
use super::load::load_as;
use super::problem::ProblemRecorder;
use super::{ConfigProblems, Loaded, Section, Sources, load, parse};

/// The problems of `text`, one line each, without the headline.
fn problems_of<T>(text: &str, read: impl Fn(&mut Section<'_>) -> T) -> Vec<String> {
    match parse("vickrey.toml", text, read) {
        Ok(_) => Vec::new(),
        Err(problems) => lines_of(&problems),
    }
}

fn lines_of(problems: &ConfigProblems) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// Loads a file with these environment variables.
fn load_with<T>(
    path: &Path,
    variables: Variables<'_>,
    read: impl Fn(&mut Section<'_>) -> T,
) -> (Result<Loaded<T>, ConfigProblems>, Sources) {
    load_as(path, variables, ProblemRecorder::All, read)
}

/// Files of a test, including `vickrey.toml`.
struct Folder(tempfile::TempDir);

impl Folder {
    fn of(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().expect("a temporary folder"));
        for (name, text) in files {
            folder.write(name, text.as_bytes());
        }
        folder
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.0.path().join(name);
        let parent = path.parent().expect("a file is in a folder");
        std::fs::create_dir_all(parent).expect("a folder in a temporary one");
        std::fs::write(path, bytes).expect("a temporary file");
    }

    fn main(&self) -> PathBuf {
        self.0.path().join("vickrey.toml")
    }

    fn relative(&self, path: &Path) -> String {
        let below = path.strip_prefix(self.0.path()).expect("a path in the folder");
        below.display().to_string()
    }

    /// The problems of `vickrey.toml`, with paths relative to the folder.
    fn problems<T>(&self, read: impl Fn(&mut Section<'_>) -> T) -> Vec<String> {
        let problems = match load(&self.main(), read) {
            Ok(_) => return Vec::new(),
            Err(problems) => lines_of(&problems),
        };
        let prefix = format!("{}/", self.0.path().display());
        problems.iter().map(|problem| problem.replace(&prefix, "")).collect()
    }
}
