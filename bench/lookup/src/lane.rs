//! Calls of many users through one lane, 32 at a time.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use lookup_core::schedule::{
    AttemptOutcome, CallClass, CallNumber, LookupUser, ProviderLane, ProviderLaneOptions,
    QueuedCall, StartedCall,
};
use serde_json::json;
use units::Tick;

use crate::Say;

/// Calls that run at a time, and that wait.
const RUNNING: u32 = 32;
const WAITING: u64 = 1_000;

/// Of the command.
#[derive(Args)]
pub(crate) struct Options {
    /// Calls.
    #[arg(long, default_value_t = 1_000_000)]
    calls: u64,
}

/// Measures, and says how many calls pass per second.
pub(crate) fn run(options: &Options, say: Say<'_>) -> Result<()> {
    let mut lane = ProviderLane::new(ProviderLaneOptions {
        concurrency_max: Some(RUNNING),
        rate_max: None,
        waiting_max: 2 * usize::try_from(WAITING)?,
        seed: 1,
    });
    let began = Instant::now();
    let now = || Tick::ZERO.after(began.elapsed());
    let submit = |lane: &mut ProviderLane, number: u64| {
        let call = QueuedCall {
            number: CallNumber(number),
            class: CallClass::ALL[usize::from(number.is_multiple_of(10)) + 1],
            user: LookupUser(number % 50),
            deadline: Tick::from_nanos(u64::MAX),
            is_idempotent: true,
        };
        if let Err(refusal) = lane.submit(call, now()) {
            bail!("there is room: {refusal:?}");
        }
        Ok(())
    };
    let mut submitted = WAITING.min(options.calls);
    for number in 0..submitted {
        submit(&mut lane, number)?;
    }
    let (mut running, mut ended) = (VecDeque::new(), 0);
    while ended < options.calls {
        while let Some(StartedCall::Start(permit)) = lane.next(now()) {
            running.push_back(permit);
        }
        let Some(permit) = running.pop_front() else { bail!("a call runs") };
        lane.end(permit, AttemptOutcome::Answered, now());
        ended += 1;
        if submitted < options.calls {
            submit(&mut lane, submitted)?;
            submitted += 1;
        }
    }
    let per_second = options.calls as f64 / began.elapsed().as_secs_f64();
    say(&json!({ "kind": "lane", "calls": options.calls, "calls_per_second": per_second }))
}
