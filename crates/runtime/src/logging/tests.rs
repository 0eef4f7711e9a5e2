//! Line formats and filters.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use super::*;
use crate::config::parse;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The output of three events with these options.
fn logged(config: &str, colours: bool) -> String {
    logged_after(config, colours, |_| ())
}

/// The same after `change` to the running logging.
fn logged_after(config: &str, colours: bool, change: impl FnOnce(&Logging)) -> String {
    let lines = Lines::default();
    let written = lines.clone();
    let options = parse("log.toml", config, LoggingOptions::read).unwrap();
    let (subscriber, logging) = subscriber(options, move || lines.clone(), colours);
    tracing::subscriber::with_default(subscriber, || {
        change(&logging);
        tracing::warn!(seat = "a", "seat left");
        tracing::info!("started");
        tracing::debug!("detail");
    });
    let bytes = written.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn formats_and_filters() {
    let human = logged("", false);
    assert_eq!(human.lines().count(), 2, "{human}");
    assert!(human.contains("WARN runtime::logging::tests: seat left seat=\"a\""), "{human}");
    assert!(!human.contains('\u{1b}'), "no colours: {human}");
    assert!(logged("", true).contains('\u{1b}'));

    let json = logged("format = 'json'\nfilter = 'warn,runtime=debug'", true);
    let events: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 3);
    assert_eq!(events[0]["level"], "WARN");
    assert_eq!(events[0]["message"], "seat left");
    assert_eq!(events[0]["seat"], "a");
    assert_eq!(logged("filter = 'off'", false), "");
}

#[test]
fn the_filter_changes_while_logging_is_under_way() {
    for format in ["human", "json"] {
        let config = format!("format = '{format}'\nfilter = 'info'");
        let logged = |filter| {
            let filter = parse_filter(filter).unwrap();
            logged_after(&config, false, |logging| logging.filter(filter)).lines().count()
        };
        assert_eq!((logged("off"), logged("warn"), logged("debug")), (0, 1, 3), "{format}");
    }
}

#[test]
fn bad_options_are_refused() {
    let problems = parse("log.toml", "format = 'jsn'\nfilter = 'info,=,'", LoggingOptions::read);
    let text = problems.unwrap_err().to_string();
    assert!(text.contains("format = 'jsn': is unknown, did you mean \"json\"?"), "{text}");
    assert!(text.contains("write a level, for example \"info\""), "{text}");
}
