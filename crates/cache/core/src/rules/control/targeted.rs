//! Targeted cache control (RFC 9213): fields such as `CDN-Cache-Control`, which are structured
//! dictionaries.

use http::{HeaderMap, HeaderName};
use sfv::{BareItem, Dictionary, ListEntry, Parser};

use super::directives::{Argument, Directive};
use super::response::{ControlReader, ResponseControl};

/// Reads a targeted field. None if it is absent, empty or no dictionary: it is ignored then
/// (section 2.1).
pub(super) fn read(headers: &HeaderMap, name: &HeaderName) -> Option<ResponseControl> {
    let lines: Vec<_> = headers.get_all(name).iter().map(http::HeaderValue::as_bytes).collect();
    let dictionary: Dictionary = Parser::new(&lines.join(&b", "[..])).parse().ok()?;
    if dictionary.is_empty() {
        return None;
    }
    let mut reader = ControlReader::default();
    for (name, entry) in &dictionary {
        let ListEntry::Item(item) = entry else { continue };
        // A value of another type than the directive's is ignored; parameters are.
        let argument = match &item.bare_item {
            BareItem::Boolean(true) => Argument::Absent,
            BareItem::Integer(number) => Argument::Value(i64::from(*number).to_string().into()),
            BareItem::String(text) => Argument::Value(text.as_str().into()),
            BareItem::Token(text) => Argument::Value(text.as_str().into()),
            _ => continue,
        };
        if is_typed(name.as_str(), &item.bare_item) {
            reader.take(&Directive { name: name.as_str(), argument });
        }
    }
    Some(ResponseControl { is_targeted: true, ..reader.finish() })
}

/// Whether the value has the type of the directive.
fn is_typed(name: &str, value: &BareItem) -> bool {
    match name {
        "max-age" | "s-maxage" | "stale-while-revalidate" | "stale-if-error" => {
            matches!(value, BareItem::Integer(number) if i64::from(*number) >= 0)
        }
        "no-cache" | "private" => {
            matches!(value, BareItem::Boolean(true) | BareItem::String(_) | BareItem::Token(_))
        }
        _ => matches!(value, BareItem::Boolean(true)),
    }
}
