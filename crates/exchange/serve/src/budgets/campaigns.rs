//! Direct campaigns and accounts of DSPs' seats, as one immutable snapshot in each generation.
//!
//! Must not know what an account may spend: the ledger does.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use exchange_core::campaigns::{Catalogue, DirectCampaign};
use exchange_core::{Dsp, Market, Seat, Targeting, TrackingSignals};
use openrtb::codes::MediaType;
use pacer_core::messages::CampaignIndex;
use units::Currency;

use crate::config::{DIRECT_DSP, PacedSeat};

/// Campaigns and accounts of seats.
#[derive(Debug, Default)]
pub struct Campaigns {
    /// Increases with each change.
    pub number: u64,
    /// Seats that win only if their account pays.
    pub seats: Vec<SeatAccount>,
    /// Direct campaigns.
    pub catalogue: Catalogue,
}

/// The account of a DSP's seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatAccount {
    /// The DSP's id.
    pub dsp: Box<str>,
    /// The seat's id at the DSP.
    pub seat: Box<str>,
    /// The paying account.
    pub payer: Payer,
}

/// The account that pays a winner's price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payer {
    /// The ledger's index of the campaign or seat.
    pub slot: CampaignIndex,
    /// Currency of the account.
    pub currency: Currency,
}

/// Why an account of this seat pays for nothing. None if `configured` has the seat.
pub fn unknown_seat(configured: Option<&Dsp>, dsp: &str, seat: &str) -> Option<String> {
    let Some(configured) = configured else {
        return Some(format!("no [[dsp]] has the id `{dsp}`: correct it, or add the DSP"));
    };
    let is_known = configured.seats.iter().any(|known| &**known == seat);
    (!is_known).then(|| {
        format!("[[dsp]] `{dsp}` has no such seat: correct it, or add it to the DSP's `seats`")
    })
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Payers<'g> {
    pub seats: &'g HashMap<Seat, Payer>,
    /// Seats that a remote pacer's campaigns pay for.
    pub remote: &'g HashMap<Seat, PacedSeat>,
    /// Direct campaigns, which pay for themselves.
    pub campaigns: &'g [DirectCampaign],
    /// Who pays under each of the market's sold deals.
    pub sold: &'g [Payer],
}

impl Campaigns {
    /// Adds direct campaigns to the market as its last DSP, if there are any.
    pub(crate) fn add_to_market(&self, market: &mut Market) {
        if self.catalogue.seats().is_empty() {
            return;
        }
        let mut currencies: Vec<_> = market.rates.currencies().collect();
        if !currencies.contains(&market.currency) {
            currencies.push(market.currency);
        }
        market.dsps.push(Dsp {
            id: DIRECT_DSP.into(),
            seats: self.catalogue.seats().into(),
            formats: MediaType::ALL.into_iter().fold(0, |all, format| all | format.bit()),
            sizes: Vec::new(),
            countries: Vec::new(),
            publishers_allowed: Vec::new(),
            publishers_blocked: Vec::new(),
            // Any auction's currency: bids are converted to it.
            currencies,
            timeout: Duration::ZERO,
            network_margin: None,
            targeting: Targeting::default(),
            // It never sees the user: no signal keeps anything from it.
            privacy: TrackingSignals { lmt: true, dnt: true },
            notice_hosts: Vec::new(),
        });
    }

    /// Accounts whose seat no DSP has, with the reason, by `dsp/seat`.
    pub(crate) fn unknown_seats(&self, dsps: &[Dsp]) -> BTreeMap<String, String> {
        let dsps: HashMap<&str, &Dsp> = dsps.iter().map(|dsp| (&*dsp.id, dsp)).collect();
        let strange = self.seats.iter().filter_map(|account| {
            let why = unknown_seat(dsps.get(&*account.dsp).copied(), &account.dsp, &account.seat)?;
            Some((format!("{}/{}", account.dsp, account.seat), why))
        });
        strange.collect()
    }

    /// Payers of configured seats.
    pub(crate) fn payers(&self, market: &Market) -> HashMap<Seat, Payer> {
        let payers = self.seats.iter().map(|it| ((&*it.dsp, &*it.seat), it.payer));
        by_seat(market, payers)
    }
}

/// Seats that a remote pacer's campaigns pay for.
pub(crate) fn remote_payers(market: &Market, seats: &[PacedSeat]) -> HashMap<Seat, PacedSeat> {
    by_seat(market, seats.iter().map(|it| ((&*it.dsp, &*it.seat), it.clone())))
}

/// The values whose DSP and seat the market has, by seat.
fn by_seat<'n, V>(
    market: &Market,
    named: impl Iterator<Item = ((&'n str, &'n str), V)>,
) -> HashMap<Seat, V> {
    let positions: HashMap<&str, usize> =
        market.dsps.iter().enumerate().map(|(at, dsp)| (&*dsp.id, at)).collect();
    let found = named.filter_map(|((dsp, seat), value)| {
        let dsp = *positions.get(dsp)?;
        let seat = market.dsps[dsp].seats.position(seat)?;
        Some((Seat { dsp, seat }, value))
    });
    found.collect()
}
