//! Reads the files of a configuration, the main one and those it includes, as one table. It must
//! not know any service's keys.

mod merge;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::declaration::{Form, KeyDoc, Need, Role};
use super::effective::{Effective, EffectiveKey};
use super::inputs::pattern::{INCLUDES_MAX, Pattern};
use super::inputs::{ConfigInputs, Sources, Variables};
use super::problem::{
    ConfigProblem, ConfigProblems, KeyKind, KeyPlace, ProblemLog, ProblemRecorder,
};
use super::section::{GivenKey, Section, TablePath};
use super::source::{MAIN, SourcePlace, SourceTexts};
use super::values::quantity::Quantity;
use super::values::written::WrittenValue;
use merge::{merge, moved};

/// Largest configuration file: 16 MiB.
pub const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Most bytes of all files together: 64 MiB.
pub const FILES_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Largest text in which all syntax errors are reported: 256 KiB. The parser keeps about 200 bytes
/// per error, and a hostile text has one per byte; of a larger text only the first is reported.
pub const RECOVERY_BYTES_MAX: usize = 256 * 1024;

const INCLUDE: &str = "include";

const INCLUDE_DOC: &str = "Files to include; paths are relative to this file. The last part of a \
    path may contain `*`, and matching files are read in the order of their names. Repeated tables \
    append, other tables merge, and no key may be set twice.";

const INCLUDE_EXAMPLE: WrittenValue = WrittenValue::Texts(&["dsps.d/*.toml", "rates.toml"]);

/// A configuration without problems.
#[derive(Clone, Debug)]
pub struct Loaded<T> {
    /// The result of `read`.
    pub value: T,
    /// Every declared key with its value in force.
    pub effective: Effective,
    /// Digest of the files' contents, including secrets. Comparable only within one process.
    pub digest: u64,
}

