//! The steps of a plan, done.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use lookup_core::map::{CallId, ProviderMap};
use lookup_core::pipe::retain_rows;
use lookup_core::plan::{PlanStep, PlannedFetch};
use lookup_core::query::QueryCondition;
use lookup_core::records::{RecordLimits, RecordSet, UnreadableRecords, primary_fields};
use lookup_core::schedule::CallClass;
use lookup_core::target::{CallValues, listed_values, target};
use runtime::process::unix_ms;
use tokio::task::coop::consume_budget;
use units::Tick;

use super::answers::StepAnswer;
use super::off_thread::off_thread;
use super::query_run::QueryRun;
use crate::calls::ProviderCalls;
use crate::calls::answers::{
    AnswerSource, CallKey, FailureKind, ProviderCallAnswer, ProviderCallFailure,
};
use crate::calls::gate::LaneCaller;
use crate::maps::LoadedMaps;
use crate::queries::entry::ProviderCallProgress;

/// How many values of a key are being looked up at a time. The lanes decide which calls run; this many
/// wait there.
const WINDOW: usize = 64;

type FoundAnswers = RefCell<Vec<StepAnswer>>;

/// What a step begins with.
#[derive(Clone, Default)]
struct StepInput {
    /// Values of keys that it is repeated for.
    bound: Rc<HashMap<String, Vec<String>>>,
    /// What the step before it found.
    found: Rc<Vec<StepAnswer>>,
    place: Vec<u32>,
}

impl StepInput {
    fn at(&self, index: usize) -> Self {
        let mut input = self.clone();
        input.place.push(u32::try_from(index).unwrap_or(u32::MAX));
        input
    }

    fn bind(&self, key: &str, values: &[String], index: usize) -> Self {
        let mut bound = (*self.bound).clone();
        bound.insert(key.to_owned(), values.to_vec());
        Self { bound: Rc::new(bound), ..self.at(index) }
    }
}

pub(super) struct StepRunner<'r> {
    calls: Rc<ProviderCalls>,
    maps: &'r Arc<LoadedMaps>,
    run: &'r QueryRun,
    deadline: Tick,
    class: Cell<CallClass>,
    /// Calls so far.
    made: Cell<u64>,
    /// Records and values of all answers so far.
    records: Cell<usize>,
    values: Cell<usize>,
    /// When each call of the plan was first made.
    first: RefCell<Vec<Option<Instant>>>,
    /// The calls of the plan, in the order of the map.
    ids: Vec<CallId>,
    /// What answers the query.
    answers: FoundAnswers,
}

impl<'r> StepRunner<'r> {
    pub fn new(
        calls: Rc<ProviderCalls>,
        maps: &'r Arc<LoadedMaps>,
        run: &'r QueryRun,
        deadline: Tick,
    ) -> Self {
        let ids: Vec<_> = run.plan.calls().into_iter().collect();
        Self {
            calls,
            maps,
            run,
            deadline,
            class: Cell::new(run.class),
            made: Cell::new(0),
            records: Cell::new(0),
            values: Cell::new(0),
            first: RefCell::new(vec![None; run.plan.calls().len()]),
            ids,
            answers: RefCell::default(),
        }
    }

