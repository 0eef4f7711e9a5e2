//! A running exchange and its operators: the API and its document, reload, secrets, readiness, and
//! the dashboard and the metrics.

mod access;
mod dashboard;
mod descriptors;
pub mod document;
pub mod fixtures;
mod names;
mod overload;
mod pacer_alone;
mod pause;
mod promtool;
mod record;
mod reload;
mod threads;
