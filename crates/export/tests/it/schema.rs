//! The promised columns of a row.

use std::fmt::Write as _;

use arrow_schema::{DataType, Field};
use audit::AuctionRow;
use export::TableColumns;

fn list(field: &Field, path: &str, text: &mut String) {
    let null = if field.is_nullable() { ", may be null" } else { "" };
    let below = |inner: &arrow_schema::Fields, path: &str, text: &mut String| {
        for field in inner {
            list(field, &format!("{path}.{}", field.name()), text);
        }
    };
    match field.data_type() {
        DataType::List(item) => {
            assert!(!item.is_nullable(), "{path}");
            let DataType::Struct(inner) = item.data_type() else {
                writeln!(text, "{path}: list of {}{null}", item.data_type()).expect("it fits");
                return;
            };
            writeln!(text, "{path}: list of struct{null}").expect("it fits");
            below(inner, &format!("{path}[]"), text);
        }
        kind => writeln!(text, "{path}: {kind}{null}").expect("it fits"),
    }
}

/// Columns are only added, because readers combine old and new files. An existing column or its
/// type must not change by accident.
#[test]
fn columns_are_those_that_are_promised() {
    let mut text = String::new();
    for field in TableColumns::of::<AuctionRow>().unwrap().schema().fields() {
        list(field, field.name(), &mut text);
    }
    let promised = include_str!("schema.txt");
    assert_eq!(text, promised, "columns are only added; put the new text into schema.txt");
}

/// The folder's own column must not collide with one of the row's.
#[test]
fn no_column_is_called_as_the_partition_is() {
    assert!(TableColumns::of::<AuctionRow>().unwrap().schema().column_with_name("hour").is_none());
}
