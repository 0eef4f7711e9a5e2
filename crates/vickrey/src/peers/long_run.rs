//! What commands that run for a while have in common: durations as flags, progress, and an end by
//! a signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use runtime::control::Control;
use runtime::shutdown::Shutdown;

/// A generating thread busier than this is the bottleneck.
pub(crate) const BUSY_PPM: u64 = 800_000;

/// Reads `250us`, `5ms`, `2s`, `1m`, `24h`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 =
        text[..digits].parse().map_err(|_| "expected a number, for example 10s".to_owned())?;
    match &text[digits..] {
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        "h" => Ok(Duration::from_secs(number.saturating_mul(3600))),
        "" => Err("needs a unit, for example 10s; us, ms, s, m and h are known".to_owned()),
        unit => Err(format!("unknown unit `{unit}`; us, ms, s, m and h are known")),
    }
}

/// Sets `stop` at the first SIGINT or SIGTERM, as long as the returned value lives.
pub(crate) fn stop_on_signal(stop: Arc<AtomicBool>) -> anyhow::Result<Control> {
    let (control, shutdown) = (Control::start()?, Shutdown::new(Duration::ZERO));
    shutdown.on_signals(&control)?;
    control.spawn(move || async move {
        shutdown.started().await;
        stop.store(true, Ordering::Relaxed);
    });
    Ok(control)
}

/// The first SIGINT or SIGTERM from when it is made.
pub(crate) struct StopSignal {
    shutdown: Shutdown,
    _control: Control,
}

impl StopSignal {
    pub(crate) fn catch() -> anyhow::Result<Self> {
        let (shutdown, control) = (Shutdown::new(Duration::ZERO), Control::start()?);
        shutdown.on_signals(&control)?;
        Ok(Self { shutdown, _control: control })
    }

    pub(crate) fn wait(&self) {
        while !self.shutdown.is_started() {
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
}

/// Progress on stderr if that is a terminal, cleared at the end.
pub(crate) fn progress_bar(total: Option<u64>, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr())
        .with_style(style)
        .with_finish(ProgressFinish::AndClear)
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_carry_units() {
        for (text, want) in [
            ("250us", Some(Duration::from_micros(250))),
            ("5ms", Some(Duration::from_millis(5))),
            ("10s", Some(Duration::from_secs(10))),
            ("2m", Some(Duration::from_secs(120))),
            ("10", None),
            ("24h", Some(Duration::from_secs(86_400))),
            ("10d", None),
            ("ms", None),
            ("-1s", None),
        ] {
            assert_eq!(parse_duration(text).ok(), want, "{text}");
        }
    }
}
