//! What would have become of a budget: streams of auctions, recorded or made from a seed, spent
//! through the strategies that the pacer runs, beside the optimum that hindsight knows.
//!
//! Owns the form of a stream, its generator, the replay, its figures and how they are shown. Knows
//! nothing of the command line, of the record's format, or of how a strategy decides: it calls the
//! strategy's own code, slot by slot. Money is integers throughout; what is only measured (shares,
//! errors) is floating point.

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
