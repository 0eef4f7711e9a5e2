//! Simulates pacing: spends a budget on recorded or generated streams of auctions with the pacer's
//! strategies, and compares them with the optimum in hindsight.
//!
//! It owns the stream format, the generator, the replay, its figures and their display. It must not
//! know the command line, the record's format, or how a strategy decides: it runs the strategy's
//! own code, slot by slot. Money is integers throughout; measurements (shares, errors) are floating
//! point.

pub mod chart;
pub mod curve;
pub mod figures;
pub mod generate;
pub mod optimum;
pub mod plot;
pub mod quality;
pub mod replay;
pub mod simulate;
pub mod stream;
pub mod table;
