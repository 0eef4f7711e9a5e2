//! A running exchange in the hands of its operators: the API against its document, reload, secrets,
//! readiness, and the dashboard against the metrics.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod access;
mod dashboard;
mod document;
mod fixtures;
mod overload;
mod pause;
mod record;
mod reload;
