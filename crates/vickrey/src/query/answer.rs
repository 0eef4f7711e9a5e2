//! An answer to a query, printed.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::command::table::TableColumn::{Figures, Text};
use crate::command::table::{list_of, print_json, table_of, text, visible};

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerFormat {
    Table,
    Json,
    Csv,
}

/// An answer, whole.
pub(crate) struct LookupAnswer {
    /// The server's document, without its rows.
    pub(crate) state: Value,
    pub(crate) rows: Vec<Value>,
}

impl LookupAnswer {
    /// Prints the records; what is missing goes to stderr, unless JSON says it.
    pub(super) fn print(&self, format: AnswerFormat) -> anyhow::Result<()> {
        let out = &mut io::stdout().lock();
        match format {
            AnswerFormat::Json => {
                let mut state = self.state.clone();
                state["rows"] = json!(self.rows);
                if let Some(state) = state.as_object_mut() {
                    // All pages are here.
                    state.remove("next");
                }
                print_json(&state, out)?;
                return Ok(());
            }
            AnswerFormat::Csv => self.write_csv(out)?,
            AnswerFormat::Table => self.write_table(out)?,
        }
        out.flush()?;
        self.report(&mut io::stderr().lock())?;
        Ok(())
    }

    /// Names of the fields that any record has, in the order in which they come.
    fn fields(&self) -> Vec<String> {
        let mut fields = Vec::new();
        for row in &self.rows {
            visit(&row["record"], &mut String::new(), &mut |name, _| {
                if !fields.iter().any(|field| field == name) {
                    fields.push(name.to_owned());
                }
            });
        }
        fields
    }

    /// A cell for each field of each record.
    fn cells(&self, fields: &[String]) -> Vec<Vec<String>> {
        let row = |row: &Value| {
            let mut cells = vec![String::new(); fields.len()];
            visit(&row["record"], &mut String::new(), &mut |name, value| {
                if let Some(at) = fields.iter().position(|field| field == name)
                    && !value.is_null()
                {
                    cells[at] = text(value);
                }
            });
            cells
        };
        self.rows.iter().map(row).collect()
    }

    fn write_csv(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let fields = self.fields();
        if fields.is_empty() {
            return Ok(());
        }
        let mut csv = csv::Writer::from_writer(out);
        csv.write_record(&fields)?;
        for row in self.cells(&fields) {
            csv.write_record(&row)?;
        }
        csv.flush()?;
        Ok(())
    }

    /// The records as a table.
    pub(crate) fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let fields = self.fields();
        if fields.is_empty() {
            return writeln!(out, "no records");
        }
        let rows = self.cells(&fields);
        let is_number =
            |at: usize| rows.iter().all(|row| row[at].is_empty() || row[at].parse::<f64>().is_ok());
        let columns = fields.iter().enumerate();
        let columns: Vec<_> = columns
            .map(|(at, field)| if is_number(at) { Figures(field) } else { Text(field) })
            .collect();
        table_of(&columns, &rows, out)
    }

    /// The sum of a count over all calls of providers.
    pub(crate) fn sum_of(&self, count: &str) -> u64 {
        list_of(&self.state["providers"]).iter().filter_map(|of| of[count].as_u64()).sum()
    }

    /// How many records there are, and what is missing, and why.
    pub(crate) fn report(&self, err: &mut dyn Write) -> io::Result<()> {
        let providers = list_of(&self.state["providers"]);
        for provider in providers {
            let state = text(&provider["state"]);
            if matches!(&*state, "ok" | "cached") {
                continue;
            }
            let reason = provider["reason"].as_str().unwrap_or_default();
            let [name, call] = ["name", "call"].map(|key| text(&provider[key]));
            writeln!(err, "{name}.{call}: {state}: {}", visible(reason))?;
        }
        let calls = self.sum_of("calls");
        let cached = providers.iter().filter(|of| of["state"] == "cached").count();
        let total = &self.state["total"];
        let shown = self.rows.len();
        let shown = if total == &json!(shown) { String::new() } else { format!("{shown} of ") };
        let cache = match cached {
            0 => "",
            _ if cached == providers.len() => ", all from the cache",
            _ => ", some from the cache",
        };
        writeln!(err, "records: {shown}{total}; calls: {calls}{cache}")
    }
}

/// Visits the values of a record that are no objects, with their names.
fn visit(value: &Value, name: &mut String, each: &mut impl FnMut(&str, &Value)) {
    let Some(members) = value.as_object() else {
        each(name, value);
        return;
    };
    for (member, value) in members {
        let length = name.len();
        if length > 0 {
            name.push('.');
        }
        name.push_str(member);
        visit(value, name, each);
        name.truncate(length);
    }
}
