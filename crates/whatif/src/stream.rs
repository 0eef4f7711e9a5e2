//! A stream of auctions as one buyer saw them: time, price to beat, and value. Tab-separated text
//! with a header; columns are found by name in any order, and others ignored. It must not know
//! budgets.

mod read;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use units::Cpm;

pub use read::{StreamError, StreamOptions, ValueProblem, read};

/// The columns, in the order in which they are written. An optional fourth, `user`, is ignored.
pub const COLUMNS: [&str; 3] = ["time_ms", "market_price_cpm", "value_cpm"];

/// Latest time of a stream: the end of the year 9999, in milliseconds since 1970.
pub const TIME_MS_MAX: u64 = 253_402_300_799_999;

/// One auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamAuction {
    /// Milliseconds since 1970; at most [`TIME_MS_MAX`].
    pub time_ms: u64,
    /// The price to beat: a bid of at least this wins.
    pub market_price: Cpm,
    /// Value of the impression to the campaign.
    pub value: Cpm,
}

/// Writes streams.
#[derive(Debug)]
pub struct StreamWriter<W> {
    out: W,
}

impl<W: Write> StreamWriter<W> {
    /// Writes the header. `out` should be buffered: every auction is one write.
    pub fn new(mut out: W) -> io::Result<Self> {
        writeln!(out, "{}", COLUMNS.join("\t"))?;
        Ok(Self { out })
    }

    /// Writes one line.
    pub fn write(&mut self, auction: &StreamAuction) -> io::Result<()> {
        let StreamAuction { time_ms, market_price, value } = auction;
        writeln!(self.out, "{time_ms}\t{market_price}\t{value}")
    }

    /// Flushes the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
