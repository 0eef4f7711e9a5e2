//! The rows' schema in docs/log.md equals that of the code.

use std::fmt::Write as _;

const SOURCE: &str = include_str!("../../src/row.rs");
const PAGE: &str = include_str!("../../../../docs/log.md");

/// The type of a column, in the terms of columnar formats.
fn kind(rust: &str) -> String {
    let within = |outer: &str| rust.strip_prefix(outer).and_then(|rest| rest.strip_suffix('>'));
    match rust {
        "u64" => "uint64".to_owned(),
        "i64" => "int64".to_owned(),
        "bool" => "bool".to_owned(),
        "String" | "Label" => "string".to_owned(),
        _ if let Some(of) = within("Option<") => format!("{} or null", kind(of)),
        _ if let Some(of) = within("Vec<") => format!("list of {}", kind(of)),
        _ => rust.strip_suffix("Row").map_or_else(
            || panic!("`{rust}` is no type of a column"),
            |name| format!("[{name}](#{})", name.to_lowercase()),
        ),
    }
}

/// A heading and a table for each structure.
fn tables() -> String {
    let mut out = String::new();
    let mut about = Vec::new();
    let mut is_within = false;
    for line in SOURCE.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            about.push(text.trim());
        } else if let Some(rest) = line.strip_prefix("pub struct ") {
            let name = rest.trim_end_matches([' ', '{']);
            let name = name.strip_suffix("Row").filter(|name| !name.is_empty()).unwrap_or(name);
            let _ = write!(out, "\n### {name}\n\n{}\n", about.join("\n").trim());
            out.push_str("\n| column | type | what |\n|---|---|---|\n");
            about.clear();
            is_within = true;
        } else if let Some(rest) = line.strip_prefix("pub ").filter(|_| is_within) {
            let (name, rust) = rest.trim_end_matches(',').split_once(": ").expect("a field");
            let _ = writeln!(out, "| `{name}` | {} | {} |", kind(rust), about.join(" "));
            about.clear();
        } else if !line.starts_with('#') {
            about.clear();
            is_within &= line != "}";
        }
    }
    out
}

#[test]
fn the_page_has_the_schema_of_the_code() {
    let tables = tables();
    assert!(tables.matches("| `").count() > 80, "{tables}");
    let (_, rest) = PAGE.split_once("<!-- schema -->\n").expect("the page has a place for it");
    let (page, _) = rest.split_once("\n<!-- end of schema -->").expect("which ends");
    assert!(page.trim() == tables.trim(), "docs/log.md should say:\n{tables}");
}
