//! The store on disk: its file, its thread, and its recovery. Knows nothing of budgets.

pub(crate) mod directory;
pub(crate) mod engine;
pub(crate) mod error;
pub(crate) mod tables;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod thread;
pub(crate) mod watched;
