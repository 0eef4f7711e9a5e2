//! Writes declarations as the default file and the reference page. It must not read anything.

use std::fmt::Write as _;

use crate::config::declaration::{KeyDoc, Need, Nesting, Role};
use crate::config::toml_text::joined;

const WIDTH: usize = 96;

/// A file with every declared key, its documentation and its default; it loads without problems.
/// Prose follows `# `. A bare `#` comments out optional values, so removing it enables them.
pub fn default_toml(keys: &[KeyDoc]) -> String {
    let mut file = DefaultFile(String::new());
    file.table("", keys, false);
    file.0
}

struct DefaultFile(String);

impl DefaultFile {
    fn table(&mut self, path: &str, keys: &[KeyDoc], commented: bool) {
        // TOML requires a table's own values before its tables.
        for key in keys {
            self.value(key, commented);
        }
        for key in keys {
            let Role::Tables { nesting, keys } = &key.role else { continue };
            let path = joined(path, key.name);
            let commented = commented || matches!(nesting, Nesting::Table | Nesting::Tables);
            let header = if *nesting == Nesting::Tables {
                format!("[[{path}]]")
            } else {
                format!("[{path}]")
            };
            self.entry(key.doc, &header, commented);
            self.table(&path, keys, commented);
        }
    }

    fn value(&mut self, key: &KeyDoc, commented: bool) {
        let (note, written, optional) = match &key.role {
            Role::Value { form, need, written } => {
                let prefix = match need {
                    Need::Default => "",
                    Need::Optional => "optional: ",
                    Need::Required => "required: ",
                };
                let note = format!("{prefix}{}", form.phrase_with_range());
                (note, *written, *need == Need::Optional)
            }
            Role::Map(example) => ("optional: a table of strings".to_owned(), *example, true),
            Role::Secrets(example) => ("optional: a table of secrets".to_owned(), *example, true),
            Role::Tables { .. } | Role::Renamed(_) => return,
        };
        let prose = format!("{} ({note})", key.doc);
        let line = format!("{} = {}", key.name, written.to_toml());
        self.entry(&prose, &line, commented || optional);
    }

    fn entry(&mut self, prose: &str, line: &str, commented: bool) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        for line in wrapped(prose) {
            writeln!(self.0, "# {line}").expect("a String takes any text");
        }
        let mark = if commented { "#" } else { "" };
        writeln!(self.0, "{mark}{line}").expect("a String takes any text");
    }
}

/// Lines of at most [`WIDTH`] characters, except for longer words.
fn wrapped(prose: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in prose.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A reference page in Markdown: a heading per table, a row per key.
pub fn reference_markdown(keys: &[KeyDoc]) -> String {
    let mut page = String::new();
    rows(&mut page, keys);
    tables(&mut page, "", keys);
    page
}

fn tables(page: &mut String, path: &str, keys: &[KeyDoc]) {
    for key in keys {
        let Role::Tables { nesting, keys } = &key.role else { continue };
        let path = joined(path, key.name);
        let (header, count) = match nesting {
            Nesting::Section => (format!("[{path}]"), ""),
            Nesting::Service => (format!("[{path}]"), " Its presence switches the service on."),
            Nesting::Table => (format!("[{path}]"), " Optional."),
            Nesting::Tables => (format!("[[{path}]]"), " Optional; may be repeated."),
        };
        if !page.is_empty() {
            page.push('\n');
        }
        writeln!(page, "## `{header}`\n\n{}{count}\n", key.doc).expect("a String takes any text");
        rows(page, keys);
        tables(page, &path, keys);
    }
}

fn rows(page: &mut String, keys: &[KeyDoc]) {
    let rows: String = keys.iter().filter_map(row).collect();
    if !rows.is_empty() {
        page.push_str("| key | value | default | meaning |\n|---|---|---|---|\n");
        page.push_str(&rows);
    }
}

fn row(key: &KeyDoc) -> Option<String> {
    let (form, default) = match &key.role {
        Role::Value { form, need, written } => {
            let written = cell(&written.to_toml());
            let default = match need {
                Need::Default => format!("`{written}`"),
                Need::Optional => format!("none; e.g. `{written}`"),
                Need::Required => format!("**required**; e.g. `{written}`"),
            };
            (cell(&form.phrase_with_range()), default)
        }
        Role::Map(example) => {
            ("a table of strings".to_owned(), format!("none; e.g. `{}`", cell(&example.to_toml())))
        }
        Role::Secrets(example) => {
            ("a table of secrets".to_owned(), format!("none; e.g. `{}`", cell(&example.to_toml())))
        }
        Role::Renamed(new) => {
            return Some(format!("| `{}` | | | Renamed: write `{new}`. |\n", key.name));
        }
        Role::Tables { .. } => return None,
    };
    Some(format!("| `{}` | {form} | {default} | {} |\n", key.name, cell(key.doc)))
}

/// Text that cannot end a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
