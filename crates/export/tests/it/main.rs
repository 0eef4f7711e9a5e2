//! Recorded auctions exported onto a disk: what they become, read back by the Rust reader and by
//! DuckDB, pandas and PyArrow, which we did not write.

mod clients;
mod fixtures;
mod round_trip;
mod schema;
