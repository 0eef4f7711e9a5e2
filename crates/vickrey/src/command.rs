//! What commands share: how they end, files that they write, requests to the admin API, and tables.

pub(crate) mod args;
pub(crate) mod client;
pub(crate) mod exit;
pub(crate) mod output_file;
pub(crate) mod table;
