//! A bidder's client of the pacer (`docs/pacer-protocol.md`).
//!
//! ```no_run
//! use std::time::Duration;
//! use pacer_client::{Candidate, PacerClientOptions, Offer, PacerClient, SpendRequest};
//! use units::{Cpm, Nanos};
//!
//! # async fn bid(request_id: u64) -> Option<()> {
//! let pacer = PacerClient::start(PacerClientOptions::new("127.0.0.1:7100", "dsp-1", "s3cret"));
//! let campaign = pacer.campaign("acme", "spring")?;
//! let value = Offer::Value(Cpm::new(2_500_000)?);
//! let candidates = [Candidate { campaign: campaign.handle, offer: value, minimum: Cpm::ZERO }];
//! let request = SpendRequest::new(request_id, &candidates);
//! // No answer in time means no spend.
//! let decision = pacer.decide(request, Duration::from_millis(5)).await?;
//! let authorised = decision.ok()?;
//! // Bid authorised.amount; then, once the auction has ended:
//! pacer.won(authorised.token, Nanos::new(1_200_000));
//! # Some(()) }
//! ```
//!
//! Owns a connection and its reconnection, the requests that share a batch, the settlements that
//! have no result yet, and the catalogue. It must not know how a bidder bids.
//!
//! **Invariant:** a decision that reaches the caller was received before the caller's deadline.
//! Decisions that come later, or that nobody waits for, are reported as lost.

mod catalogue;
mod client;
mod connection;
mod driver;
mod options;
mod request;
mod settlements;
mod shared;

pub use catalogue::{CampaignHandle, CampaignId};
pub use client::{ClientStatus, PacerClient, PendingDecision};
pub use options::PacerClientOptions;
pub use pacer_wire::{DecisionCode, Offer, SettlementCode, TOKEN_BYTES};
pub use request::{AuthorisedAmount, AuthorisedBid, Candidate, SpendRequest};
