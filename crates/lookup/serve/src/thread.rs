//! The look-up thread: all queries of the process run on it, so that lanes and caches need no locks and
//! no auction waits for a merge.

use std::io;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use lookup_core::query::Vocabulary;
use lookup_core::schedule::LaneStatus;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::error;

use crate::calls::ProviderCalls;
use crate::calls::disk::DiskAnswers;
use crate::config::LookupConfig;
use crate::counters::LookupCounts;
use crate::maps::LoadedMaps;
use crate::memory::refresh::MemoryFetcher;
use crate::memory::{LookupMemories, RuleQueue};
use crate::queries::entry::QueryStatus;
use crate::queries::execution::{QueryEnd, QueryRun, run};
use crate::queries::forecast::{ForecastQuestion, forecast};
use crate::queries::known::KnownAnswers;
use crate::queries::rows::AnswerRows;
use crate::queries::table::QueryTable;

/// Between looks for answers that nobody asks for any more.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Threads that read and merge large answers.
const READERS: usize = 4;

/// A lane of an instance of a provider, by their indexes, and what it does.
pub(crate) type LookupLaneReport = (usize, usize, LaneStatus);

/// What the thread and the shards share.
pub(crate) struct LookupShared {
    pub maps: Arc<LoadedMaps>,
    pub vocabulary: Vocabulary,
    pub table: QueryTable,
    pub counts: Arc<LookupCounts>,
    pub disk: Option<Arc<DiskAnswers>>,
    pub memories: LookupMemories,
    /// Queries that shards answered with the answer of an earlier one.
    pub shared: AtomicU64,
    /// As of the last sweep.
    pub lanes: Mutex<Vec<LookupLaneReport>>,
}

/// What shards ask of the thread.
pub(crate) enum LookupTask {
    Run(QueryRun),
    Forecast(ForecastQuestion),
}

pub(crate) struct LookupThread {
    tasks: Mutex<Option<UnboundedSender<LookupTask>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LookupThread {
    pub fn start(
        shared: Arc<LookupShared>,
        rules: UnboundedReceiver<RuleQueue>,
        config: &LookupConfig,
    ) -> io::Result<Self> {
        let (limits, queries) = (config.calls, config.queries);
        let (sender, receiver) = unbounded_channel();
        let runtime = || {
            Builder::new_current_thread()
                .enable_all()
                .thread_name("lookup-reader")
                .max_blocking_threads(READERS)
                .build_local(LocalOptions::default())
        };
        let (ready, started) = std::sync::mpsc::channel();
        let thread = thread::Builder::new().name("lookup".to_owned()).spawn(move || {
            match runtime() {
                Ok(runtime) => {
                    drop(ready.send(Ok(())));
                    runtime.block_on(async move {
                        let (maps, counts) = (Arc::clone(&shared.maps), Arc::clone(&shared.counts));
                        let disk = shared.disk.clone();
                        let parts = (Arc::clone(&maps), Arc::clone(&counts));
                        let calls = ProviderCalls::new(parts.0, limits, disk, parts.1);
                        let fetcher = MemoryFetcher {
                            calls: Rc::clone(&calls),
                            maps,
                            limits: queries,
                            counts,
                        };
                        tokio::task::spawn_local(Rc::new(fetcher).run(rules));
                        let answers = Rc::new(KnownAnswers::new(limits.merged_bytes));
                        serve(shared, calls, answers, receiver).await;
                    });
                    // An answer that is still being read is nobody's any more.
                    runtime.shutdown_background();
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        })?;
        started.recv().unwrap_or_else(|_| Err(io::Error::other("the look-up thread died")))?;
        Ok(Self { tasks: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) })
    }

    /// Where tasks are sent. None once it is closed.
    pub fn tasks(&self) -> Option<UnboundedSender<LookupTask>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn is_running(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends the thread; no shard runs any more.
    pub fn close(&self) {
        drop(self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            error!("the look-up thread had panicked");
        }
    }
}

/// Runs queries until nobody can send more.
async fn serve(
    shared: Arc<LookupShared>,
    calls: Rc<ProviderCalls>,
    answers: Rc<KnownAnswers>,
    mut tasks: UnboundedReceiver<LookupTask>,
) {
    let mut sweep = tokio::time::interval(SWEEP_EVERY);
    loop {
        tokio::select! {
            task = tasks.recv() => match task {
                Some(LookupTask::Run(query)) => {
                    let (calls, answers) = (Rc::clone(&calls), Rc::clone(&answers));
                    tokio::task::spawn_local(run_one(calls, answers, Arc::clone(&shared), query));
                }
                Some(LookupTask::Forecast(question)) => {
                    let forecast = forecast(&calls, &shared.maps, &answers, &question);
                    // Who asked may have gone.
                    drop(question.answer.send(forecast));
                }
                None => return,
            },
            _ = sweep.tick() => {
                shared.table.sweep(Instant::now());
                let lanes = calls.lanes().collect();
                *shared.lanes.lock().unwrap_or_else(PoisonError::into_inner) = lanes;
            }
        }
    }
}

async fn run_one(
    calls: Rc<ProviderCalls>,
    answers: Rc<KnownAnswers>,
    shared: Arc<LookupShared>,
    query: QueryRun,
) {
    let counts = &shared.counts;
    counts.queries.increment();
    let entry = Arc::clone(&query.entry);
    let most = query.limits.answers_bytes;
    let running = run(calls, Arc::clone(&shared.maps), &answers, query);
    // What a defect leaves behind belongs to this query, except for values that are whole.
    let ended = AssertUnwindSafe(running).catch_unwind().await.unwrap_or_else(|_| {
        error!(query = %entry.id, "a query panicked: it has no answer");
        QueryEnd::without_rows(QueryStatus::Failed, "a defect of this process".to_owned())
    });
    let QueryEnd { mut status, mut rows, mut reason, mut shared_until, .. } = ended;
    if most < entry.bytes(&rows) {
        // Otherwise it would take the place of all others, and have none itself.
        let records = rows.len();
        reason = Some(format!(
            "its {records} records are more than `lookup.answers` has room for: add conditions or stages"
        ));
        (status, rows, shared_until) = (QueryStatus::Failed, AnswerRows::default(), None);
    }
    counts.reused.add(u64::from(shared_until.is_some()));
    match status {
        QueryStatus::Done => counts.done.increment(),
        QueryStatus::Partial => counts.partial.increment(),
        QueryStatus::Cancelled => counts.cancelled.increment(),
        QueryStatus::Failed | QueryStatus::Queued | QueryStatus::Running => {
            counts.failed.increment();
        }
    }
    counts.records.add(rows.len() as u64);
    // Who learns that it has ended may begin another, or ask the same.
    shared.table.end(entry.id, entry.bytes(&rows));
    if let Some(until) = shared_until {
        shared.table.share(&entry, until);
    }
    entry.change(|progress| {
        (progress.status, progress.reason, progress.rows) = (status, reason, Arc::new(rows));
    });
}
