//! What commands share: how they end, files that they write, requests to the admin API, tables, and
//! their manual.

pub(crate) mod args;
pub(crate) mod client;
pub(crate) mod exit;
pub(crate) mod manual;
pub(crate) mod output_file;
pub(crate) mod table;
