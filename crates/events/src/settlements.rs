//! Wins that bidders reported to the pacer, in groups.

#[cfg(test)]
mod tests;

use crate::fields::{settlements as field, win as of_win};
use crate::reader::{Bytes, MalformedRecord, MessageReader, Varint, check_version};
use crate::schema::VERSION;
use crate::writer::MessageWriter;

/// Length of a sealed token.
const TOKEN_BYTES: usize = 48;

/// A won reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WinRecord<'b> {
    /// Its sealed token.
    pub token: [u8; TOKEN_BYTES],
    /// What the seller bills, in billionths of the currency.
    pub cost_nanos: u64,
    /// The account's currency, ISO 4217.
    pub currency: &'b str,
    /// The client that reported it.
    pub client: &'b str,
}

/// Writes a record of wins, one at a time.
#[derive(Debug)]
pub struct SettlementsWriter<'v>(MessageWriter<'v>);

impl<'v> SettlementsWriter<'v> {
    /// Begins a record at the end of `out`.
    pub fn new(out: &'v mut Vec<u8>) -> Self {
        let mut record = MessageWriter::new(out);
        record.uint(field::VERSION, VERSION.into());
        Self(record)
    }

    /// Adds a win.
    pub fn win(&mut self, win: &WinRecord<'_>) {
        self.0.message(field::WINS, |message| {
            message.bytes(of_win::TOKEN, &win.token);
            message.uint(of_win::COST_NANOS, win.cost_nanos);
            message.text(of_win::CURRENCY, win.currency);
            message.text(of_win::CLIENT, win.client);
        });
    }

    /// Ends the record.
    pub fn finish(self) {
        self.0.finish();
    }
}

/// Reads the wins of a record.
#[derive(Clone, Copy, Debug)]
pub struct SettlementsReader<'b>(MessageReader<'b>);

impl<'b> SettlementsReader<'b> {
    /// Checks the record's length and version; [`Self::each`] reads its content.
    ///
    /// # Errors
    /// Anything else, or a later version.
    pub fn new(record: &'b [u8]) -> Result<Self, MalformedRecord> {
        let mut reader = MessageReader::of_record(record)?;
        check_version(reader.take(field::VERSION, Varint::uint)?.unwrap_or(0))?;
        Ok(Self(reader))
    }

    /// Calls `visit` with each win, in order.
    ///
    /// # Errors
    /// At the first win that is malformed.
    pub fn each(mut self, mut visit: impl FnMut(WinRecord<'b>)) -> Result<(), MalformedRecord> {
        self.0.each(field::WINS, |message: Bytes<'b>| {
            visit(read_win(message.message()?)?);
            Ok::<_, MalformedRecord>(())
        })?;
        self.0.finish()
    }
}

fn read_win(mut message: MessageReader<'_>) -> Result<WinRecord<'_>, MalformedRecord> {
    let token = message.take(of_win::TOKEN, |bytes: Bytes<'_>| {
        bytes.bytes.try_into().map_err(|_| MalformedRecord::Value(of_win::TOKEN))
    })?;
    let win = WinRecord {
        token: token.ok_or(MalformedRecord::Value(of_win::TOKEN))?,
        cost_nanos: message.take(of_win::COST_NANOS, Varint::uint)?.unwrap_or(0),
        currency: message.take(of_win::CURRENCY, Bytes::text)?.unwrap_or(""),
        client: message.take(of_win::CLIENT, Bytes::text)?.unwrap_or(""),
    };
    message.finish()?;
    Ok(win)
}
