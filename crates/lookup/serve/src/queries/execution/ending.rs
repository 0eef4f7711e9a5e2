//! The end of a run: answers become one, and say what is missing.

use std::collections::BTreeSet;
use std::sync::Arc;

use lookup_core::map::CallId;
use lookup_core::pipe;
use lookup_core::query::LookupQuery;
use lookup_core::records::{
    MergedRecords, RecordLimits, RecordSet, UnreadableRecords, merge, primary_fields,
};

use super::answers::StepAnswer;
use super::off_thread::off_thread;
use super::query_run::QueryRun;
use crate::maps::LoadedMaps;
use crate::queries::entry::{QueryProgress, QueryStatus};
use crate::queries::known::{KnownAnswer, WiderAnswer};
use crate::queries::rows::AnswerRows;

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
    /// The answer before the query's stages. None without an answer.
    pub known: Option<KnownAnswer>,
    /// Until when all who ask the same may get it, in milliseconds since 1970. None unless it is of the
    /// answer of an earlier query.
    pub shared_until: Option<u64>,
}

impl QueryEnd {
    fn with_rows(status: QueryStatus, rows: AnswerRows) -> Self {
        Self { status, rows, reason: None, known: None, shared_until: None }
    }

    /// Without an answer, and why.
    pub fn without_rows(status: QueryStatus, reason: String) -> Self {
        Self { reason: Some(reason), ..Self::with_rows(status, AnswerRows::default()) }
    }
}

/// Merges what was answered, and says what was not.
pub(super) async fn end(
    ended: RunEnd,
    maps: Arc<LoadedMaps>,
    run: &QueryRun,
    ids: Vec<CallId>,
    answers: Vec<StepAnswer>,
) -> QueryEnd {
    let failed: BTreeSet<_> = {
        let mut progress = run.entry.progress();
        finish_calls(&mut progress, run, &ids, ended);
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
    } else if answers.is_empty() && run.plan.answering().is_subset(&failed) {
        Some((QueryStatus::Failed, "no provider answered".to_owned()))
    } else {
        None
    };
    if let Some((status, reason)) = failure {
        return QueryEnd::without_rows(status, reason);
    }
    let (fetched, expires) = {
        let progress = run.entry.progress();
        let calls = progress.calls.iter();
        let fetched = calls.clone().filter_map(|call| call.fetched_unix_ms).min();
        (fetched, calls.filter_map(|call| call.expires_unix_ms).min())
    };
    match merged(maps, run, answers).await {
        Ok(MergedAnswer { records, names, rows }) => {
            let status = if is_complete { QueryStatus::Done } else { QueryStatus::Partial };
            let known = KnownAnswer {
                query: Arc::new(LookupQuery { pipe: Vec::new(), ..run.entry.query.clone() }),
                plan: Arc::new(run.plan.clone()),
                records,
                names,
                is_complete,
                fetched_unix_ms: fetched.unwrap_or(0),
                expires_unix_ms: expires.unwrap_or(0),
            };
            QueryEnd { known: Some(known), ..QueryEnd::with_rows(status, rows) }
        }
        Err(error) => QueryEnd::without_rows(QueryStatus::Failed, error.to_string()),
    }
}

/// The answer of a query from one that contains it.
pub(super) async fn narrowed(
    maps: Arc<LoadedMaps>,
    run: &QueryRun,
    wider: WiderAnswer,
) -> QueryEnd {
    let WiderAnswer { known, conditions } = wider;
    let query = run.entry.query.clone();
    let (count, expires_unix_ms) = (known.records.records.len(), known.expires_unix_ms);
    let rows = off_thread(count, move || {
        if conditions.is_empty() && query.pipe.is_empty() {
            return AnswerRows::of_records(&known.records, &known.names);
        }
        let mut records = (*known.records).clone();
        pipe::retain(&mut records, &maps.map, &conditions);
        AnswerRows::of_result(&pipe::run(records, &maps.map, &query.pipe), &known.names)
    });
    let shared_until = Some(expires_unix_ms);
    QueryEnd { shared_until, ..QueryEnd::with_rows(QueryStatus::Done, rows.await) }
}

/// Calls that have not ended have failed, and so have those that wait for values that calls which failed
/// would have found.
fn finish_calls(progress: &mut QueryProgress, run: &QueryRun, ids: &[CallId], ended: RunEnd) {
    let is_cut = ended != RunEnd::Complete;
    let lacking = progress.calls.iter().zip(ids).filter(|(call, _)| {
        let is_open = call.answered + call.failures() < call.begun;
        call.failures() > 0 || is_cut && is_open
    });
    let lacking: BTreeSet<_> = lacking.map(|(_, id)| *id).collect();
    for (call, id) in progress.calls.iter_mut().zip(ids) {
        if call.begun == 0 {
            // None was to be made, unless it could not be known.
            if !run.plan.feeders(*id).is_disjoint(&lacking) {
                (call.begun, call.errors) = (1, 1);
                call.reason = Some("the values that it needs were not found".into());
            }
            continue;
        }
        let open = call.begun - call.answered - call.failures();
        if open == 0 {
            continue;
        }
        call.timeouts += open;
        if ended == RunEnd::Late {
            call.ms = u64::try_from(run.timeout.as_millis()).unwrap_or(u64::MAX);
        }
        let reason = match ended {
            RunEnd::Cancelled => "it had not answered when the query was cancelled",
            _ => "it had not answered when the time of the query was over",
        };
        let with_failure = |failure| format!("{reason}; before that, {failure}").into();
        let known = call.attempt_failure.as_ref();
        call.reason.get_or_insert_with(|| known.map_or_else(|| reason.into(), with_failure));
    }
}

/// The records of all answers as one, and what the query's stages leave of them.
struct MergedAnswer {
    records: Arc<MergedRecords>,
    /// Names of the calls that answered, by source.
    names: Arc<[String]>,
    rows: AnswerRows,
}

async fn merged(
    maps: Arc<LoadedMaps>,
    run: &QueryRun,
    mut answers: Vec<StepAnswer>,
) -> Result<MergedAnswer, UnreadableRecords> {
    answers.sort_by(|one, other| (one.call, &one.place).cmp(&(other.call, &other.place)));
    let records: usize = answers.iter().map(|answer| answer.set.rows.len()).sum();
    let query = run.entry.query.clone();
    let merge = move || {
        let ids: BTreeSet<_> = answers.iter().map(|answer| answer.call).collect();
        let ids: Vec<_> = ids.into_iter().collect();
        let source = |id| ids.binary_search(&id).expect("it is of an answer");
        let names: Arc<[String]> = ids.iter().map(|id| maps.map.call_name(*id)).collect();
        let sets = answers.into_iter().map(|answer| {
            let source = u32::try_from(source(answer.call)).expect("calls are few");
            (source, Arc::unwrap_or_clone(answer.set))
        });
        let sets: Vec<(u32, RecordSet)> = sets.collect();
        let primary = primary_fields(&maps.map, &query.fields);
        let records = Arc::new(merge(sets, &primary, RecordLimits::default())?);
        let rows = if query.pipe.is_empty() {
            AnswerRows::of_records(&records, &names)
        } else {
            let result = pipe::run((*records).clone(), &maps.map, &query.pipe);
            AnswerRows::of_result(&result, &names)
        };
        Ok(MergedAnswer { records, names, rows })
    };
    off_thread(records, merge).await
}
