//! Asks a running process, and shows how far it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::answer::{AnswerFormat, LookupAnswer};
use crate::command::client::{ApiClient, ApiRefusal, ListenerKind, encoded};
use crate::command::exit::{CommandFailure, Exit};
use crate::command::table::{list_of, text, visible};
use crate::peers::long_run::{parse_duration, progress_bar, stop_on_signal};

/// Records of a page.
const PAGE: usize = 10_000;
/// How long the server may wait before it says how far it is.
const POLL: &str = "200ms";

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The look-ups of a running process: `listen` of its `[lookup]`
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7400")]
    server: String,
    /// With https, trust the authorities in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// How long providers may take; then the answer is what there is [default: the server's]
    #[arg(long, value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Give way to other queries; this one may then need more calls
    #[arg(long)]
    background: bool,
    /// The most records to print [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// A query, and how it is asked.
pub(crate) struct LookupQuestion<'q> {
    pub query: &'q str,
    /// None: the server's.
    pub timeout: Option<Duration>,
    pub is_background: bool,
}

/// Asks the look-ups of one process.
pub(crate) struct Asker(ApiClient);

impl Asker {
    /// For a listener, verified by the authorities of a file.
    pub(crate) fn new(server: &str, ca: Option<&Path>) -> anyhow::Result<Self> {
        Ok(Self(ApiClient::of(ListenerKind::LOOKUP, server, ca)?))
    }

    /// The answer to a query, with at most so many records. `stop` cancels the query.
    pub(crate) fn ask(
        &self,
        question: &LookupQuestion<'_>,
        records_max: usize,
        stop: &AtomicBool,
    ) -> anyhow::Result<LookupAnswer> {
        let Self(client) = self;
        let mut body = json!({ "query": question.query, "wait": POLL, "limit": 0 });
        if let Some(timeout) = question.timeout {
            body["timeout"] = json!(format!("{}ms", timeout.as_millis()));
        }
        if question.is_background {
            body["class"] = json!("background");
        }
        let begun = client.ask("POST", "/lookup", &[], Some(&body))?;
        let mut state = begun.map_err(ApiRefusal::into_failure)?;
        let id = text(&state["id"]);
        let progress = progress_bar(None, "{spinner} {elapsed} {wide_msg}");
        while matches!(state["status"].as_str(), Some("queued" | "running")) {
            show(&progress, &state);
            if stop.load(Ordering::Relaxed) {
                // Nobody waits for the providers any more.
                let ended = client.ask("DELETE", &format!("/lookup/{id}?limit=0"), &[], None)?;
                state = ended.map_err(ApiRefusal::into_failure)?;
                break;
            }
            state = client.get(&format!("/lookup/{id}?wait={POLL}&limit=0"))?;
        }
        progress.finish_and_clear();
        let mut rows: Vec<Value> = Vec::new();
        let mut next = Some(0);
        while let Some(first) = next.filter(|_| rows.len() < records_max) {
            let count = PAGE.min(records_max - rows.len());
            let page = client.get(&format!("/lookup/{id}?idx={first}&limit={count}"))?;
            rows.extend(list_of(&page["rows"]).iter().cloned());
            next = page["next"].as_u64().and_then(|next| usize::try_from(next).ok());
        }
        Ok(LookupAnswer { state, rows })
    }
}

impl Asker {
    /// As the command line says.
    pub(super) fn of(args: &AskArgs) -> anyhow::Result<Self> {
        Self::new(&args.server, args.ca.as_deref())
    }

    /// How a query would be answered, and what of its answer is known.
    pub(super) fn explain(&self, query: &str) -> anyhow::Result<Value> {
        self.0.get(&format!("/lookup/plan?query={}", encoded(query)))
    }
}

/// Asks, waits, and prints the answer.
pub(super) fn ask(query: &str, args: &AskArgs, format: AnswerFormat) -> anyhow::Result<Exit> {
    let asker = Asker::of(args)?;
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(Arc::clone(&stop))?;
    let question = LookupQuestion { query, timeout: args.timeout, is_background: args.background };
    let answer = asker.ask(&question, args.limit.unwrap_or(usize::MAX), &stop)?;
    answer.print(format)?;
    match answer.state["status"].as_str() {
        Some("done") => Ok(Exit::Done),
        Some("partial") => Ok(Exit::Missed),
        status => {
            let reason = visible(answer.state["reason"].as_str().unwrap_or_default());
            let status = status.unwrap_or("lost");
            Err(CommandFailure::unavailable(format!("the query {status}: {reason}")))
        }
    }
}

/// How many providers have answered, and whom it waits for.
fn show(progress: &ProgressBar, state: &Value) {
    let providers = list_of(&state["providers"]);
    let is_open = |of: &&Value| of["state"] == "running" || of["state"] == "queued";
    let waiting: Vec<_> = providers.iter().filter(is_open).collect();
    let names: Vec<_> = waiting.iter().take(3).map(|of| text(&of["name"])).collect();
    let more = if waiting.len() > names.len() { ", …" } else { "" };
    let calls: u64 = providers.iter().filter_map(|of| of["calls"].as_u64()).sum();
    progress.set_message(format!(
        "{} of {} answered, {calls} calls; waiting for {}{more}",
        providers.len() - waiting.len(),
        providers.len(),
        names.join(", "),
    ));
    progress.tick();
}
