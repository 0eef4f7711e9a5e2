//! Campaigns of our own, and accounts of DSPs' seats, as auctions see them: one immutable snapshot,
//! part of a generation.
//!
//! It must not know what an account may spend: that is the ledger's.

use std::collections::HashMap;
use std::time::Duration;

use exchange_core::house::Catalogue;
use exchange_core::{Dsp, Market, Seat, Targeting};
use openrtb::codes::MediaType;
use pacer_core::messages::Slot;
use units::Currency;

/// What the house is called where DSPs have ids.
pub const HOUSE: &str = "house";

/// Campaigns and accounts of seats.
#[derive(Debug)]
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
    pub slot: Slot,
    /// Its account's.
    pub currency: Currency,
}

impl Default for Campaigns {
    fn default() -> Self {
        Self { number: 0, seats: Vec::new(), house: Catalogue::new(Vec::new()) }
    }
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
            seats: self.house.seats().to_vec(),
            formats: MediaType::ALL.into_iter().fold(0, |all, format| all | format.bit()),
            sizes: Vec::new(),
            countries: Vec::new(),
            publishers_allowed: Vec::new(),
            publishers_blocked: Vec::new(),
            // Whatever the auction's is: bids are converted to it.
            currencies,
            timeout: Duration::ZERO,
            targeting: Targeting::default(),
            notice_hosts: Vec::new(),
        });
    }

    /// Who pays for which seat of which DSP; accounts whose DSP or seat is not configured pay nothing.
    pub(crate) fn payers(&self, market: &Market) -> HashMap<Seat, Payer> {
        let positions: HashMap<&str, usize> =
            market.dsps.iter().enumerate().map(|(at, dsp)| (&*dsp.id, at)).collect();
        let payer = |account: &SeatAccount| {
            let dsp = *positions.get(&*account.dsp)?;
            let seat = market.dsps[dsp].seats.iter().position(|seat| *seat == account.seat)?;
            Some((Seat { dsp, seat }, account.payer))
        };
        self.seats.iter().filter_map(payer).collect()
    }
}
