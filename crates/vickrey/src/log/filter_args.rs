//! Which auctions a command is about.

use std::time::{SystemTime, UNIX_EPOCH};

use audit::Filter;
use clap::Args;

use crate::command::exit::CommandFailure;

/// The selection of auctions.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Select auctions, for example 'time>=-15m seat=acme outcome=won' [default: all]
    #[arg(value_name = "FILTER", allow_hyphen_values = false)]
    filter: Vec<String>,
}

impl FilterArgs {
    pub(crate) const fn is_all(&self) -> bool {
        self.filter.is_empty()
    }

    pub(crate) fn filter(&self) -> anyhow::Result<Filter> {
        Filter::parse(&self.filter.join(" "), now_us())
            .map_err(|error| CommandFailure::usage(format!("the filter is wrong: {error}")))
    }

    /// The filter. Refuses times relative to now, which would change its meaning.
    pub(super) fn lasting_filter(&self) -> anyhow::Result<Filter> {
        const HOUR_US: u64 = 3_600_000_000;
        let filter = self.filter()?;
        if Filter::parse(filter.text(), now_us() + HOUR_US).ok() != Some(filter.clone()) {
            return Err(CommandFailure::usage(
                "this goes on by the same filter later, so its times must not count from now: \
                 give them in full, as time>=2026-11-22T08:00",
            ));
        }
        Ok(filter)
    }
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
