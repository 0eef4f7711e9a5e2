//! The start of a query: it is read and planned at once, so that what is wrong with it is said at once.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hyper::StatusCode;
use lookup_core::plan::{Plan, plan};
use lookup_core::query::{LookupQuery, QueryLimits, parse};
use lookup_core::schedule::LookupUser;
use runtime::process::unix_ms;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::explained::explained;
use super::parameters::{LookupParameters, Refusal};
use crate::config::LookupLimits;
use crate::queries::entry::QueryEntry;
use crate::queries::execution::QueryRun;
use crate::queries::forecast::ForecastQuestion;
use crate::thread::{LookupShared, LookupTask};

/// Starts queries of one client.
pub(super) struct Starter<'s> {
    pub limits: LookupLimits,
    pub shared: &'s LookupShared,
    pub tasks: &'s UnboundedSender<LookupTask>,
    pub peer: IpAddr,
}

impl Starter<'_> {
    /// Starts a query, unless it is wrong or would be too much. If the answer of the same query still
    /// counts, it is that one.
    pub fn start(&self, parameters: &LookupParameters) -> Result<Arc<QueryEntry>, Refusal> {
        let query = self.query(parameters)?;
        if let Some(entry) = self.shared.table.shared(&query.to_string(), unix_ms()) {
            self.shared.shared.fetch_add(1, Relaxed);
            return Ok(entry);
        }
        let plan = self.plan(&query)?;
        let calls = plan.calls_estimate(&self.shared.maps.map, &HashMap::new());
        let LookupLimits { calls_max, background_calls_max, timeout, timeout_max, .. } =
            self.limits;
        let is_background = parameters.is_background;
        let most = if is_background { background_calls_max } else { calls_max };
        if most < calls {
            let remedy = if is_background { "" } else { ", or ask with class=background" };
            let message = format!(
                "the query needs about {calls} calls, of at most {most}: add conditions{remedy}"
            );
            return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "too_many_calls", message));
        }
        let entry = QueryEntry::new(query);
        self.shared.table.begin(&entry).map_err(|error| {
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "busy", error.to_string())
        })?;
        let run = QueryRun {
            entry: Arc::clone(&entry),
            plan,
            class: parameters.into(),
            user: user(self.peer),
            timeout: parameters.timeout.unwrap_or(timeout).min(timeout_max),
            limits: self.limits,
        };
        self.tasks.send(LookupTask::Run(run)).map_err(|_| {
            self.shared.table.end(entry.id, 0);
            ending()
        })?;
        Ok(entry)
    }

    /// How a query would be answered, and what is known of it.
    pub async fn explain(&self, parameters: &LookupParameters) -> Result<Value, Refusal> {
        let query = self.query(parameters)?;
        let plan = self.plan(&query)?;
        let (answer, answered) = oneshot::channel();
        let question = ForecastQuestion { query, plan: plan.clone(), answer };
        self.tasks.send(LookupTask::Forecast(question)).map_err(|_| ending())?;
        let forecast = answered.await.map_err(|_| ending())?;
        Ok(explained(&self.shared.maps, self.limits, &plan, &forecast))
    }

    fn query(&self, parameters: &LookupParameters) -> Result<LookupQuery, Refusal> {
        let parsed = parse(&parameters.query, &self.shared.vocabulary, QueryLimits::default());
        parsed.map_err(|error| {
            let message = format!("the query is wrong: {error}");
            Refusal::new(StatusCode::BAD_REQUEST, "bad_query", message)
        })
    }

    fn plan(&self, query: &LookupQuery) -> Result<Plan, Refusal> {
        plan(&self.shared.maps.map, query).map_err(|error| {
            Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "no_plan", error.to_string())
        })
    }
}

fn ending() -> Refusal {
    let message = "the process is ending, or its look-up thread has";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
}

/// The user of a client: its address; of IPv6, the network that one site has.
fn user(peer: IpAddr) -> LookupUser {
    let network = match peer.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => u64::try_from(address.to_bits() >> 64).unwrap_or(u64::MAX),
    };
    LookupUser(BuildHasherDefault::<DefaultHasher>::default().hash_one(network))
}
