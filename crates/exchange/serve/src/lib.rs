//! The exchange on the wire: HTTP in, DSP fan-out under a deadline.
//!
//! Owns sockets, configuration and metrics. `exchange-core` makes all decisions about money.

mod auctions;
mod budgets;
mod config;
mod fanout;
mod generation;
mod guards;
mod http;
mod metrics;
mod notices;
mod recording;
mod service;
mod shard;

pub use auctions::explain;
pub use budgets::campaigns;
pub use budgets::shard::{BudgetContext, ShardLedgerPort};
pub use config::{DIRECT_DSP, DirectRules, ExchangeConfig, InboundLimits};
pub use fanout::{Backoff, PoolLimits, answer, inflate};
pub use generation::{
    DspInForce, ENRICHMENT_MEMORIES, EnrichmentError, EnrichmentMemories, EnrichmentMemory,
    Generation, GenerationChange, SharedEnrichmentMemory, SoldOffer, SoldRefusal,
};
pub use http::AUCTION_PATH;
pub use metrics::{BudgetMetrics, DspMetrics, EnrichmentMetrics, ExchangeMetrics, SeatMetrics};
pub use notices::{NoticeStatus, Settlements};
pub use recording::GenerationRecordError;
pub use service::{BUDGETS, Budgets, BudgetsError, Exchange, ExchangeError, OnStart, SOLD_LOTS};
pub use shard::{MARKUP_STORE, MarkupStore, SharedMarkupStore};
