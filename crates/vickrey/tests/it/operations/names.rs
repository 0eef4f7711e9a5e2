//! Metric names in documents and scripts exist on the page of an exchange with all services.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::dashboard::{PREFIXES, is_name, page, page_with_remote_pacer};
use crate::program::root;

/// Folders and file endings of the texts that name metrics.
const PLACES: [(&str, &str); 7] = [
    ("", "md"),
    ("docs", "md"),
    ("docs/adr", "md"),
    ("bench", "md"),
    ("bench", "py"),
    ("bench/driver", "py"),
    ("deploy/prometheus", "yml"),
];

fn documents() -> Vec<PathBuf> {
    let files = PLACES.iter().flat_map(|(folder, ending)| {
        let found = std::fs::read_dir(root().join(folder)).unwrap();
        let found = found.map(|entry| entry.unwrap().path());
        found.filter(|path| path.extension().is_some_and(|of| of == *ending)).collect::<Vec<_>>()
    });
    files.collect()
}

/// Names that the page describes, and those of its samples.
fn names(page: &str) -> BTreeSet<&str> {
    let described = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let described = described.flat_map(|name| [name, name.trim_end_matches("_total")]);
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    described.chain(samples.filter_map(|line| line.split(['{', ' ']).next())).collect()
}

/// Every word of a text, with the text after it.
fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let from = &rest[rest.find(is_name)?..];
        let end = from.find(|character| !is_name(character)).unwrap_or(from.len());
        rest = &from[end..];
        Some(from.split_at(end))
    })
}

/// The metric names in a text that the page lacks.
fn problems(text: &str, page: &str) -> Vec<String> {
    let names = names(page);
    let short: BTreeSet<_> =
        names.iter().filter_map(|name| name.strip_prefix("vickrey_")).collect();
    let mut problems = Vec::new();
    for (word, after) in words(text) {
        if short.contains(word) && word.contains('_') {
            problems.push(format!("{word} lacks its prefix"));
        }
        if !PREFIXES.iter().any(|prefix| word.starts_with(prefix)) {
            continue;
        }
        // A name that ends in `_` is completed by a script, or is a prefix.
        let is_stem = word.ends_with('_') && names.iter().any(|name| name.starts_with(word));
        if !is_stem && !names.contains(word) {
            problems.push(format!("{word} is not on the page"));
        }
        let labels = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        for label in labels.iter().flat_map(|(labels, _)| labels.split(',')) {
            if is_stem {
                break;
            }
            let wanted = if label.contains('=') { label.to_owned() } else { format!("{label}=\"") };
            let of_word = |line: &&str| line.starts_with(word) && line.contains(&wanted);
            if !page.lines().any(|line| of_word(&line)) {
                problems.push(format!("{word} has no {wanted}"));
            }
        }
    }
    problems
}

#[test]
fn documents_name_metrics_as_the_page_does() {
    let (page, documents) = (page() + &page_with_remote_pacer(), documents());
    let mut found = Vec::new();
    let mut named = 0;
    for document in &documents {
        let text = std::fs::read_to_string(document).unwrap();
        // Scripts have labels of other runs and names of their own with `process_`; other tests
        // cover the alerts' selectors.
        let is_prose = document.extension().is_some_and(|of| of == "md");
        let text = if is_prose { text } else { text.replace("process_", " ").replace('{', " ") };
        named += words(&text).filter(|(word, _)| word.starts_with("vickrey_")).count();
        let path = document.strip_prefix(root()).unwrap_or(Path::new("")).display();
        found
            .extend(problems(&text, &page).into_iter().map(|problem| format!("{path}: {problem}")));
    }
    assert!(named > 100, "{named} names in {documents:?}");
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// Every metric in the operators' guide exists, and every exposed one is in the guide.
#[test]
fn every_metric_has_its_help() {
    let page = page();
    let described = page.lines().filter_map(|line| line.strip_prefix("# HELP "));
    for line in described {
        let (name, help) = line.split_once(' ').unwrap();
        assert!(help.len() > 10 && help.ends_with('.'), "{name}: {help}");
    }
    for name in ["vickrey_build_info", "process_cpu_seconds_total", "process_start_time_seconds"] {
        assert!(names(&page).contains(name), "{name}");
    }
}

#[test]
fn a_wrong_name_is_noticed() {
    let page = "# TYPE vickrey_x_total counter\nvickrey_x_total{kind=\"one\"} 1\n\
                # TYPE process_y gauge\nprocess_y 1\n";
    let check = |text: &str, want: &[&str]| assert_eq!(problems(text, page), want, "{text}");
    check("`vickrey_x_total{kind}`, vickrey_x_total{kind=\"one\"}, `vickrey_x`, process_y", &[]);
    check("all that begin with `vickrey_`, or f'vickrey_x_{name}_total{label}'", &[]);
    check("x_total counts", &["x_total lacks its prefix"]);
    check("vickrey_z", &["vickrey_z is not on the page"]);
    check("vickrey_x_total{sort}", &["vickrey_x_total has no sort=\""]);
    check("vickrey_x_total{kind=\"two\"}", &["vickrey_x_total has no kind=\"two\""]);
    check("process_z", &["process_z is not on the page"]);
}
