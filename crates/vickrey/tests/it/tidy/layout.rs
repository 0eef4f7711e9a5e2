//! The layout of a crate's sources: at most a dozen entries per folder, imports only downward,
//! tests in one place.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Item, UseTree, Visibility};

/// Most files and folders in one folder. A module's file and its folder count once, tests do not count.
const ENTRIES_MAX: usize = 12;

/// Names of modules below the crate: `clearing::ranking` of `src/clearing/ranking.rs`.
type ModulePath = Vec<String>;

/// An import of one file from another file of its crate.
struct Import {
    /// The module whose file defines or re-exports the name.
    from: ModulePath,
    name: String,
    /// `pub use`: the file re-exports the name without using it.
    handed_on: bool,
}

struct SourceFile {
    path: String,
    module: ModulePath,
    imports: Vec<Import>,
}

/// The layout problems of one crate.
///
/// `sources` are paths below `src/` and texts.
pub fn problems(folder: &str, sources: &[(String, String)]) -> Vec<String> {
    let mut problems = crowded(folder, sources);
    problems.extend(misplaced(folder, sources));
    let files = files(sources);
    let place = |path: &str| format!("{folder}/src/{path}");
    problems.extend(upward(&files).into_iter().map(|problem| place(&problem)));
    problems.extend(circles(&files).into_iter().map(|problem| place(&problem)));
    problems
}

/// Whether a file below `src/` has tests.
pub fn is_test(path: &str) -> bool {
    let parts = path.trim_end_matches(".rs").split('/');
    parts.into_iter().any(|part| matches!(part, "tests" | "testing" | "fixtures"))
}

fn crowded(folder: &str, sources: &[(String, String)]) -> Vec<String> {
    let mut entries: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (path, _) in sources {
        let mut rest = path.trim_end_matches(".rs");
        loop {
            let (parent, name) = rest.rsplit_once('/').unwrap_or(("", rest));
            if !matches!(name, "lib" | "main" | "tests") {
                entries.entry(parent.to_owned()).or_default().insert(name);
            }
            if parent.is_empty() {
                break;
            }
            rest = parent;
        }
    }
    let crowded = entries.into_iter().filter(|(_, names)| names.len() > ENTRIES_MAX);
    let say = |(parent, names): (String, BTreeSet<&str>)| {
        format!("{folder}/src/{parent}: {} entries, at most {ENTRIES_MAX}", names.len())
    };
    crowded.map(say).collect()
}

fn misplaced(folder: &str, sources: &[(String, String)]) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, text) in sources {
        if path.ends_with("mod.rs") {
            problems.push(format!("{folder}/src/{path}: a module's file lies beside its folder"));
        }
        let lines = text.lines().count();
        let tests = text.lines().skip_while(|line| !line.starts_with("mod tests {")).count();
        if tests > lines / 3 {
            let own = path.trim_end_matches(".rs");
            problems.push(format!(
                "{folder}/src/{path}: {tests} of {lines} lines are tests, which go to {own}/tests.rs"
            ));
        }
    }
    problems
}

fn files(sources: &[(String, String)]) -> Vec<SourceFile> {
    let product: Vec<_> = sources.iter().filter(|(path, _)| !is_test(path)).collect();
    let modules: BTreeSet<_> = product.iter().map(|(path, _)| module(path)).collect();
    let file = |(path, text): &(String, String)| {
        let module = module(path);
        let parsed = syn::parse_file(text).expect("a source file is Rust");
        let scope = Scope { modules: &modules, module: &module };
        let mut imports = Vec::new();
        scope.gather(&parsed.items, &mut imports);
        SourceFile { path: path.clone(), module, imports }
    };
    product.into_iter().map(file).collect()
}

fn module(path: &str) -> ModulePath {
    let names = path.trim_end_matches(".rs").split('/');
    names.filter(|name| !matches!(*name, "lib" | "main" | "mod")).map(str::to_owned).collect()
}

/// The scope of a path: the existing modules, and the one that contains the path.
struct Scope<'a> {
    modules: &'a BTreeSet<ModulePath>,
    module: &'a ModulePath,
}

