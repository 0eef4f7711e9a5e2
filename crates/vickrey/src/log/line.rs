//! One record as a line for people. Outside text reaches the terminal only as visible characters.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use audit::{AuctionRow, GenerationStart, Publication, RecordPosition, UtcTime};
use units::Cpm;

pub(super) fn auction(row: &AuctionRow) -> String {
    let publisher = row.publisher.as_deref().unwrap_or("-");
    let mut line = format!(
        "{}  {}  {}  {:<9}  asked {:>2}  bids {:>2}  {:>9}",
        UtcTime(row.time_us),
        visible(&row.id),
        visible(publisher),
        row.ending,
        row.calls_count,
        row.bids_count,
        row.answered_us.map_or_else(|| "-".to_owned(), ms),
    );
    let currency = row.currency.as_deref().unwrap_or("");
    for (at, sale) in row.sales.iter().filter(|sale| sale.fate == "won").enumerate() {
        let sign = if at == 0 { "  won" } else { "," };
        let price = Cpm::new(sale.price_micros).unwrap_or(Cpm::MAX);
        let (dsp, seat) = (visible(&sale.dsp), visible(&sale.seat));
        let _ = write!(line, "{sign} {dsp}/{seat} {price} {currency}");
    }
    if let (Some(nbr), "refused") = (row.nbr, &*row.ending) {
        let _ = write!(line, "  nbr {nbr}");
    }
    if row.is_test {
        line.push_str("  test");
    }
    line
}

pub(super) fn gap(place: &RecordPosition, records: u64) -> String {
    let auctions = if records == 1 { "auction was" } else { "auctions were" };
    format!("{}  gap: {records} {auctions} not recorded", time(place.time_ms))
}

pub(super) fn publication(place: &RecordPosition, said: &Publication<'_>) -> String {
    let Publication { topic, publisher, body, .. } = said;
    let publisher = if publisher.is_empty() { "-" } else { publisher };
    let (topic, publisher, body) = (visible(topic), visible(publisher), visible(body));
    format!("{}  {topic}  by {publisher}  {body}", time(place.time_ms))
}

pub(super) fn generation(put: &GenerationStart) -> String {
    let GenerationStart { number, since_ms, dsps, .. } = *put;
    format!("{}  generation {number} of the configuration, {dsps} DSPs", time(since_ms))
}

pub(super) fn unknown(place: &RecordPosition, kind: u8) -> String {
    format!("{}  a record of kind {kind}, of a later release", time(place.time_ms))
}

/// A time in milliseconds of Unix time.
pub(super) fn time(unix_ms: u64) -> UtcTime {
    UtcTime(unix_ms.saturating_mul(1000))
}

pub(super) fn ms(us: u64) -> String {
    format!("{}.{} ms", us / 1000, us % 1000 / 100)
}

/// An amount with this many decimal places.
pub(super) fn money(nanos: u64, places: usize) -> String {
    let unit = (places..9).fold(1_u128, |unit, _| unit * 10);
    let parts = (u128::from(nanos) + unit / 2) / unit;
    let whole = 1_000_000_000 / unit;
    format!("{}.{:0places$}", parts / whole, parts % whole)
}

pub(crate) fn count(many: u64, one: &str, more: &str) -> String {
    format!("{many} {}", if many == 1 { one } else { more })
}

/// The counts that are not 0.
pub(crate) fn counts(counts: &[(u64, &str, &str)]) -> Vec<String> {
    let counts = counts.iter().filter(|(many, ..)| *many > 0);
    counts.map(|(many, one, more)| count(*many, one, more)).collect()
}

pub(super) fn bytes(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit {
            let tenths = u128::from(bytes) * 10 / u128::from(unit);
            return format!("{}.{} {name}", tenths / 10, tenths % 10);
        }
    }
    format!("{bytes} bytes")
}

pub(super) fn throughput(read: u64, took: Duration) -> String {
    let ms = took.as_millis().max(1);
    let a_second = u64::try_from(u128::from(read) * 1000 / ms).unwrap_or(u64::MAX);
    let tenths = ms / 100;
    format!("{} in {}.{} s, {}/s", bytes(read), tenths / 10, tenths % 10, bytes(a_second))
}

/// Escapes what moves the cursor, colours text or changes its direction.
pub(crate) fn visible(text: &(impl Display + ?Sized)) -> String {
    let is_hidden = |char: char| {
        char.is_control()
            || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
    };
    let mut out = String::new();
    for char in text.to_string().chars() {
        if is_hidden(char) {
            out.extend(char.escape_unicode());
        } else {
            out.push(char);
        }
    }
    out
}

/// Aligned columns: the first `texts` to the left, the others to the right.
pub(super) fn table(rows: &[Vec<String>], texts: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            let _ = match column < texts {
                true => write!(line, "{gap}{cell:<width$}"),
                false => write!(line, "{gap}{cell:>width$}"),
            };
        }
        out.extend([line.trim_end(), "\n"]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        assert_eq!(
            [money(0, 2), money(4_999_999, 2), money(5_000_000, 2)],
            ["0.00", "0.00", "0.01"]
        );
        assert_eq!(money(u64::MAX, 2), "18446744073.71");
        assert_eq!([money(1_510_499, 6), money(999_999_500, 6)], ["0.001510", "1.000000"]);
        assert_eq!([ms(0), ms(41_299)], ["0.0 ms", "41.2 ms"]);
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!([bytes(1 << 10), bytes(1600 << 20)], ["1.0 KiB", "1.5 GiB"]);
        let took = Duration::from_millis(2500);
        assert_eq!(throughput(5 << 20, took), "5.0 MiB in 2.5 s, 2.0 MiB/s");
    }

    #[test]
    fn nothing_hidden_is_shown() {
        assert_eq!(visible("a\x1b[31m\u{202e}é"), "a\\u{1b}[31m\\u{202e}é");
    }

    #[test]
    fn numbers_stand_to_the_right() {
        let rows = [vec!["a".to_owned(), "1".into()], vec!["bcd".to_owned(), "23".into()]];
        assert_eq!(table(&rows, 1), "a     1\nbcd  23\n");
    }
}
