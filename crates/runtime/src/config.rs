//! Reads a TOML file and the files it includes into a service's own type, and reports all their
//! problems.
//!
//! A service declares each key once, by asking a [`Section`] for it. That declaration reads the
//! value, reports its problems and records it as in force. Run by [`describe`] without a file, it
//! yields the default file, the JSON Schema and the reference page.
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
//! # Ok::<(), runtime::config::ConfigProblems>(())
//! ```
//!
//! It must not know any service's keys. [`reload`] says when files are read again.

mod declaration;
mod effective;
mod inputs;
mod load;
mod problem;
pub mod reload;
mod section;
mod source;
mod toml_text;
mod values;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use declaration::presence::{
    Literal, NoDefault, Optional, Presence, Required, RequiredOption, WrittenItem,
};
pub use declaration::render::{default_toml, reference_markdown};
pub use declaration::schema::json_schema;
pub use declaration::{Form, KeyDoc, Need, Nesting, Role};
pub use effective::Effective;
pub use effective::difference::SettingDifference;
pub use inputs::Sources;
pub use inputs::pattern::INCLUDES_MAX;
pub use load::{
    FILE_BYTES_MAX, FILES_BYTES_MAX, Loaded, RECOVERY_BYTES_MAX, describe, load, load_given,
    load_tracked, matching, parse, parse_loaded,
};
pub use problem::{ConfigProblem, ConfigProblems, PROBLEMS_MAX};
pub use section::Section;
pub use values::quantity::{Bounds, Quantity, WholeNumber};
pub use values::secret::{MASK, SECRET_BYTES_MAX, Secret};
pub use values::written::WrittenValue;
pub use values::{HttpUrl, masked_url};

/// `n` microseconds, for the ranges of declarations.
pub const fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// `n` milliseconds, for the ranges of declarations.
pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// `n` seconds, for the ranges of declarations.
pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