impl Scope<'_> {
    fn gather(&self, items: &[Item], imports: &mut Vec<Import>) {
        for item in items.iter().filter(|item| !of_tests(item)) {
            match item {
                Item::Use(item) => {
                    let handed_on = !matches!(item.vis, Visibility::Inherited);
                    let mut paths = Vec::new();
                    expand(&item.tree, &mut Vec::new(), &mut paths);
                    let found = paths.iter().filter_map(|path| self.resolve(path, handed_on));
                    imports.extend(found);
                }
                Item::Mod(module) => {
                    let within = module.content.as_ref().map_or(&[][..], |(_, items)| items);
                    self.gather(within, imports);
                }
                item => self.scan(item.to_token_stream(), imports),
            }
        }
    }

    /// Finds `a::b::C` in any code, including macros.
    fn scan(&self, tokens: TokenStream, imports: &mut Vec<Import>) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        let end = |path: &mut Vec<String>, imports: &mut Vec<Import>| {
            if path.len() > 1 {
                imports.extend(self.resolve(path, false));
            }
            path.clear();
        };
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        end(&mut path, imports);
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    end(&mut path, imports);
                    colons = 0;
                    // `pub(in crate::auction)` restricts visibility and uses nothing.
                    let text = group.to_string();
                    if !text.starts_with("(in ") && text != "(crate)" && text != "(super)" {
                        self.scan(group.stream(), imports);
                    }
                }
                _ => {
                    end(&mut path, imports);
                    colons = 0;
                }
            }
        }
        end(&mut path, imports);
    }

    /// The file of this crate that a path refers to. None for another crate, or for the file
    /// itself.
    fn resolve(&self, path: &[String], handed_on: bool) -> Option<Import> {
        let mut rest = path;
        let mut at: ModulePath = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => self.module.clone(),
            name => {
                let mut child = self.module.clone();
                child.push(name.to_owned());
                if !self.modules.contains(&child) {
                    return None;
                }
                rest = &path[1..];
                child
            }
        };
        while let Some(("crate" | "self", after)) = split(rest) {
            rest = after;
        }
        while let Some(("super", after)) = split(rest) {
            at.pop();
            rest = after;
        }
        while let Some((name, after)) = split(rest) {
            let mut child = at.clone();
            child.push(name.to_owned());
            if !self.modules.contains(&child) {
                break;
            }
            (at, rest) = (child, after);
        }
        let name = rest.first().cloned().unwrap_or_default();
        (at != *self.module).then_some(Import { from: at, name, handed_on })
    }
}

fn split(path: &[String]) -> Option<(&str, &[String])> {
    path.split_first().map(|(first, rest)| (first.as_str(), rest))
}

/// Whether the item is compiled only for tests, by `#[cfg(test)]` or a feature for tests.
fn of_tests(item: &Item) -> bool {
    let mut tokens = item.to_token_stream().into_iter();
    while let (Some(TokenTree::Punct(mark)), Some(TokenTree::Group(attribute))) =
        (tokens.next(), tokens.next())
    {
        let attribute = attribute.to_string();
        if mark.as_char() != '#' {
            return false;
        }
        if attribute.starts_with("[cfg (") && attribute.contains("test") {
            return true;
        }
    }
    false
}

fn expand(tree: &UseTree, prefix: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let mut end = |prefix: &[String], name: String| {
        let mut path = prefix.to_vec();
        path.push(name);
        paths.push(path);
    };
    match tree {
        UseTree::Name(name) => end(prefix, name.ident.to_string()),
        UseTree::Rename(name) => end(prefix, name.ident.to_string()),
        UseTree::Glob(_) => end(prefix, "*".to_owned()),
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            expand(&path.tree, prefix, paths);
            prefix.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                expand(tree, prefix, paths);
            }
        }
    }
}

/// Imports from the crate's root, and from a parent that imports from the child.
fn upward(files: &[SourceFile]) -> Vec<String> {
    let parents: BTreeMap<_, _> = files.iter().map(|file| (&file.module, file)).collect();
    let mut problems = BTreeSet::new();
    for file in files {
        for import in &file.imports {
            let above = file.module.starts_with(&import.from);
            if !above || import.name.is_empty() {
                continue;
            }
            let (path, name) = (&file.path, &import.name);
            if import.from.is_empty() {
                problems.insert(format!("{path}: `{name}` from the crate's root, not its module"));
                continue;
            }
            let child = &file.module[..=import.from.len()];
            let parent = parents[&import.from];
            let uses = |import: &&Import| !import.handed_on && import.from.starts_with(child);
            if let Some(back) = parent.imports.iter().find(uses) {
                problems.insert(format!(
                    "{path}: `{name}` of {}, which uses `{}` of it: a circle",
                    parent.path, back.name
                ));
            }
        }
    }
    problems.into_iter().collect()
}

