//! The rules that a machine can check. A rule that nothing executes is deleted.

mod layout;
mod names;
mod parameters;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::program::root;

/// Longest source file, tests included.
const LINES_MAX: usize = 800;

/// The packages of ours on which each may depend.
const ARROWS: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("diagnostics", &[]),
    ("openrtb", &["units"]),
    ("http-kit", &[]),
    ("http2", &[]),
    ("runtime", &["diagnostics", "http-kit", "units"]),
    ("events", &[]),
    ("exchange-core", &["events", "openrtb", "pacer-core", "units"]),
    (
        "exchange-serve",
        &[
            "audit",
            "diagnostics",
            "eventlog",
            "events",
            "exchange-core",
            "http-kit",
            "http2",
            "openrtb",
            "pacer-client",
            "pacer-core",
            "record",
            "runtime",
            "units",
        ],
    ),
    ("record", &["eventlog", "events", "runtime"]),
    // It shares no protocol code with the code under test.
    ("eventlog", &["faults"]),
    ("audit", &["diagnostics", "eventlog", "events", "exchange-core", "openrtb", "units"]),
    ("export", &[]),
    // Only for tests: no binary contains it.
    ("faults", &["units"]),
    ("pacer-client", &["pacer-wire", "units"]),
    ("pacer-core", &["faults", "units"]),
    (
        "pacer-serve",
        &["diagnostics", "eventlog", "events", "pacer-core", "pacer-wire", "runtime", "units"],
    ),
    ("pacer-wire", &["units"]),
    ("bravo", &[]),
    ("cache-core", &["bravo"]),
    ("cache-disk", &["cache-core", "eventlog"]),
    ("cache-serve", &["bravo", "cache-core", "cache-disk", "eventlog", "http-kit", "runtime"]),
    ("live-core", &["units"]),
    (
        "live-serve",
        &["audit", "eventlog", "events", "http-kit", "live-core", "record", "runtime", "units"],
    ),
    ("lookup-core", &["diagnostics", "units"]),
    ("lookup-serve", &["cache-disk", "http-kit", "lookup-core", "runtime", "units"]),
    ("whatif", &["pacer-core", "units"]),
    ("sim", &["exchange-core", "faults", "pacer-core", "units"]),
    ("testbed", &["http2", "pacer-wire", "runtime", "units"]),
    (
        "vickrey",
        &[
            "audit",
            "cache-serve",
            "diagnostics",
            "exchange-core",
            "exchange-serve",
            "export",
            "http-kit",
            "live-core",
            "live-serve",
            "lookup-core",
            "lookup-serve",
            "openrtb",
            "pacer-client",
            "pacer-core",
            "pacer-serve",
            "pacer-wire",
            "record",
            "runtime",
            "testbed",
            "units",
            "whatif",
        ],
    ),
    ("bench-cache", &["bravo", "cache-core", "testbed"]),
    ("bench-floor", &[]),
    ("bench-ledger", &["pacer-core", "pacer-serve", "units"]),
    ("bench-live", &[]),
    ("bench-log", &["eventlog"]),
    (
        "bench-lookup",
        &[
            "exchange-core",
            "exchange-serve",
            "lookup-core",
            "lookup-serve",
            "openrtb",
            "runtime",
            "testbed",
            "units",
        ],
    ),
    ("bench-pacer", &["pacer-core", "units"]),
];

/// The cores besides those whose names end in `-core`.
const CORES: [&str; 6] = ["diagnostics", "events", "http2", "openrtb", "pacer-wire", "units"];

/// External packages that a core may use: pure code without I/O, clock, thread or randomness.
const CORE_DEPENDENCIES: &[&str] = &[
    // Hashes and tables; seeds are arguments.
    "ahash",
    "base64",
    "bytes",
    "chacha20poly1305",
    "compact_str",
    "crc32c",
    // Of bytes in memory.
    "csv",
    "hashbrown",
    "http",
    "httpdate",
    // Tables of Unicode, compiled in.
    "idna",
    "itoa",
    // Calendars; its clock is forbidden below.
    "jiff",
    "libm",
    "memchr",
    "prost",
    "quick-xml",
    "serde",
    "serde_json",
    "serde_path_to_error",
    "sfv",
    "sha1",
    "siphasher",
    "strsim",
    // Names of variants, derived at compile time.
    "strum",
    "thiserror",
    "url",
    // Casts between bytes and layouts, checked at compile time.
    "zerocopy",
];

