//! The texts of a configuration, one per file: positions of offsets, and excerpts of values.
//!
//! Offsets continue from file to file, so that a value identifies its file even after a merge. This
//! module must not know keys or their meaning.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeValue;

use super::toml_text::{excerpt, quoted};
use super::values::masked_url;

/// The main file's number.
pub(super) const MAIN: usize = 0;

/// A line of a file, ordered by file, then line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SourcePlace {
    /// Number of the file, [`MAIN`] first.
    pub(super) file: usize,
    /// From 1; 0 means the whole file.
    pub(super) line: usize,
}

impl SourcePlace {
    pub(super) const fn whole(file: usize) -> Self {
        Self { file, line: 0 }
    }
}

struct FileText<'a> {
    name: String,
    /// Base of relative paths in the file.
    folder: PathBuf,
    text: &'a str,
    /// Offset of the text's start among all files.
    base: usize,
    line_starts: Vec<usize>,
}

#[derive(Default)]
pub(super) struct SourceTexts<'a> {
    files: Vec<FileText<'a>>,
}

impl<'a> SourceTexts<'a> {
    pub(super) fn new(name: &str, folder: &Path, text: &'a str) -> Self {
        let mut source = Self::default();
        source.add(name.to_owned(), folder.to_path_buf(), text);
        source
    }

    pub(super) fn add(&mut self, name: String, folder: PathBuf, text: &'a str) -> usize {
        // One more than the length, so that the end of a file differs from the start of the next.
        let base = self.files.last().map_or(0, |last| last.base + last.text.len() + 1);
        let after_newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(after_newlines).collect();
        self.files.push(FileText { name, folder, text, base, line_starts });
        self.files.len() - 1
    }

    /// The file of an offset, its number, and the offset within it.
    fn file(&self, offset: usize) -> (usize, &FileText<'a>, usize) {
        let file = self.files.partition_point(|file| file.base <= offset) - 1;
        let text = &self.files[file];
        (file, text, offset - text.base)
    }

    pub(super) fn place(&self, offset: usize) -> SourcePlace {
        let (file, text, offset) = self.file(offset);
        SourcePlace { file, line: text.line_starts.partition_point(|&start| start <= offset) }
    }

    /// The column of an offset, in characters from 1.
    pub(super) fn column(&self, offset: usize) -> usize {
        let line = self.place(offset).line;
        let (_, text, offset) = self.file(offset);
        let start = text.line_starts[line - 1];
        1 + text.text.get(start..offset).map_or(0, |before| before.chars().count())
    }

    /// Whether an offset is in a table header. The keys after a broken one may be another table's.
    pub(super) fn any_in_header(&self, mut offsets: impl Iterator<Item = usize>) -> bool {
        offsets.any(|offset| {
            let line = self.place(offset).line;
            let (_, text, _) = self.file(offset);
            let start = text.line_starts[line - 1];
            text.text.get(start..).is_some_and(|line| line.trim_start().starts_with('['))
        })
    }

    /// An excerpt of a value on one line. Text under any key is masked as by [`masked_url`].
    pub(super) fn excerpt(&self, value: &Spanned<DeValue<'_>>) -> String {
        excerpt(&self.masked(value))
    }

    fn masked(&self, value: &Spanned<DeValue<'_>>) -> String {
        match value.get_ref() {
            // Leave out comments between the elements: they may contain anything.
            DeValue::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| self.masked(item)).collect();
                return format!("[{}]", items.join(", "));
            }
            DeValue::Table(_) => return "{…}".to_owned(),
            // Compare unescaped text: `\u003F` is a `?`.
            DeValue::String(text) => {
                let masked = masked_url(text);
                if masked != **text {
                    return quoted(&masked);
                }
            }
            _ => (),
        }
        let (_, text, start) = self.file(value.span().start);
        text.text.get(start..start + value.span().len()).unwrap_or_default().to_owned()
    }

    pub(super) fn name(&self, file: usize) -> &str {
        &self.files[file].name
    }

    pub(super) fn text(&self, file: usize) -> &'a str {
        self.files[file].text
    }

    /// Offset of a file's text among all files.
    pub(super) fn base(&self, file: usize) -> usize {
        self.files[file].base
    }

    /// Base of relative paths in a file.
    pub(super) fn folder(&self, file: usize) -> &Path {
        &self.files[file].folder
    }
}
