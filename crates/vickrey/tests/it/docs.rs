//! Documents that must match the code: the reference of keys, and the map from requirements to
//! tests.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::program::{root, run, vickrey};

#[test]
fn the_references_of_keys_are_what_the_binary_prints() {
    for (page, options) in [("configuration", &[][..]), ("lookup", &["--maps"])] {
        let command = [&["config", "reference"], options].concat();
        let (_, printed, _) = run(&mut vickrey(&command));
        let text = std::fs::read_to_string(root().join(format!("docs/{page}.md"))).unwrap();
        let command = command.join(" ");
        let remedy = format!("run: vickrey {command}, and replace all after the marker");
        let (_, generated) = text.split_once("<!-- generated -->\n").expect(&remedy);
        assert!(generated.trim() == printed.trim(), "docs/{page}.md is stale; {remedy}");
    }
}

/// A test, as `file::function`.
fn exists(test: &str) -> Result<(), String> {
    let (file, function) =
        test.split_once("::").ok_or_else(|| format!("{test}: expected file::function"))?;
    let path = root().join(file);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{test}: {error}"))?;
    let is_test = match Path::new(file).extension().and_then(|extension| extension.to_str()) {
        Some("rs") if !function.ends_with('!') => text.contains(&format!("fn {function}(")),
        Some("go") => text.contains(&format!("func {function}(")),
        Some("py") => text.contains(&format!("def {function}(")),
        _ => text.contains(function),
    };
    if is_test { Ok(()) } else { Err(format!("{test}: {file} has no such test")) }
}

/// Every requirement names the tests that fail when it breaks, and those tests exist.
#[test]
fn every_requirement_has_its_test() {
    let text = std::fs::read_to_string(root().join("docs/coverage.toml")).unwrap();
    let table = DeTable::parse(&text).expect("docs/coverage.toml is TOML").into_inner();
    let requirements = table.get("requirement").expect("there are requirements").get_ref();
    let requirements = requirements.as_array().expect("requirements are tables");
    let mut problems = Vec::new();
    let mut ids = std::collections::BTreeSet::new();
    for requirement in requirements {
        let requirement = requirement.get_ref().as_table().expect("a requirement is a table");
        let text = |key: &str| {
            requirement.get(key).and_then(|value| value.get_ref().as_str()).unwrap_or_default()
        };
        let id = text("id");
        if id.is_empty() || text("text").is_empty() {
            problems.push(format!("a requirement lacks `id` or `text`: `{id}`"));
        }
        if !ids.insert(id.to_owned()) {
            problems.push(format!("{id}: stands twice"));
        }
        let tests = requirement.get("tests").map(toml::Spanned::get_ref);
        let tests = tests.and_then(DeValue::as_array).map(|tests| tests.iter().collect::<Vec<_>>());
        let tests = tests.unwrap_or_default();
        if tests.is_empty() {
            problems.push(format!("{id}: no test fails when it breaks"));
        }
        for test in tests {
            let test = test.get_ref().as_str().expect("a test is text");
            if let Err(problem) = exists(test) {
                problems.push(format!("{id}: {problem}"));
            }
        }
    }
    assert!(problems.is_empty(), "\n  {}", problems.join("\n  "));
}

/// The tests that docs/rfc9111.md names exist, and its gaps are said in words.
#[test]
fn every_sentence_of_the_caching_standard_has_its_test() {
    let page = std::fs::read_to_string(root().join("docs/rfc9111.md")).unwrap();
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 60, "{} rows", rows.len());
    let mut problems = Vec::new();
    for row in rows {
        let test = row.trim_end_matches(" |").rsplit("| ").next().unwrap_or_default();
        let named = test.strip_prefix('`').and_then(|test| test.strip_suffix('`'));
        match named {
            Some(test) => problems.extend(exists(&format!("crates/cache/{test}")).err()),
            None if test.starts_with("not done: ") || test.starts_with("gap: ") => (),
            None => problems.push(format!("{row}: neither a test nor a gap")),
        }
    }
    assert!(problems.is_empty(), "\n  {}", problems.join("\n  "));
}

#[test]
fn a_requirement_without_its_test_is_noticed() {
    assert!(exists("crates/vickrey/tests/it/docs.rs::every_requirement_has_its_test").is_ok());
    assert!(exists("crates/vickrey/tests/it/docs.rs::no_such_test").is_err());
    assert!(exists("crates/vickrey/tests/it/none.rs::x").is_err());
    assert!(exists("every_requirement_has_its_test").is_err());
}
