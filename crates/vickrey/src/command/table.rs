//! Tables and amounts for a terminal: aligned columns, readable money, no control characters.

use std::io::{self, Write};

use super::exit::Exit;
use serde_json::Value;
use units::{Amount, Currency, Decimal, Nanos, grouped};

const LETTERS_MAX: usize = 100;

/// A column's name and alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableColumn<'n> {
    /// Text, to the left.
    Text(&'n str),
    /// Figures, to the right.
    Figures(&'n str),
}

use TableColumn::{Figures, Text};

impl<'n> TableColumn<'n> {
    const fn name(self) -> &'n str {
        match self {
            Text(name) | Figures(name) => name,
        }
    }
}

pub(crate) fn table<const N: usize>(
    head: &[TableColumn<'_>; N],
    rows: impl Iterator<Item = [String; N]>,
    out: &mut dyn Write,
) -> io::Result<()> {
    table_of(head, &rows.map(Vec::from).collect::<Vec<_>>(), out)
}

/// A table whose columns are known only now; rows have a cell for each.
pub(crate) fn table_of(
    head: &[TableColumn<'_>],
    rows: &[Vec<String>],
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut widths: Vec<_> = head.iter().map(|column| column.name().chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(visible(cell).chars().count());
        }
    }
    let line = |cells: Vec<String>| {
        let cells =
            cells.iter().zip(&widths).zip(head).map(|((cell, width), column)| match column {
                Text(_) => format!("{cell:width$}"),
                Figures(_) => format!("{cell:>width$}"),
            });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    writeln!(out, "{}", line(head.iter().map(|column| column.name().to_owned()).collect()))?;
    for row in rows {
        writeln!(out, "{}", line(row.iter().map(|cell| visible(cell)).collect()))?;
    }
    Ok(())
}

/// A response of the API as JSON, which is the result of a command.
pub(crate) fn print_json(answer: &Value, out: &mut dyn Write) -> anyhow::Result<Exit> {
    writeln!(out, "{answer:#}")?;
    Ok(Exit::Done)
}

/// An amount of the API with its currency; a dash if it is absent, the raw text if it is invalid.
pub(crate) fn amount(value: &Value, currency: &Value) -> String {
    let Some(given) = value.as_str() else { return "-".to_owned() };
    let nanos = Decimal::parse(given).ok().and_then(|decimal| decimal.scaled(9));
    let currency = currency.as_str();
    match (nanos, currency.and_then(Currency::parse)) {
        (Some((nanos, _)), Some(currency)) => Amount::new(Nanos::new(nanos), currency).to_string(),
        _ => visible(given),
    }
}

/// The elements of an array; none for any other value.
pub(crate) fn list_of(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A count with thousands separators.
pub(crate) fn count(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), grouped)
}

/// Text unquoted, anything else as JSON.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// Replaces control characters, and cuts after [`LETTERS_MAX`].
pub(crate) fn visible(text: &str) -> String {
    let mut shown = without_controls(&text.chars().take(LETTERS_MAX).collect::<String>());
    if text.chars().nth(LETTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Replaces control characters.
pub(crate) fn without_controls(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_stand_to_the_right() {
        let mut out = Vec::new();
        let row = |name: &str, figures: &str| [name.to_owned(), figures.to_owned()];
        let rows = [row("a", "1.00 USD"), row("long\u{1b}", "12,400.50 USD")];
        table(&[Text("id"), Figures("spent")], rows.into_iter(), &mut out).expect("memory");
        let want = "id             spent\na           1.00 USD\nlong\u{fffd}  12,400.50 USD\n";
        assert_eq!(String::from_utf8(out).expect("text"), want);
    }

    #[test]
    fn amounts_have_their_currency() {
        let check = |value: Value, currency: Value, want: &str| {
            assert_eq!(amount(&value, &currency), want);
        };
        check(json!("12400.5"), json!("USD"), "12,400.50 USD");
        check(json!("0.0000042"), json!("EUR"), "0.0000042 EUR");
        check(Value::Null, json!("EUR"), "-");
        check(json!("1"), Value::Null, "1");
        check(json!("x\u{7}"), json!("EUR"), "x\u{fffd}");
    }
}