/// Texts that a core must not contain: time, randomness and I/O are arguments.
const CORE_FORBIDDEN: &[&str] = &[
    "std::net",
    "std::fs",
    "std::thread",
    "std::io",
    "std::env",
    "Instant",
    "SystemTime",
    "Timestamp::now",
    "Zoned::now",
    "rand::",
    "tokio",
    "async ",
    ".await",
];

/// Markers of unfinished work, assembled so that this file does not contain them.
fn unfinished() -> Vec<String> {
    [["TO", "DO"], ["FIX", "ME"], ["todo", "!("], ["unimplemented", "!("]]
        .map(|halves| halves.concat())
        .to_vec()
}

/// Every file under `folder` with one of the extensions, except for build outputs.
fn files(folder: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                files(&path, extensions, found);
            }
        } else if extensions.iter().any(|extension| name.ends_with(extension)) {
            found.push(path);
        }
    }
}

fn sources(extensions: &[&str]) -> Vec<(String, String)> {
    let root = root();
    let mut paths = Vec::new();
    files(&root, extensions, &mut paths);
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path.strip_prefix(&root).unwrap().to_string_lossy().into_owned(), text)
    };
    let mut sources: Vec<_> = paths.into_iter().map(read).collect();
    sources.sort();
    sources
}

fn none(problems: &[String]) {
    assert!(problems.is_empty(), "\n  {}", problems.join("\n  "));
}

#[test]
fn files_are_short_and_say_what_they_own() {
    let mut problems = Vec::new();
    for (path, text) in sources(&[".rs", ".py", ".go", ".html"]) {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            problems.push(format!("{path}: {lines} lines, at most {LINES_MAX}"));
        }
        if path.ends_with(".rs") && !text.starts_with("//!") {
            problems.push(format!("{path}: does not open with `//!`, what it owns"));
        }
    }
    none(&problems);
}

#[test]
fn nothing_is_left_unfinished() {
    let words = unfinished();
    let mut problems = Vec::new();
    for (path, text) in sources(&[".rs", ".py", ".go", ".md", ".toml"]) {
        for (number, line) in text.lines().enumerate() {
            for word in words.iter().filter(|word| line.contains(word.as_str())) {
                problems.push(format!("{path}:{}: {word}", number + 1));
            }
        }
    }
    none(&problems);
}

/// Direct dependencies of a package, except for those of its tests.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let table = toml::de::DeTable::parse(manifest).expect("a manifest is TOML").into_inner();
    let dependencies = table.get("dependencies").and_then(|table| table.get_ref().as_table());
    let names =
        dependencies.map(|table| table.keys().map(|key| key.get_ref().to_string()).collect());
    names.unwrap_or_default()
}

struct Manifest {
    /// The package's folder, from the root.
    folder: String,
    dependencies: BTreeSet<String>,
}

fn manifests() -> BTreeMap<String, Manifest> {
    let manifests = sources(&["Cargo.toml"]);
    let named = manifests.into_iter().filter_map(|(path, text)| {
        let table = toml::de::DeTable::parse(&text).expect("a manifest is TOML").into_inner();
        let package =
            table.get("package")?.get_ref().as_table()?.get("name")?.get_ref().as_str()?;
        let folder = path.strip_suffix("/Cargo.toml")?.to_owned();
        let manifest = Manifest { folder, dependencies: dependencies(&text) };
        (path != "fuzz/Cargo.toml").then(|| (package.to_owned(), manifest))
    });
    named.collect()
}

