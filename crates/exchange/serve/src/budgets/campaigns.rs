//! Campaigns of our own, and accounts of DSPs' seats, as auctions see them: one immutable snapshot,
//! part of a generation.
//!
//! It must not know what an account may spend: that is the ledger's.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use exchange_core::campaigns::{Catalogue, DirectCampaign};
use exchange_core::{Dsp, Market, Seat, Targeting, TrackingSignals};
use openrtb::codes::MediaType;
use pacer_core::messages::CampaignIndex;
use units::Currency;

/// What the house is called where DSPs have ids.
pub const HOUSE: &str = "house";

/// Campaigns and accounts of seats.
#[derive(Debug, Default)]
pub struct Campaigns {
    /// Counts up with each change.
    pub number: u64,
    /// Seats that win only what an account authorises.
    pub seats: Vec<SeatAccount>,
    /// Campaigns of our own.
    pub house: Catalogue,
}

/// A DSP's seat and who pays for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatAccount {
    /// The DSP's id.
    pub dsp: Box<str>,
    /// The seat's, at this DSP.
    pub seat: Box<str>,
    /// Who pays.
    pub payer: Payer,
}

/// Whom a winner's price is asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payer {
    /// A campaign, or what stands for a seat, as the ledger numbers it.
    pub slot: CampaignIndex,
    /// Its account's.
    pub currency: Currency,
}

/// Why nothing is sold to a seat of a DSP, `configured` if it is, where there is no such seat: an
/// account that names it pays for nothing.
pub fn is_strange(configured: Option<&Dsp>, dsp: &str, seat: &str) -> Option<String> {
    let Some(configured) = configured else {
        return Some(format!("no [[dsp]] has the id `{dsp}`: correct it, or add the DSP"));
    };
    let is_known = configured.seats.iter().any(|known| &**known == seat);
    (!is_known).then(|| {
        format!("[[dsp]] `{dsp}` has no such seat: correct it, or add it to the DSP's `seats`")
    })
}

/// Who pays for what is won, in one generation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payers<'g> {
    /// For what seats of DSPs win, where that needs an account's leave.
    pub seats: &'g HashMap<Seat, Payer>,
    /// Those of our own, which pay for themselves.
    pub campaigns: &'g [DirectCampaign],
}

impl Campaigns {
    /// Makes the house one more DSP of the market, its last, if it has campaigns.
    pub(crate) fn join(&self, market: &mut Market) {
        if self.house.seats().is_empty() {
            return;
        }
        let mut currencies: Vec<_> = market.rates.currencies().collect();
        if !currencies.contains(&market.currency) {
            currencies.push(market.currency);
        }
        market.dsps.push(Dsp {
            id: HOUSE.into(),
            seats: self.house.seats().into(),
            formats: MediaType::ALL.into_iter().fold(0, |all, format| all | format.bit()),
            sizes: Vec::new(),
            countries: Vec::new(),
            publishers_allowed: Vec::new(),
            publishers_blocked: Vec::new(),
            // Whatever the auction's is: bids are converted to it.
            currencies,
            timeout: Duration::ZERO,
            network_margin: None,
            targeting: Targeting::default(),
            privacy: TrackingSignals::default(),
            notice_hosts: Vec::new(),
        });
    }

    /// Seats that have an account, and that no DSP of these has: why, by `dsp/seat`.
    pub(crate) fn strange(&self, dsps: &[Dsp]) -> BTreeMap<String, String> {
        let dsps: HashMap<&str, &Dsp> = dsps.iter().map(|dsp| (&*dsp.id, dsp)).collect();
        let strange = self.seats.iter().filter_map(|account| {
            let why = is_strange(dsps.get(&*account.dsp).copied(), &account.dsp, &account.seat)?;
            Some((format!("{}/{}", account.dsp, account.seat), why))
        });
        strange.collect()
    }

    /// Who pays for which seat of which DSP; accounts whose DSP or seat is not configured pay nothing.
    pub(crate) fn payers(&self, market: &Market) -> HashMap<Seat, Payer> {
        let positions: HashMap<&str, usize> =
            market.dsps.iter().enumerate().map(|(at, dsp)| (&*dsp.id, at)).collect();
        let payer = |account: &SeatAccount| {
            let dsp = *positions.get(&*account.dsp)?;
            let seat = market.dsps[dsp].seats.position(&account.seat)?;
            Some((Seat { dsp, seat }, account.payer))
        };
        self.seats.iter().filter_map(payer).collect()
    }
}
