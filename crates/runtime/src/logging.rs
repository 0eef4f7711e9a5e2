//! Log lines on stderr, for people or for machines. It must not know what is logged.

use std::fmt;
use std::io::{IsTerminal, stderr};

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::reload;

use crate::config::Section;

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text in columns, coloured on a terminal.
    Human,
    /// One JSON object per line, its fields next to `timestamp`, `level` and `target`.
    Json,
}

/// What is logged, and how.
#[derive(Clone, Debug)]
pub struct LoggingOptions {
    /// The format of a line.
    pub format: LogFormat,
    /// Which events are logged.
    pub filter: EnvFilter,
}

/// The started logging.
pub struct Logging(SetFilter);

type SetFilter = Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>;

impl Logging {
    /// Replaces the filter of events.
    pub fn filter(&self, filter: EnvFilter) {
        // Fails only once nothing is logged any more.
        let _ = (self.0)(filter);
    }
}

impl fmt::Debug for Logging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Logging")
    }
}

/// Logging was started before in this process.
#[derive(Debug, thiserror::Error)]
#[error("logging was started before in this process")]
pub struct AlreadyStarted;

impl LoggingOptions {
    /// Declares and reads the keys `format` and `filter`.
    pub fn read(s: &mut Section<'_>) -> Self {
        let formats = [("human", LogFormat::Human), ("json", LogFormat::Json)];
        Self {
            format: s.one_of(
                "format",
                "human",
                &formats,
                "Format of log lines: human-readable text, or one JSON object per line.",
            ),
            filter: s.parsed(
                "filter",
                "info",
                parse_filter,
                "Log level (error, warn, info, debug, trace or off), optionally per module: \
                 \"info,exchange_serve=debug\".",
            ),
        }
    }
}

/// Parses a filter such as `info` or `warn,runtime=debug`.
///
/// # Errors
/// The remedy, if the text is not a filter.
pub fn parse_filter(text: &str) -> Result<EnvFilter, String> {
    EnvFilter::builder()
        .parse(text)
        .map_err(|error| format!("{error}; write a level, for example \"info\""))
}

/// Starts logging to stderr for the whole process.
///
/// # Errors
/// If it was started before.
pub fn start(options: LoggingOptions) -> Result<Logging, AlreadyStarted> {
    let colours = stderr().is_terminal();
    let (subscriber, logging) = subscriber(options, stderr, colours);
    tracing::subscriber::set_global_default(subscriber).map_err(|_| AlreadyStarted)?;
    Ok(logging)
}

fn subscriber<W>(
    options: LoggingOptions,
    writer: W,
    colours: bool,
) -> (Box<dyn Subscriber + Send + Sync>, Logging)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt()
        .with_env_filter(options.filter)
        .with_writer(writer)
        .with_ansi(colours);
    match options.format {
        LogFormat::Human => {
            let lines = lines.with_filter_reloading();
            let handle = lines.reload_handle();
            let logging = Logging(Box::new(move |filter| handle.reload(filter)));
            (Box::new(lines.finish()), logging)
        }
        LogFormat::Json => {
            let lines = lines.with_ansi(false).json().flatten_event(true).with_filter_reloading();
            let handle = lines.reload_handle();
            let logging = Logging(Box::new(move |filter| handle.reload(filter)));
            (Box::new(lines.finish()), logging)
        }
    }
}

#[cfg(test)]
mod tests;
