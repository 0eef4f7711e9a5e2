//! The reader of records: rows, replays, filters, and the page that documents the rows.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod record;
mod schema;
