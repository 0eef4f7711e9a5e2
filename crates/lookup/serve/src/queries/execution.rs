//! The run of one query: its plan, call by call, and what becomes of the records.

mod answers;
mod ending;
mod query_run;
mod steps;

use std::rc::Rc;
use std::sync::Arc;

use tokio::time::sleep_until;

use super::entry::QueryStatus;
use crate::calls::ProviderCalls;
use crate::maps::LoadedMaps;
use ending::{RunEnd, end};
use steps::StepRunner;

pub(crate) use ending::QueryEnd;
pub(crate) use query_run::QueryRun;

/// Runs a query to its end.
pub(crate) async fn run(
    calls: Rc<ProviderCalls>,
    maps: Arc<LoadedMaps>,
    run: QueryRun,
) -> QueryEnd {
    let clock = calls.clock();
    let deadline = clock.now().after(run.timeout);
    let runner = StepRunner::new(calls, &maps, &run, deadline);
    run.entry.change(|progress| {
        progress.status = QueryStatus::Running;
        progress.calls = runner.calls_at_first();
    });
    let ended = tokio::select! {
        () = runner.run(&run.plan.step) => RunEnd::Complete,
        () = sleep_until(clock.instant(deadline)) => RunEnd::Late,
        () = run.entry.cancelled.notified() => RunEnd::Cancelled,
    };
    let (names, answers) = runner.into_answers();
    end(ended, maps, &run, names, answers).await
}
