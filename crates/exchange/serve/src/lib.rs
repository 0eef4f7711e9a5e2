//! The exchange on the wire: HTTP in, DSP fan-out under a deadline.
//!
//! Owns sockets, configuration and metrics, and moves bytes. It makes no decision about money:
//! those are `exchange-core`'s.

pub mod api;
mod auction;
mod beacon;
mod bills;
pub mod campaigns;
mod closing;
mod config;
mod dns;
pub mod explain;
mod fanout;
mod funnels;
mod generation;
mod guards;
mod gzip;
mod http;
mod metrics;
mod notices;
mod purse;
mod recording;
mod service;
mod shard;
mod till;
mod trace;

pub use config::{ExchangeConfig, HouseRules, InboundLimits, RecordConfig};
pub use fanout::{Backoff, PoolLimits, answer, inflate};
pub use generation::{DspInForce, Generation, GenerationChange};
pub use http::AUCTION_PATH;
pub use metrics::{BudgetMetrics, DspMetrics, ExchangeMetrics, SeatMetrics};
pub use notices::{NoticeStatus, Settlements};
pub use purse::{BudgetContext, ShardLedgerPort};
pub use recording::{RecordError, Unrecorded};
pub use service::{BUDGETS, Budgets, BudgetsError, Exchange, ExchangeError, OnStart};
