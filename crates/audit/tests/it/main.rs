//! A record as it is read: its rows, replays and filters, and the page that documents it.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod record;
mod schema;
