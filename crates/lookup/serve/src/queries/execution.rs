//! The run of one query: its plan, call by call, and what becomes of the records.

mod answers;
mod ending;
mod off_thread;
mod query_run;
mod steps;

use std::rc::Rc;
use std::sync::Arc;

use lookup_core::map::{CallId, ProviderMap};
use lookup_core::records::MergedRecord;
use runtime::process::unix_ms;
use tokio::time::sleep_until;

use super::entry::{ProviderCallProgress, QueryStatus};
use super::known::{KnownAnswer, KnownAnswers};
use crate::calls::ProviderCalls;
use crate::maps::LoadedMaps;
use ending::{RunEnd, end, narrowed};
use steps::StepRunner;

pub(crate) use ending::QueryEnd;
pub(crate) use query_run::QueryRun;

/// Runs a query to its end.
pub(crate) async fn run(
    calls: Rc<ProviderCalls>,
    maps: Arc<LoadedMaps>,
    answers: &KnownAnswers,
    run: QueryRun,
) -> QueryEnd {
    if let Some(wider) = answers.find(&run.entry.query, &run.plan, unix_ms()) {
        run.entry.change(|progress| {
            progress.calls = reused_calls(&maps.map, &wider.known);
            let text = wider.known.query.to_string();
            progress.reuses = (!wider.conditions.is_empty()).then_some(text);
        });
        return narrowed(maps, &run, wider).await;
    }
    let mut ended = fetch(calls, maps, &run).await;
    // A partial one would hide from others what is missing.
    if let Some(known) = ended.known.take().filter(|known| known.is_complete) {
        answers.keep(known);
    }
    ended
}

/// Runs a query to its end, whatever is known already.
pub(crate) async fn fetch(
    calls: Rc<ProviderCalls>,
    maps: Arc<LoadedMaps>,
    run: &QueryRun,
) -> QueryEnd {
    let clock = calls.clock();
    let deadline = clock.now().after(run.timeout);
    let runner = StepRunner::new(calls, &maps, run, deadline);
    run.entry.change(|progress| {
        progress.status = QueryStatus::Running;
        progress.calls = runner.calls_at_first();
    });
    let ended = tokio::select! {
        () = runner.run(&run.plan.step) => RunEnd::Complete,
        () = sleep_until(clock.instant(deadline)) => RunEnd::Late,
        () = run.entry.cancelled.notified() => RunEnd::Cancelled,
    };
    let (names, sets) = runner.into_answers();
    end(ended, maps, run, names, sets).await
}

/// The calls of an answer that was there.
fn reused_calls(map: &ProviderMap, known: &KnownAnswer) -> Vec<ProviderCallProgress> {
    let mut rows = vec![0; known.names.len()];
    let records = known.records.records.iter();
    for source in records.flat_map(|record: &MergedRecord| &*record.sources) {
        rows[*source as usize] += 1;
    }
    let progress = |id: CallId| {
        let name = map.call_name(id);
        let source = known.names.iter().position(|of| *of == name);
        let rows = source.map_or(0, |source| rows[source]);
        ProviderCallProgress {
            begun: 1,
            answered: 1,
            cached: 1,
            rows,
            fetched_unix_ms: Some(known.fetched_unix_ms),
            expires_unix_ms: Some(known.expires_unix_ms),
            ..ProviderCallProgress::new(map, id, known.query.instance.as_deref())
        }
    };
    known.plan.answering().into_iter().map(progress).collect()
}
