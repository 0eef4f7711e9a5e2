//! Names of types: each is met once.

use std::collections::BTreeMap;

use syn::Item;

/// Names that every crate or module may have.
const COMMON: [&str; 2] = ["Config", "Error"];

/// Types of the sources, by path and text, that share a name with another.
pub fn problems(sources: &[(String, String)]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (path, text) in sources {
        let file = syn::parse_file(text).expect("a source file is Rust");
        gather(&file.items, path, &mut places);
    }
    let shared = places.into_iter().filter(|(name, at)| at.len() > 1 && !COMMON.contains(&&**name));
    shared.map(|(name, at)| format!("{name} is met in {}", at.join(", "))).collect()
}

fn gather<'p>(items: &[Item], path: &'p str, places: &mut BTreeMap<String, Vec<&'p str>>) {
    for item in items {
        let name = match item {
            Item::Enum(it) => &it.ident,
            Item::Struct(it) => &it.ident,
            Item::Trait(it) => &it.ident,
            Item::Type(it) => &it.ident,
            Item::Mod(it) if it.ident != "tests" => {
                gather(it.content.as_ref().map_or(&[], |(_, items)| items), path, places);
                continue;
            }
            _ => continue,
        };
        places.entry(name.to_string()).or_default().push(path);
    }
}

#[test]
fn shared_names_are_found() {
    let source = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let sources = [
        source("a.rs", "struct Bid; struct Error; mod tests { struct Seat; }"),
        source("b.rs", "enum Seat {} type Error = (); mod inner { trait Bid {} }"),
    ];
    assert_eq!(problems(&sources), ["Bid is met in a.rs, b.rs"]);
}
