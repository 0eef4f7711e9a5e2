//! Queries: those that run, and answers that wait for their clients.

pub(crate) mod entry;
pub(crate) mod execution;
pub(crate) mod forecast;
pub(crate) mod known;
pub(crate) mod rows;
pub(crate) mod table;
