//! Reads a TOML file into a service's own type, and reports everything that is wrong with it.
//!
//! A service declares each key once, by asking a [`Section`] for it. That one declaration reads
//! the value, reports its problems, and, run by [`describe`] without a file, yields the default
//! file, the JSON Schema and the reference page.
//!
//! ```
//! use std::time::Duration;
//! use runtime::config::{ms, parse, secs, Section};
//!
//! struct Exchange { tmax: Duration }
//!
//! impl Exchange {
//!     fn read(s: &mut Section<'_>) -> Self {
//!         Self { tmax: s.duration("tmax", "250ms", ms(1)..=secs(10), "Longest auction.") }
//!     }
//! }
//!
//! let exchange = parse("vickrey.toml", "tmax = '120ms'", Exchange::read)?;
//! assert_eq!(exchange.tmax, ms(120));
//! # Ok::<(), runtime::config::Problems>(())
//! ```
//!
//! It must not know any service's keys, and starts nothing.

mod describe;
mod getters;
mod given;
mod nested;
mod presence;
mod problem;
mod quantity;
mod render;
mod schema;
mod section;
mod source;
mod values;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use toml::de::DeTable;

pub use describe::{Form, KeyDoc, Need, Nesting, Role};
pub use presence::{Item, Literal, Optional, Presence, Required, Written};
pub use problem::{PROBLEMS_MAX, Problem, Problems};
pub use quantity::{Bounds, Quantity, Whole};
pub use render::{default_toml, reference_markdown};
pub use schema::json_schema;
pub use section::Section;
pub use values::HttpUrl;

use problem::Log;
use source::Source;

/// Largest configuration file that is read: 16 MiB.
pub const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Largest text in which every syntax error is sought: 256 KiB. The parser keeps some 200 bytes
/// for each error, of which a hostile text has one a byte; beyond, the first one must do.
pub const RECOVERY_BYTES_MAX: usize = 256 * 1024;

/// A duration of `n` microseconds, for the ranges of declarations.
pub const fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// A duration of `n` milliseconds, for the ranges of declarations.
pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A duration of `n` seconds, for the ranges of declarations.
pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Reads the file at `path` by the declarations of `read`.
///
/// # Errors
///
/// Every problem of the file at once: missing, unreadable, larger than [`FILE_BYTES_MAX`], not
/// UTF-8, not TOML, or with keys and values that `read` does not accept.
pub fn load<T>(path: &Path, read: impl Fn(&mut Section<'_>) -> T) -> Result<T, Problems> {
    let name = path.display().to_string();
    let refused = |remedy: String| Problems::of_file(&name, Problem::of_file(remedy));
    let mut bytes = Vec::new();
    // One byte past the limit tells a file that is too large from one that just fits.
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| refused(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(refused(format!(
            "is larger than {}, the most that is read",
            Quantity::Bytes.write(FILE_BYTES_MAX)
        )));
    }
    match str::from_utf8(&bytes) {
        Ok(text) => parse(&name, text, read),
        Err(error) => {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&b| b == b'\n').count();
            let remedy = "is not UTF-8; save the file in that encoding".to_owned();
            Err(Problems::of_file(&name, Problem { line: Some(line), ..Problem::of_file(remedy) }))
        }
    }
}

/// Reads `text` by the declarations of `read`; `name` stands for the file in messages.
///
/// Never panics whatever the text, and keeps at most [`PROBLEMS_MAX`] problems in memory.
///
/// # Errors
///
/// Every problem of the text at once; of a text above [`RECOVERY_BYTES_MAX`] that is not TOML, the
/// first syntax error. After a syntax error, keys that are missing are not
/// reported, for the broken line may be theirs; nor is anything else when a table's header is
/// what is broken, for the keys below it would be read as another table's.
///
/// # Panics
///
/// When a declared default or example does not satisfy its own declaration, whatever the text.
pub fn parse<T>(
    name: &str,
    text: &str,
    read: impl Fn(&mut Section<'_>) -> T,
) -> Result<T, Problems> {
    let source = Source::new(text);
    let (table, errors) = match DeTable::parse(text) {
        Ok(table) => (table, Vec::new()),
        Err(first) if RECOVERY_BYTES_MAX < text.len() => {
            return Err(Problems::of_file(name, Problem::of_syntax(&source, &first)));
        }
        Err(_) => DeTable::parse_recoverable(text),
    };
    let mut log = Log::default();
    for error in &errors {
        log.record(|| Problem::of_syntax(&source, error));
    }
    if source.header_broken(&errors) {
        return Err(log.into_problems(name));
    }
    log.skip_doubtful(&source, &errors);
    let mut root = Section::root(&source, Some(table.get_ref()), &mut log);
    let value = read(&mut root);
    root.finish();
    if log.is_empty() { Ok(value) } else { Err(log.into_problems(name)) }
}

/// The keys that `read` declares, found by running it without a file. Tables that may be absent
/// or repeat are visited once.
///
/// # Panics
///
/// When a declared default or example does not satisfy its own declaration.
pub fn describe<T>(read: impl Fn(&mut Section<'_>) -> T) -> Vec<KeyDoc> {
    let source = Source::new("");
    let mut log = Log::describing();
    let mut root = Section::root(&source, None, &mut log);
    read(&mut root);
    root.finish()
}
