//! Keys and values as TOML writes them, for messages and for files that are written. It must not know
//! where they come from.

use std::fmt::Write as _;

/// Longest excerpt of a value in a message, in characters.
const EXCERPT_CHARS_MAX: usize = 60;

/// Joins a table's dotted key, empty at the root, and a name.
pub(super) fn joined(table: &str, name: &str) -> String {
    if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") }
}

/// A key in TOML: bare if possible, otherwise quoted.
pub(super) fn toml_key(name: &str) -> String {
    if is_bare(name) { name.to_owned() } else { quoted(name) }
}

/// A key in TOML, shortened: bare if possible, otherwise quoted.
pub(super) fn key_text(key: &str) -> String {
    if is_bare(key) { excerpt(key) } else { format!("\"{}\"", excerpt(key)) }
}

/// Whether TOML needs no quotes around a key.
fn is_bare(key: &str) -> bool {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !key.is_empty() && key.bytes().all(bare)
}

/// `text` as a TOML basic string.
pub(super) fn quoted(text: &str) -> String {
    let mut toml = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => toml.extend(['\\', character]),
            control if control.is_control() => {
                write!(toml, "\\u{:04X}", u32::from(control)).expect("a String takes any text");
            }
            other => toml.push(other),
        }
    }
    toml.push('"');
    toml
}

/// `text` on one line, shortened, without control characters.
pub(super) fn excerpt(text: &str) -> String {
    let mut shown = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == EXCERPT_CHARS_MAX {
            shown.push('…');
            break;
        }
        // A hostile file must not send control sequences to the terminal.
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}
