//! The end of a run: answers become one, and say what is missing.

use std::collections::BTreeSet;
use std::sync::Arc;

use lookup_core::map::CallId;
use lookup_core::pipe::{self, PipeResult};
use lookup_core::query::LookupQuery;
use lookup_core::records::{RecordLimits, RecordSet, UnreadableRecords, merge, primary_fields};

use super::answers::StepAnswer;
use super::query_run::QueryRun;
use crate::maps::LoadedMaps;
use crate::queries::entry::{QueryProgress, QueryStatus};
use crate::queries::rows::AnswerRows;

/// More records are merged on another thread, so that other queries go on.
const MERGED_INLINE_MAX: usize = 1_000;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunEnd {
    Complete,
    /// Its time was over.
    Late,
    Cancelled,
}

/// How a query ended.
pub(crate) struct QueryEnd {
    pub status: QueryStatus,
    pub rows: AnswerRows,
    /// Why it has none.
    pub reason: Option<String>,
}

/// Merges what was answered, and says what was not.
pub(super) async fn end(
    ended: RunEnd,
    maps: Arc<LoadedMaps>,
    run: &QueryRun,
    ids: Vec<CallId>,
    answers: Vec<StepAnswer>,
) -> QueryEnd {
    let has_answers = !answers.is_empty();
    let failed: Vec<_> = {
        let mut progress = run.entry.progress();
        finish_calls(&mut progress, ended);
        let calls = ids.iter().zip(&progress.calls);
        calls.filter(|(_, call)| call.failures() > 0).map(|(id, _)| *id).collect()
    };
    let is_required = |id: &&CallId| maps.map.providers[id.provider].is_required;
    let is_complete = failed.is_empty();
    let failure = if ended == RunEnd::Cancelled {
        Some((QueryStatus::Cancelled, "it was cancelled".to_owned()))
    } else if let Some(id) = failed.iter().find(is_required) {
        let reason = format!("it needs {}, which failed", maps.map.call_name(*id));
        Some((QueryStatus::Failed, reason))
    } else if !is_complete && !has_answers {
        Some((QueryStatus::Failed, "no provider answered".to_owned()))
    } else {
        None
    };
    let merged = match failure {
        Some(failure) => Err(failure),
        None => {
            let rows = merged(Arc::clone(&maps), &run.query, answers).await;
            rows.map_err(|error| (QueryStatus::Failed, error.to_string()))
        }
    };
    match merged {
        Ok(rows) => {
            let status = if is_complete { QueryStatus::Done } else { QueryStatus::Partial };
            QueryEnd { status, rows, reason: None }
        }
        Err((status, reason)) => {
            QueryEnd { status, rows: AnswerRows::default(), reason: Some(reason) }
        }
    }
}

/// Calls that have not ended have failed, and so have those that wait for what others did not find.
fn finish_calls(progress: &mut QueryProgress, ended: RunEnd) {
    let is_any_failed = progress.calls.iter().any(|call| call.failures() > 0);
    for call in &mut progress.calls {
        let open = call.begun - call.answered - call.failures();
        match ended {
            RunEnd::Complete if call.begun == 0 && is_any_failed => {
                (call.begun, call.errors) = (1, 1);
                call.reason = Some("the values that it needs were not found".into());
            }
            RunEnd::Complete => (),
            RunEnd::Late | RunEnd::Cancelled => {
                let missing = if call.begun == 0 { 1 } else { open };
                call.begun = call.begun.max(missing);
                call.timeouts += missing;
                if missing > 0 && call.reason.is_none() {
                    let late = "it had not answered when the time of the query was over";
                    let cancelled = "it had not answered when the query was cancelled";
                    let reason = if ended == RunEnd::Late { late } else { cancelled };
                    call.reason = Some(match &call.attempt_failure {
                        Some(failure) => format!("{reason}; before that, {failure}").into(),
                        None => reason.into(),
                    });
                }
            }
        }
    }
}

/// The records of all answers as one, behind the query's stages.
async fn merged(
    maps: Arc<LoadedMaps>,
    query: &LookupQuery,
    mut answers: Vec<StepAnswer>,
) -> Result<AnswerRows, UnreadableRecords> {
    answers.sort_by(|one, other| (one.call, &one.place).cmp(&(other.call, &other.place)));
    let records: usize = answers.iter().map(|answer| answer.set.rows.len()).sum();
    let query = query.clone();
    let merge = move || {
        let ids: BTreeSet<_> = answers.iter().map(|answer| answer.call).collect();
        let ids: Vec<_> = ids.into_iter().collect();
        let source = |id| ids.binary_search(&id).expect("it is of an answer");
        let names: Vec<_> = ids.iter().map(|id| maps.map.call_name(*id)).collect();
        let sets = answers.into_iter().map(|answer| {
            let source = u32::try_from(source(answer.call)).expect("calls are few");
            (source, Arc::unwrap_or_clone(answer.set))
        });
        let sets: Vec<(u32, RecordSet)> = sets.collect();
        let primary = primary_fields(&maps.map, &query.fields);
        let merged = merge(sets, &primary, RecordLimits::default())?;
        let result: PipeResult = pipe::run(merged, &maps.map, &query.pipe);
        Ok(AnswerRows::new(&result, &names))
    };
    if records <= MERGED_INLINE_MAX {
        return merge();
    }
    tokio::task::spawn_blocking(merge).await.expect("merging does not panic")
}
