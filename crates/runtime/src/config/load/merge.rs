//! Merges the tables of several files: tables merge key by key, arrays of tables append, and
//! anything else must not occur twice. It must not know keys or their meaning.

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::config::problem::{KeyPlace, ProblemLog};
use crate::config::source::SourceTexts;
use crate::config::toml_text::{joined, key_text};

/// Adds `base`, where the file begins among all files, to all offsets.
pub(in crate::config) fn moved(table: DeTable<'_>, base: usize) -> DeTable<'_> {
    let mut moved = DeTable::new();
    for (name, value) in table {
        moved.insert(respanned(name, base), moved_value(value, base));
    }
    moved
}

fn moved_value(value: Spanned<DeValue<'_>>, base: usize) -> Spanned<DeValue<'_>> {
    let value = respanned(value, base);
    let span = value.span();
    let inner = match value.into_inner() {
        DeValue::Table(table) => DeValue::Table(moved(table, base)),
        DeValue::Array(array) => {
            DeValue::Array(array.into_iter().map(|item| moved_value(item, base)).collect())
        }
        other => other,
    };
    Spanned::new(span, inner)
}

fn respanned<T>(spanned: Spanned<T>, base: usize) -> Spanned<T> {
    let span = spanned.span();
    Spanned::new(span.start + base..span.end + base, spanned.into_inner())
}

/// Merges `from` into `into`, the table at the dotted key `path`; records duplicates.
pub(in crate::config) fn merge<'a>(
    into: &mut DeTable<'a>,
    from: DeTable<'a>,
    path: &str,
    source: &SourceTexts<'_>,
    log: &mut ProblemLog,
) {
    for (name, value) in from {
        let first = into
            .get_key_value(name.get_ref().as_ref())
            .map(|(name, _)| source.place(name.span().start));
        let (Some(first), Some(present)) = (first, into.get_mut(name.get_ref().as_ref())) else {
            into.insert(name, value);
            continue;
        };
        let path = joined(path, &key_text(name.get_ref()));
        match (present.get_mut(), value.into_inner()) {
            (DeValue::Table(into), DeValue::Table(from)) => merge(into, from, &path, source, log),
            (DeValue::Array(into), DeValue::Array(from)) if are_tables(into, &from) => {
                for item in from {
                    into.push(item);
                }
            }
            _ => {
                let place = source.place(name.span().start);
                log.note(source, KeyPlace { place: Some(place), key: path }, None, || {
                    let (file, line) = (source.name(first.file), first.line);
                    format!("is given already in {file} line {line}, keep one of them")
                });
            }
        }
    }
}

/// Whether both are lists of tables, which append. Two empty lists are not.
fn are_tables(some: &DeArray<'_>, more: &DeArray<'_>) -> bool {
    let mut items = some.iter().chain(more.iter()).peekable();
    items.peek().is_some() && items.all(|item| item.get_ref().is_table())
}
