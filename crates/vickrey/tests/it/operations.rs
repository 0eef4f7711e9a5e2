//! A running exchange in the hands of its operators: the API against its document, reload, secrets,
//! readiness, and the dashboard against the metrics.

mod access;
mod dashboard;
mod descriptors;
mod document;
mod fixtures;
mod names;
mod overload;
mod pacer_alone;
mod pause;
mod promtool;
mod record;
mod reload;
mod threads;