/// Reads the file at `path` and those it includes, with the declarations of `read`.
///
/// # Errors
/// All problems of all files: missing, unreadable, larger than [`FILE_BYTES_MAX`], not UTF-8, not
/// TOML, duplicate, or with keys and values that `read` does not accept.
pub fn load<T>(path: &Path, read: impl Fn(&mut Section<'_>) -> T) -> Result<T, ConfigProblems> {
    load_tracked(path, read).0.map(|loaded| loaded.value)
}

/// Like [`load`]; also returns what is in force, and the files and folders read, even on failure.
pub fn load_tracked<T>(
    path: &Path,
    read: impl Fn(&mut Section<'_>) -> T,
) -> (Result<Loaded<T>, ConfigProblems>, Sources) {
    load_as(path, &|name| std::env::var_os(name), ProblemRecorder::All, read)
}

/// Like [`load_tracked`], for many large files: `effective` has only what the files give.
pub fn load_given<T>(
    path: &Path,
    read: impl Fn(&mut Section<'_>) -> T,
) -> (Result<Loaded<T>, ConfigProblems>, Sources) {
    load_as(path, &|name| std::env::var_os(name), ProblemRecorder::Given, read)
}

/// Like [`load_tracked`], with environment variables from `variables`.
pub(super) fn load_as<T>(
    path: &Path,
    variables: Variables<'_>,
    recording: ProblemRecorder,
    read: impl Fn(&mut Section<'_>) -> T,
) -> (Result<Loaded<T>, ConfigProblems>, Sources) {
    let inputs = ConfigInputs::new(variables);
    let name = path.display().to_string();
    // The main file may be a pipe, for example from a shell's process substitution.
    let loaded = match read_text(path, &inputs, true) {
        Ok(text) => {
            let main = MainText { name: &name, text: &text, path: Some(path) };
            read_files(main, &inputs, recording, read)
        }
        Err(unread) => {
            let (source, mut log) =
                (SourceTexts::new(&name, folder_of(path), ""), ProblemLog::default());
            let place = Some(SourcePlace { file: MAIN, line: unread.line });
            log.record(place, || ConfigProblem::at(&source, place, unread.remedy));
            Err(log.into_problems(&name))
        }
    };
    (loaded, inputs.into_sources())
}

/// Reads `text` with the declarations of `read`; messages call it `name`. The text stands alone:
/// `include` and references to variables and files are problems.
///
/// Never panics because of the text, and keeps at most [`PROBLEMS_MAX`](super::PROBLEMS_MAX)
/// problems in memory.
///
/// # Errors
/// All problems of the text; of a text above [`RECOVERY_BYTES_MAX`] that is not TOML, the first
/// syntax error. After a syntax error, missing keys are not reported, because the broken line may
/// contain them. After a broken table header nothing else is reported, because the keys below would
/// be read as another table's.
///
/// # Panics
/// If a declared default or example does not satisfy its own declaration.
pub fn parse<T>(
    name: &str,
    text: &str,
    read: impl Fn(&mut Section<'_>) -> T,
) -> Result<T, ConfigProblems> {
    parse_loaded(name, text, read).map(|loaded| loaded.value)
}

/// Like [`parse`]; also returns what is in force.
///
/// # Errors
/// As [`parse`].
pub fn parse_loaded<T>(
    name: &str,
    text: &str,
    read: impl Fn(&mut Section<'_>) -> T,
) -> Result<Loaded<T>, ConfigProblems> {
    let inputs = ConfigInputs::closed();
    read_files(MainText { name, text, path: None }, &inputs, ProblemRecorder::All, read)
}

/// The files that `pattern` matches, sorted by name, and the listing to watch. A pattern is a path
/// relative to `folder`, or one with `*` in its last part.
///
/// # Errors
/// The remedy, if the pattern is invalid or the folder cannot be listed.
pub fn matching(folder: &Path, pattern: &str) -> (Result<Vec<PathBuf>, String>, Sources) {
    let inputs = ConfigInputs::closed();
    let paths = paths_of(pattern, folder, &inputs);
    let paths = paths.and_then(|paths| match paths.len() {
        0..=INCLUDES_MAX => Ok(paths),
        _ => Err(format!("stands for more than {INCLUDES_MAX} files, the most that are read")),
    });
    (paths, inputs.into_sources())
}

/// The keys that `read` declares, found by running it without a file. It visits optional and
/// repeated tables once.
///
/// # Panics
/// If a declared default or example does not satisfy its own declaration.
pub fn describe<T>(read: impl Fn(&mut Section<'_>) -> T) -> Vec<KeyDoc> {
    let (source, inputs) = (SourceTexts::new("", Path::new(""), ""), ConfigInputs::closed());
    let mut log = ProblemLog::describing();
    let mut root = Section::root(&source, &inputs, None, &mut log);
    read(&mut root);
    root.finish().docs
}

impl Section<'_> {
    /// Declares `include`, whose files are read as part of this one. Only for the root.
    pub fn includes(&mut self) {
        let role =
            || Role::Value { form: Form::Texts, need: Need::Optional, written: INCLUDE_EXAMPLE };
        self.describe(INCLUDE, INCLUDE_DOC, KeyKind::Plain, role);
        debug_assert!(matches!(self.path, TablePath::Root), "`{INCLUDE}` is a key of the root");
        if let Some(GivenKey { place, value }) = self.given(INCLUDE)
            && self.inputs.is_closed()
        {
            let shown = self.shown(value);
            self.note(Some(place), INCLUDE.to_owned(), shown, || {
                "nothing can be included into a text that is no file".to_owned()
            });
        }
    }
}

/// The text of the main file.
struct MainText<'a> {
    /// Its name in messages.
    name: &'a str,
    text: &'a str,
    /// None if the text stands alone.
    path: Option<&'a Path>,
}

fn read_files<T>(
    MainText { name, text, path }: MainText<'_>,
    inputs: &ConfigInputs<'_>,
    recording: ProblemRecorder,
    read: impl Fn(&mut Section<'_>) -> T,
) -> Result<Loaded<T>, ConfigProblems> {
    let mut log = ProblemLog::recording(recording);
    let mut source = SourceTexts::new(name, path.map_or(Path::new(""), folder_of), text);
    let main = parse_file(MAIN, &source, &mut log);
    // After a syntax error the value of `include` may be wrong.
    let sound = |end: usize| main.first_error.is_none_or(|error| end < error);
    let included = match (main.table.get_key_value(INCLUDE), path) {
        (Some((key, value)), Some(path)) if sound(value.span().end) => {
            let names = IncludeNames { source: &source, log: &mut log, inputs };
            names.read(key.span().start, value, path)
        }
        _ => Vec::new(),
    };
    let mut table = if main.is_lost { DeTable::new() } else { main.table };
    for file in &included {
        let text = file.text.as_deref().unwrap_or_default();
        let name = file.path.display().to_string();
        let number = source.add(name, folder_of(&file.path).to_path_buf(), text);
        if let Err(unread) = &file.text {
            let place = Some(SourcePlace { file: number, line: unread.line });
            log.unknown(number);
            log.record(place, || ConfigProblem::at(&source, place, unread.remedy.clone()));
            continue;
        }
        let mut parsed = parse_file(number, &source, &mut log);
        if parsed.is_lost {
            continue;
        }
        if let Some((key, value)) = parsed.table.remove_entry(INCLUDE) {
            let place = Some(source.place(key.span().start));
            let shown = Some(source.excerpt(&value));
            log.note(&source, KeyPlace { place, key: INCLUDE.to_owned() }, shown, || {
                format!("only {} may include, name the files there", source.name(MAIN))
            });
        }
        merge(&mut table, parsed.table, "", &source, &mut log);
    }
    let mut root = Section::root(&source, inputs, Some(&table), &mut log);
    let value = read(&mut root);
    let settings = root.finish().settings;
    if !log.is_empty() {
        return Err(log.into_problems(name));
    }
    let effective = Effective { root: EffectiveKey::Table(settings) };
    Ok(Loaded { value, effective, digest: inputs.digest() })
}

struct ParsedFile<'a> {
    table: DeTable<'a>,
    /// Offset of the first syntax error, among all files.
    first_error: Option<usize>,
    /// Whether the rest cannot be judged: a table header is broken, so that the keys after it may
    /// belong to another table, or errors were not sought to the end.
    is_lost: bool,
}

fn parse_file<'a>(file: usize, source: &SourceTexts<'a>, log: &mut ProblemLog) -> ParsedFile<'a> {
    let (text, base) = (source.text(file), source.base(file));
    let (table, errors, sought_all) = match DeTable::parse(text) {
        Ok(table) => (table.into_inner(), Vec::new(), true),
        Err(first) if RECOVERY_BYTES_MAX < text.len() => (DeTable::new(), vec![first], false),
        Err(_) => {
            let (table, errors) = DeTable::parse_recoverable(text);
            (table.into_inner(), errors, true)
        }
    };
    let at = |error: &toml::de::Error| error.span().map(|span| span.start + base);
    for error in &errors {
        log.syntax(source, file, at(error), error.message());
    }
    let is_lost = !sought_all || source.any_in_header(errors.iter().filter_map(at));
    if is_lost {
        log.unknown(file);
    }
    let first_error = errors.iter().map(|error| at(error).unwrap_or(base)).min();
    let table = if base == 0 { table } else { moved(table, base) };
    ParsedFile { table, first_error, is_lost }
}

/// An included file, as far as it was read.
struct IncludedFile {
    path: PathBuf,
    text: Result<String, UnreadFile>,
}

struct UnreadFile {
    /// The line at fault; 0 if there is none.
    line: usize,
    remedy: String,
}

fn read_text(path: &Path, inputs: &ConfigInputs<'_>, special: bool) -> Result<String, UnreadFile> {
    let refused = |remedy: String| UnreadFile { line: 0, remedy };
    let bytes = inputs
        .read(path, FILE_BYTES_MAX, special)
        .map_err(|error| refused(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let most = Quantity::Bytes.write(FILE_BYTES_MAX);
        return Err(refused(format!("is larger than {most}, the most that is read")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
        UnreadFile { line, remedy: "is not UTF-8; save the file in that encoding".to_owned() }
    })
}

struct IncludeNames<'r, 'o> {
    source: &'r SourceTexts<'r>,
    log: &'r mut ProblemLog,
    inputs: &'r ConfigInputs<'o>,
}

impl IncludeNames<'_, '_> {
    /// The named files, each once, without the main file.
    fn read(mut self, key: usize, value: &Spanned<DeValue<'_>>, main: &Path) -> Vec<IncludedFile> {
        let DeValue::Array(names) = value.get_ref() else {
            let (form, example) = (Form::Texts.phrase(), INCLUDE_EXAMPLE.to_toml());
            let remedy = format!("expected {form}, for example {example}");
            let place = self.source.place(key);
            self.refuse(KeyPlace { place: Some(place), key: INCLUDE.to_owned() }, value, remedy);
            return Vec::new();
        };
        let mut seen = HashSet::from([canonical(main)]);
        let (mut included, mut bytes) = (Vec::new(), 0);
        for (index, name) in names.iter().enumerate() {
            let place = self.source.place(name.span().start);
            let at = KeyPlace { place: Some(place), key: format!("{INCLUDE}[{index}]") };
            let paths = match self.paths(name.get_ref()) {
                Ok(paths) => paths,
                Err(remedy) => {
                    self.refuse(at, name, remedy);
                    continue;
                }
            };
            for path in paths.into_iter().filter(|path| seen.insert(canonical(path))) {
                let mut text = read_text(&path, self.inputs, false);
                if let Err(unread) = &mut text {
                    let (main, line) = (self.source.name(MAIN), place.line);
                    unread.remedy.push_str(&format!(" (included by {main} line {line})"));
                }
                bytes += text.as_ref().map_or(0, |text| text.len() as u64);
                included.push(IncludedFile { path, text });
                let most = Quantity::Bytes.write(FILES_BYTES_MAX);
                let excess = if included.len() > INCLUDES_MAX {
                    format!("names more than {INCLUDES_MAX} files, the most that are included")
                } else if bytes > FILES_BYTES_MAX {
                    format!("names more than {most} of files, the most that is read")
                } else {
                    continue;
                };
                self.refuse(at, name, excess);
                return Vec::new();
            }
        }
        included
    }

    fn paths(&self, name: &DeValue<'_>) -> Result<Vec<PathBuf>, String> {
        let Some(name) = name.as_str() else { return Err("expected text".to_owned()) };
        paths_of(name, self.source.folder(MAIN), self.inputs)
    }

    fn refuse(&mut self, at: KeyPlace, value: &Spanned<DeValue<'_>>, remedy: String) {
        let shown = self.source.excerpt(value);
        self.log.note(self.source, at, Some(shown), || remedy);
        self.log.unknown(MAIN);
    }
}

fn paths_of(name: &str, folder: &Path, inputs: &ConfigInputs<'_>) -> Result<Vec<PathBuf>, String> {
    if name.is_empty() || name.contains('\0') {
        return Err("names no file".to_owned());
    }
    let Some(pattern) = Pattern::parse(name, folder)? else {
        return Ok(vec![folder.join(name)]);
    };
    let names = inputs
        .names(&pattern)
        .map_err(|error| format!("{} cannot be listed: {error}", pattern.folder().display()))?;
    Ok(names.iter().map(|name| pattern.join(name)).collect())
}

/// The base of relative paths in a file.
fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// One path per file. A missing file keeps its own path.
fn canonical(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}
