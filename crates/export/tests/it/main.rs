//! Exports of recorded auctions on a real disk, read back by the Rust reader and by DuckDB, pandas
//! and PyArrow, which we did not write.

mod clients;
mod fixtures;
mod round_trip;
mod schema;