#[test]
fn arrows_point_one_way() {
    let manifests = manifests();
    let own: BTreeSet<_> = manifests.keys().cloned().collect();
    let known: BTreeSet<_> = ARROWS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(own, known, "every package has its arrows here");
    let mut problems = Vec::new();
    for (name, allowed) in ARROWS {
        for dependency in manifests[*name].dependencies.intersection(&own) {
            if !allowed.contains(&dependency.as_str()) {
                problems.push(format!("{name} must not depend on {dependency}"));
            }
        }
    }
    none(&problems);
}

#[test]
fn cores_are_pure() {
    let manifests = manifests();
    let own: BTreeSet<_> = manifests.keys().cloned().collect();
    let mut problems = Vec::new();
    let sources = sources(&[".rs"]);
    let is_core = |name: &str| name.ends_with("-core") || CORES.contains(&name);
    for (core, manifest) in manifests.iter().filter(|(name, _)| is_core(name)) {
        for dependency in manifest.dependencies.difference(&own) {
            if !CORE_DEPENDENCIES.contains(&dependency.as_str()) {
                problems
                    .push(format!("{core}: {dependency} is not among what a core is built from"));
            }
        }
        let folder = format!("{}/src/", manifest.folder);
        for (path, text) in sources.iter().filter(|(path, _)| path.starts_with(&folder)) {
            for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
                for word in CORE_FORBIDDEN.iter().filter(|word| line.contains(**word)) {
                    problems.push(format!("{path}: `{word}` in `{}`", line.trim()));
                }
            }
        }
    }
    none(&problems);
}

#[test]
fn every_dependency_is_explained() {
    let page = std::fs::read_to_string(root().join("docs/dependencies.md")).unwrap();
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let table = toml::de::DeTable::parse(&manifest).unwrap().into_inner();
    let workspace = table.get("workspace").unwrap().get_ref().as_table().unwrap();
    let listed = workspace.get("dependencies").unwrap().get_ref().as_table().unwrap();
    let mut problems = Vec::new();
    for (name, value) in listed {
        let ours = value.get_ref().as_table().is_some_and(|table| table.contains_key("path"));
        if !ours && !page.contains(&format!("| `{}` |", name.get_ref())) {
            problems.push(format!("docs/dependencies.md does not explain `{}`", name.get_ref()));
        }
    }
    none(&problems);
}

/// Sources of our crates, by crate and path below its `src/`.
fn crates() -> BTreeMap<String, Vec<(String, String)>> {
    let mut crates: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (path, text) in sources(&[".rs"]) {
        if let Some((folder, below)) = path.split_once("/src/")
            && folder.starts_with("crates/")
        {
            crates.entry(folder.to_owned()).or_default().push((below.to_owned(), text));
        }
    }
    crates
}

#[test]
fn imports_go_down_and_folders_hold_a_dozen() {
    let problems =
        crates().into_iter().map(|(folder, sources)| layout::problems(&folder, &sources));
    none(&problems.flatten().collect::<Vec<_>>());
}

#[test]
fn functions_take_few_parameters() {
    let mut problems = Vec::new();
    for (folder, sources) in crates() {
        for (path, text) in sources.iter().filter(|(path, _)| !layout::is_test(path)) {
            problems.extend(parameters::problems(&format!("{folder}/src/{path}"), text));
        }
    }
    none(&problems);
}

#[test]
fn names_of_types_are_met_once() {
    let mut sources = Vec::new();
    for (folder, files) in crates() {
        let product = files.into_iter().filter(|(path, _)| !layout::is_test(path));
        sources.extend(product.map(|(path, text)| (format!("{folder}/src/{path}"), text)));
    }
    none(&names::problems(&sources));
}

/// A patch must apply; `make mutants` checks that a test catches it.
#[test]
fn mutants_apply() {
    let mut patches = Vec::new();
    files(&root().join("crates/sim/mutants"), &[".patch"], &mut patches);
    assert!(patches.len() > 20, "{} mutants", patches.len());
    let mut problems = Vec::new();
    for patch in patches {
        let name = patch.file_name().unwrap().to_string_lossy().into_owned();
        let mut git = std::process::Command::new("git");
        let output =
            git.current_dir(root()).args(["apply", "--check"]).arg(&patch).output().unwrap();
        if !output.status.success() {
            problems.push(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
    }
    none(&problems);
}