/// Circles among the entries of each folder; a subfolder counts as one entry.
fn circles(files: &[SourceFile]) -> Vec<String> {
    let mut folders: BTreeMap<&[String], BTreeMap<&str, BTreeMap<&str, String>>> = BTreeMap::new();
    for file in files {
        for import in &file.imports {
            let shared = file.module.iter().zip(&import.from).take_while(|(a, b)| a == b).count();
            let (Some(from), Some(to)) = (file.module.get(shared), import.from.get(shared)) else {
                continue;
            };
            let arrows = folders.entry(&file.module[..shared]).or_default();
            let why = format!("{} uses {}::{}", file.path, import.from.join("::"), import.name);
            arrows.entry(from).or_default().entry(to).or_insert(why);
        }
    }
    let mut problems = Vec::new();
    for (folder, arrows) in &folders {
        for (from, targets) in arrows {
            for (to, why) in targets {
                // Reports each circle by the arrows that close it.
                if reaches(arrows, to, from) {
                    problems.push(format!("{}: in a circle: {why}", folder.join("/")));
                }
            }
        }
    }
    problems
}

fn reaches(arrows: &BTreeMap<&str, BTreeMap<&str, String>>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        if at == to {
            return true;
        }
        let targets = arrows.get(at).into_iter().flat_map(BTreeMap::keys);
        next.extend(targets.filter(|target| seen.insert(target)));
    }
    false
}

/// Checks the problems of a crate with these files. Each planted problem is reported, and no other.
fn check(sources: &[(&str, &str)], told: &[&str]) {
    let sources: Vec<_> =
        sources.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    assert_eq!(problems("c", &sources), told);
}

#[test]
fn imports_that_go_down_are_right() {
    check(
        &[
            ("lib.rs", "mod a; mod b; pub use a::Price;"),
            ("a.rs", "mod deep; pub use deep::Price; use crate::b::Bid; fn f() { deep::g(); }"),
            ("a/deep.rs", "use crate::b; pub struct Price(b::Bid); pub fn g() {}"),
            ("b.rs", "pub struct Bid; #[cfg(test)] mod tests;"),
            ("b/tests.rs", "use crate::a::Price; use super::Bid;"),
            // Some of a type's methods: the parent does not name the child.
            ("b/methods.rs", "use super::Bid; impl Bid { pub(in crate::b) fn f() {} }"),
        ],
        &[],
    );
}

#[test]
fn circles_are_found() {
    check(
        &[
            ("a.rs", "use crate::b::Bid;"),
            ("b.rs", "mod c; pub struct Bid;"),
            ("b/c.rs", "fn f() { vec![crate::a::Price]; }"),
        ],
        &["c/src/: in a circle: a.rs uses b::Bid", "c/src/: in a circle: b/c.rs uses a::Price"],
    );
    check(
        &[("a.rs", "mod b; use b::Bid; pub struct Price;"), ("a/b.rs", "use super::Price;")],
        &["c/src/a/b.rs: `Price` of a.rs, which uses `Bid` of it: a circle"],
    );
}

#[test]
fn imports_from_the_root_are_found() {
    check(
        &[("lib.rs", "pub struct Price;"), ("a.rs", "use crate::{Price};")],
        &["c/src/a.rs: `Price` from the crate's root, not its module"],
    );
}

#[test]
fn crowded_folders_and_misplaced_files_are_found() {
    let names: Vec<_> = (0..13).map(|number| format!("a/n{number}.rs")).collect();
    let crowd: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    check(&crowd[1..], &[]);
    check(&crowd, &["c/src/a: 13 entries, at most 12"]);
    check(&[("a/mod.rs", "")], &["c/src/a/mod.rs: a module's file lies beside its folder"]);
    let text = "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
    check(&[("a.rs", text)], &["c/src/a.rs: 3 of 5 lines are tests, which go to a/tests.rs"]);
}
