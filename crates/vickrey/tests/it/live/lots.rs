//! Lots as bidders and operators meet them: over WebSocket and the admin API, with money on hold in
//! a real ledger, on a full disk, and when the server is killed.

mod bad_bids;
mod fixtures;
mod full;
mod hammer;
mod killed;
mod life;
mod sold;
