//! The exchange's metrics as a page: names, help texts and labels.
//!
//! Labels come from configuration and fixed lists, never from a client.

mod auctions;
mod budgets;
mod dsps;
mod notices;
mod record;

use std::fmt;
use std::sync::Arc;

use eventlog::lane::LaneHandle;
use runtime::metrics::{MetricsPage, PerShard};

use crate::budgets::remote::RemotePacer;
use crate::generation::Generation;
use crate::guards::Guards;
use crate::metrics::ExchangeMetrics;
use crate::notices::NoticeMonitor;

#[derive(Clone, Debug)]
pub struct MetricsSources {
    pub guards: Guards,
    pub dispatcher: Option<NoticeMonitor>,
    /// None without a remote pacer.
    pub pacer: Option<Arc<RemotePacer>>,
    /// None if nothing is recorded.
    pub firehose: Option<LaneHandle>,
}

pub fn expose(
    generation: &Generation,
    shards: &PerShard<ExchangeMetrics>,
    beside: &MetricsSources,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    auctions::expose(shards, page)?;
    auctions::expose_enrichments(generation, page)?;
    dsps::expose(generation, &beside.guards, page)?;
    notices::expose(generation, shards, beside.dispatcher.as_ref(), page)?;
    if let Some(firehose) = &beside.firehose {
        record::expose(firehose, page)?;
    }
    budgets::expose(shards, page)?;
    if let Some(pacer) = &beside.pacer {
        budgets::expose_remote(pacer, shards, page)?;
    }
    dsps::expose_seats(generation, page)
}
