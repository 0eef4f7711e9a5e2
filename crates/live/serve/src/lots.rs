//! Lots on the wire: the thread that drives their sequencer, its records, and what clients and
//! operators say.

use live_core::ports::{HoldPort, SoldLotPort};
use runtime::service::Port;

pub(crate) mod api;
pub(crate) mod commands;
pub(crate) mod config;
pub(crate) mod counts;
pub(crate) mod outlet;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod terms;
pub(crate) mod thread;

/// The ledger that holds the money of bids.
pub const HOLDS: Port<Box<dyn HoldPort>> = Port::new("lot-holds");
/// The exchange that delivers the deals of lots.
pub const SOLD_LOTS: Port<Box<dyn SoldLotPort>> = Port::new("sold-lots");
