//! Tests of configuration: every getter's good and bad values, with the messages word for word.

mod documents;
mod files;
mod getters;
mod structure;

use super::{Problems, Section, parse};

/// The problems of `text`, one line each, without the headline.
fn problems_of<T>(text: &str, read: impl Fn(&mut Section<'_>) -> T) -> Vec<String> {
    match parse("vickrey.toml", text, read) {
        Ok(_) => Vec::new(),
        Err(problems) => lines_of(&problems),
    }
}

fn lines_of(problems: &Problems) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}