    fn map(&self) -> &'r ProviderMap {
        &self.maps.map
    }

    /// The calls, before any is made.
    pub fn calls_at_first(&self) -> Vec<ProviderCallProgress> {
        let instance = self.run.entry.query.instance.as_deref();
        let ids = self.ids.iter();
        ids.map(|id| ProviderCallProgress::new(self.map(), *id, instance)).collect()
    }

    /// Does a step, whose records answer the query.
    pub async fn run(&self, step: &PlanStep) {
        self.step(step, StepInput::default(), &self.answers).await;
    }

    /// The calls of the plan, and the answers so far.
    pub fn into_answers(self) -> (Vec<CallId>, Vec<StepAnswer>) {
        (self.ids, self.answers.into_inner())
    }

    fn step<'s>(
        &'s self,
        step: &'s PlanStep,
        input: StepInput,
        answers: &'s FoundAnswers,
    ) -> Pin<Box<dyn Future<Output = ()> + 's>> {
        Box::pin(async move {
            match step {
                PlanStep::Fetch(fetch) => self.fetch(fetch, input, answers).await,
                PlanStep::Parallel(steps) => {
                    let steps = steps.iter().enumerate();
                    join_all(steps.map(|(at, step)| self.step(step, input.at(at), answers))).await;
                }
                PlanStep::Sequence(steps) => self.sequence(steps, input, answers).await,
                PlanStep::ForEach { key, chunk, listed, step } => {
                    let values = match listed {
                        Some(_) => self.listed(key),
                        None => self.found(key, &input.found),
                    };
                    let chunks = values.chunks((*chunk).max(1)).enumerate();
                    let turns =
                        stream::iter(chunks.map(|(at, values)| input.bind(key, values, at)));
                    turns
                        .for_each_concurrent(WINDOW, |input| self.step(step, input, answers))
                        .await;
                }
            }
        })
    }

    async fn sequence(&self, steps: &[PlanStep], mut input: StepInput, answers: &FoundAnswers) {
        let Some((last, before)) = steps.split_last() else { return };
        for step in before {
            let found = FoundAnswers::default();
            self.step(step, input.clone(), &found).await;
            input.found = Rc::new(found.into_inner());
        }
        self.step(last, input, answers).await;
    }

    /// The values of a key that the query lists.
    fn listed(&self, key: &str) -> Vec<String> {
        let condition =
            self.run.entry.query.conditions.iter().find(|condition| condition.key == key);
        condition.map_or_else(Vec::new, listed_values)
    }

    /// The values of a key in what was found, each once.
    fn found(&self, key: &str, found: &[StepAnswer]) -> Vec<String> {
        let fields = primary_fields(self.map(), &[key.to_owned()]);
        let Some(field) = fields.first() else { return Vec::new() };
        let mut known = HashSet::new();
        let values = found.iter().flat_map(|answer| answer.set.texts(field));
        values.filter(|value| known.insert(value.clone())).collect()
    }

    /// Makes a call, page by page.
    async fn fetch(&self, fetch: &PlannedFetch, input: StepInput, answers: &FoundAnswers) {
        let pages = self.map().call(fetch.call).pages.as_ref();
        let mut page = 0;
        loop {
            let records = self.fetch_page(fetch, page, input.at(page), answers).await;
            let size = pages.map_or(usize::MAX, |pages| pages.size);
            page += 1;
            if records.is_none_or(|records| records < size) {
                return;
            }
            if let Some(pages) = pages.filter(|pages| pages.pages_max <= page) {
                let reason = format!("it has more than {} pages", pages.pages_max);
                let failure = ProviderCallFailure::new(FailureKind::Error, reason, 0);
                return self.failed(self.begin(fetch.call), &failure);
            }
        }
    }

    /// A call is about to be made. Returns its place among those of the plan.
    fn begin(&self, id: CallId) -> usize {
        let at = self.ids.binary_search(&id).expect("the plan has the call");
        self.run.entry.change(|progress| progress.calls[at].begun += 1);
        self.first.borrow_mut()[at].get_or_insert_with(Instant::now);
        at
    }

    /// One page of a call, or all that it gives. Returns how many records it has; None if it failed.
    async fn fetch_page(
        &self,
        fetch: &PlannedFetch,
        page: usize,
        input: StepInput,
        answers: &FoundAnswers,
    ) -> Option<usize> {
        let PlannedFetch { call: id, instance, takes, filters } = fetch;
        let at = self.begin(*id);
        let made = self.made.get() + 1;
        self.made.set(made);
        // Providers may give more values than was to be expected.
        if self.run.limits.background_calls_max < made {
            let reason = "the query has made as many calls as it may";
            self.failed(at, &ProviderCallFailure::new(FailureKind::Shed, reason, 0));
            // There may be very many of them.
            consume_budget().await;
            return None;
        }
        if self.run.limits.calls_max < made {
            self.class.set(CallClass::Background);
        }
        let conditions = &self.run.entry.query.conditions;
        let now = i64::try_from(unix_ms() / 1_000).unwrap_or(i64::MAX);
        let values = CallValues { conditions, takes, bound: &input.bound, now, page };
        let called = match target(self.map().call(*id), values) {
            Ok(target) => {
                let key = CallKey { call: *id, instance: *instance, target };
                let (class, user) = (self.class.get(), self.run.user);
                let caller = LaneCaller { class, user, deadline: self.deadline };
                self.calls.call(key, caller, |reason| self.attempt_failed(at, reason)).await
            }
            Err(error) => Err(ProviderCallFailure::new(FailureKind::Error, error.to_string(), 0)),
        };
        let answer = match called {
            Ok(answer) => answer,
            Err(failure) => {
                self.failed(at, &failure);
                return None;
            }
        };
        let set = self.filtered(&answer.records.set, filters).await;
        match self.take(&set) {
            Ok(()) => {
                self.answered(at, &answer, set.rows.len());
                answers.borrow_mut().push(StepAnswer { call: *id, place: input.place, set });
                Some(answer.records.set.rows.len())
            }
            // What the others say still fits.
            Err(error) => {
                let (reason, attempts) = (error.to_string(), answer.attempts);
                self.failed(at, &ProviderCallFailure::new(FailureKind::Error, reason, attempts));
                None
            }
        }
    }

    /// Counts the records of an answer, unless all answers together would have too many.
    fn take(&self, set: &RecordSet) -> Result<(), UnreadableRecords> {
        let limits = RecordLimits::default();
        let records = self.records.get() + set.rows.len();
        if limits.records_max < records {
            return Err(UnreadableRecords::TooManyRecords(limits.records_max));
        }
        let values = self.values.get() + set.rows.iter().map(|row| row.len()).sum::<usize>();
        if limits.values_max < values {
            return Err(UnreadableRecords::TooManyValues(limits.values_max));
        }
        self.records.set(records);
        self.values.set(values);
        Ok(())
    }

    /// The records that satisfy the conditions on these keys.
    async fn filtered(&self, set: &Arc<RecordSet>, keys: &[String]) -> Arc<RecordSet> {
        if keys.is_empty() {
            return Arc::clone(set);
        }
        let conditions = self.run.entry.query.conditions.iter();
        let conditions: Vec<QueryCondition> =
            conditions.filter(|condition| keys.contains(&condition.key)).cloned().collect();
        let (set, maps) = (Arc::clone(set), Arc::clone(self.maps));
        off_thread(set.rows.len(), move || {
            let mut set = (*set).clone();
            retain_rows(&mut set, &maps.map, &conditions);
            Arc::new(set)
        })
        .await
    }

    fn answered(&self, at: usize, answer: &ProviderCallAnswer, rows: usize) {
        self.run.entry.change(|progress| {
            let call = &mut progress.calls[at];
            call.answered += 1;
            call.cached += u64::from(answer.source != AnswerSource::Provider);
            call.stale += u64::from(answer.source == AnswerSource::Stale);
            call.rows += rows as u64;
            call.attempts += u64::from(answer.attempts);
            call.ms = self.millis_since(at);
            let earliest =
                |known: Option<u64>, at: u64| Some(known.map_or(at, |known| known.min(at)));
            let records = &answer.records;
            call.fetched_unix_ms = earliest(call.fetched_unix_ms, records.fetched_unix_ms);
            call.expires_unix_ms = earliest(call.expires_unix_ms, records.expires_unix_ms);
        });
    }

    /// Since a call was first made.
    fn millis_since(&self, at: usize) -> u64 {
        let since = self.first.borrow()[at].map_or(Duration::ZERO, |first| first.elapsed());
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn attempt_failed(&self, at: usize, reason: &Arc<str>) {
        self.run.entry.change(|progress| {
            progress.calls[at].attempt_failure = Some(Arc::clone(reason));
        });
    }

    fn failed(&self, at: usize, failure: &ProviderCallFailure) {
        self.run.entry.change(|progress| {
            let call = &mut progress.calls[at];
            match failure.kind {
                FailureKind::Timeout => call.timeouts += 1,
                FailureKind::Shed => call.shed += 1,
                FailureKind::Error => call.errors += 1,
            }
            call.attempts += u64::from(failure.attempts);
            call.ms = self.millis_since(at);
            call.reason.get_or_insert_with(|| Arc::clone(&failure.reason));
        });
    }
}
