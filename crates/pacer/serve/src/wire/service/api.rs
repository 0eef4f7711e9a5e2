//! Admin API of the pacer on the wire: its clients, and what they were answered.

use std::net::SocketAddr;
use std::sync::Arc;

use pacer_wire::{DecisionCode, ProtocolError, SettlementCode};
use runtime::admin::{
    Api, ApiCall, CountsByLabel, ErrorCode, LatencyView, Method, Operation, Reply, ReplyResult,
    Route, counts_schema,
};
use runtime::metrics::PerShard;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use tokio::sync::watch;

use crate::wire::bidders::Bidder;
use crate::wire::campaigns::CampaignTable;
use crate::wire::counters::{ClientCounts, PacerCounts};

/// What the API shows.
pub(super) struct PacerApi {
    pub listen: SocketAddr,
    pub node: u32,
    pub epoch: u64,
    pub counts: PerShard<PacerCounts>,
    pub tables: watch::Receiver<Arc<CampaignTable>>,
}

fn routes() -> Vec<Route<PacerApi>> {
    let asked = |id, summary| {
        let off = "The configuration has no `[pacer]`.";
        Operation::new("pacer", id, summary).error(ErrorCode::NotConfigured, off)
    };
    vec![
        Route {
            method: Method::Get,
            path: "/v1/pacer",
            answer: pacer,
            operation: asked("pacer", "The pacer on the wire, and all its clients.")
                .json::<PacerView>(200, "The pacer."),
        },
        Route {
            method: Method::Get,
            path: "/v1/pacer/clients/{id}",
            answer: client,
            operation: asked("pacerClient", "A client of the pacer.")
                .error(ErrorCode::NotFound, "No client of this process has had this id.")
                .json::<ClientView>(200, "The client."),
        },
    ]
}

/// The pacer on the wire, over all shards. Counters start with the process.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Pacer")]
struct PacerView {
    listen: String,
    node: u32,
    /// Start of the ledger: tokens name it.
    epoch: u64,
    /// Generation of campaigns in force.
    generation: u64,
    /// From the receipt of a batch to the end of the write with its decisions.
    batch_us: LatencyView,
    /// Connections that ended because of an error, by code.
    #[schemars(schema_with = "errors_schema")]
    errors: CountsByLabel,
    /// Settlements that wait for room in the record, or for the disk.
    settlements_waiting: i64,
    clients: Vec<ClientView>,
}

/// A client, over all shards.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PacerClient")]
struct ClientView {
    id: String,
    /// Whether a reload removed it from the configuration.
    removed: bool,
    /// Accounts whose campaigns it may name; null for all.
    accounts: Option<Vec<String>>,
    connections: i64,
    batches: u64,
    /// Bid requests by decision.
    #[schemars(schema_with = "decisions_schema")]
    decisions: CountsByLabel,
    /// Settlements by result.
    #[schemars(schema_with = "settlements_schema")]
    settlements: CountsByLabel,
    /// Cost of its booked wins in nanos, of all currencies together.
    billed_nanos: u64,
    /// Times that it was given no credit.
    credit_stalls: u64,
}

fn errors_schema(_: &mut SchemaGenerator) -> Schema {
    counts_schema(&ProtocolError::ALL.map(ProtocolError::label))
}

fn decisions_schema(_: &mut SchemaGenerator) -> Schema {
    counts_schema(&DecisionCode::ALL.map(DecisionCode::label))
}

fn settlements_schema(_: &mut SchemaGenerator) -> Schema {
    counts_schema(&SettlementCode::ALL.map(SettlementCode::label))
}

pub(super) fn api(pacer: PacerApi) -> Api {
    Api::new(pacer, routes())
}

/// The API without a pacer: says how to configure it.
pub(super) fn unconfigured() -> Api {
    let message = "the pacer is off: add [pacer] to the configuration file and restart; it needs \
                   [budgets] and [record] too";
    Api::unconfigured(routes(), message)
}

fn pacer(pacer: &PacerApi, _: &ApiCall) -> ReplyResult {
    let PacerApi { listen, node, epoch, counts, tables } = pacer;
    let table = Arc::clone(&tables.borrow());
    let errors = ProtocolError::ALL.map(|code| {
        let ended = counts.iter().map(|shard| shard.errors[code as usize].value());
        (code.label(), ended.fold(0, u64::wrapping_add))
    });
    Ok(Reply::json(&PacerView {
        listen: listen.to_string(),
        node: *node,
        epoch: *epoch,
        generation: table.generation,
        batch_us: LatencyView::of(counts.iter().map(|shard| shard.batch.snapshot())),
        errors: errors.into(),
        settlements_waiting: counts.iter().map(|shard| shard.settlements_waiting.value()).sum(),
        clients: table.bidders.iter().map(|bidder| view(bidder)).collect(),
    }))
}

fn client(pacer: &PacerApi, call: &ApiCall) -> ReplyResult {
    let (id, table) = (call.parameter("id"), Arc::clone(&pacer.tables.borrow()));
    let found = table.bidders.iter().find(|bidder| &*bidder.config.id == id);
    let missing = || Reply::error(ErrorCode::NotFound, &format!("no client has the id `{id}`"));
    Ok(Reply::json(&view(found.ok_or_else(missing)?)))
}

fn view(bidder: &Bidder) -> ClientView {
    let sum = |count: &dyn Fn(&ClientCounts) -> u64| {
        bidder.counts.iter().map(count).fold(0, u64::wrapping_add)
    };
    let accounts = &bidder.config.accounts;
    ClientView {
        id: bidder.config.id.to_string(),
        removed: bidder.is_removed,
        accounts: (!accounts.is_empty()).then(|| accounts.iter().cloned().collect()),
        connections: bidder.counts.iter().map(|shard| shard.connections.value()).sum(),
        batches: sum(&|shard| shard.batches.value()),
        decisions: DecisionCode::ALL
            .map(|code| (code.label(), sum(&|shard| shard.decisions[code as usize].value())))
            .into(),
        settlements: SettlementCode::ALL
            .map(|code| (code.label(), sum(&|shard| shard.settlements[code as usize].value())))
            .into(),
        billed_nanos: sum(&|shard| shard.billed_nanos.value()),
        credit_stalls: sum(&|shard| shard.credit_stalls.value()),
    }
}
