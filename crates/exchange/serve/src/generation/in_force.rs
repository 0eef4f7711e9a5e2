//! A configuration in force, as auctions use it.

use std::collections::HashMap;
use std::sync::Arc;

use exchange_core::Seat;
use exchange_core::guard::{CallGrant, CallRate};
use runtime::metrics::PerShard;

use super::enrichments::OpenEnrichment;
use crate::budgets::campaigns::{Campaigns, Payer, Payers};
use crate::config::{ExchangeConfig, PacedSeat};
use crate::fanout::Endpoint;
use crate::guards::GuardId;
use crate::metrics::{DspMetrics, EnrichmentMetrics, SeatMetrics};
use crate::notices::Sealer;

/// One configuration in force. An auction uses the same one throughout.
#[derive(Debug)]
pub struct Generation {
    /// Increases with each reload. Unique on a node with a record; else each start counts from 1.
    pub number: u64,
    /// As configured. With direct campaigns, the last of `market.dsps` stands for them.
    pub config: ExchangeConfig,
    /// In the order of `config.market.dsps`, without the direct campaigns.
    pub dsps: Vec<DspInForce>,
    /// None without direct campaigns.
    pub direct: Option<DirectInForce>,
    pub(crate) campaigns: Arc<Campaigns>,
    /// Accounts that pay for seats of DSPs.
    pub(super) payers: HashMap<Seat, Payer>,
    /// Who pays for impressions under each of the market's sold deals.
    pub(super) sold_payers: Vec<Payer>,
    /// Seats that a remote pacer's campaigns pay for.
    pub(super) remote_payers: HashMap<Seat, PacedSeat>,
    /// Guards of publishers, by id.
    pub(crate) callers: HashMap<Box<str>, CallerGuard>,
    pub(crate) sealer: Option<Sealer>,
    /// In the market's order.
    pub(crate) enrichments: Vec<OpenEnrichment>,
}

impl Generation {
    /// Ids of the DSPs that are called, in order.
    pub fn dsp_ids(&self) -> impl Iterator<Item = &str> {
        self.config.market.dsps[..self.dsps.len()].iter().map(|dsp| &*dsp.id)
    }

    /// Names of enrichments and their metrics, in the market's order.
    pub fn enrichments(&self) -> impl Iterator<Item = (&str, &PerShard<EnrichmentMetrics>)> {
        let names = self.config.market.enrichments.iter().map(|rule| &*rule.name);
        names.zip(self.enrichments.iter().map(|open| &open.metrics))
    }

    /// Metrics of the DSPs that are called, by id, in order.
    pub(crate) fn dsp_metrics(&self) -> impl Iterator<Item = (&str, &PerShard<DspMetrics>)> {
        self.dsp_ids().zip(self.dsps.iter().map(|dsp| &dsp.metrics))
    }

    pub(crate) fn payers(&self) -> Payers<'_> {
        let campaigns = self.campaigns.catalogue.campaigns();
        let (seats, remote, sold) = (&self.payers, &self.remote_payers, &self.sold_payers[..]);
        Payers { seats, remote, campaigns, sold }
    }
}

#[derive(Clone, Debug)]
pub struct DirectInForce {
    pub metrics: PerShard<DspMetrics>,
    /// Of the accounts that have campaigns, in the market's order.
    pub seats: Vec<PerShard<SeatMetrics>>,
}

#[derive(Clone, Debug)]
pub(crate) struct CallerGuard {
    pub(crate) guard: GuardId,
    pub(crate) first_grants: Arc<[CallGrant]>,
    pub(super) rate: CallRate,
}

/// Parts of a DSP that survive a reload.
#[derive(Clone, Debug)]
pub struct DspInForce {
    /// Stays the same until the DSP's address or options change.
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) guard: GuardId,
    pub(crate) first_grants: Arc<[CallGrant]>,
    /// Metrics of the DSP.
    pub metrics: PerShard<DspMetrics>,
    /// Metrics of its seats, in configured order.
    pub seats: Vec<PerShard<SeatMetrics>>,
}
