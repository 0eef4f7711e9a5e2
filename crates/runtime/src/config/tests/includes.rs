//! Included files: valid content, merging, and file names in problems.

use std::path::Path;

use super::super::{
    FILES_BYTES_MAX, INCLUDES_MAX, Optional, Required, Section, load, load_tracked, parse,
};
use super::Folder;

#[derive(Debug, Default, PartialEq)]
struct Market {
    dsps: Vec<(String, u32)>,
    rates: Vec<String>,
    base: String,
    deals: Vec<String>,
}

fn market(s: &mut Section<'_>) -> Market {
    s.includes();
    let (base, rates) = s.section("currency", "Rates.", |s| {
        let rates = s.map("rates", &[], |name, text| Ok(format!("{name}={text}")), "Worth.");
        s.renamed("foundation", "base");
        s.renamed("floor", "dsp_floor");
        (s.text("base", "USD", "Base."), rates)
    });
    let dsps = s.tables("dsp", "A DSP.", |s| {
        s.renamed("name", "id");
        let qps = s.integer("qps", 1, 1..=100_u32, "Calls.");
        (s.text("id", Required("acme"), "Its name."), qps)
    });
    let deals = s.tables("deal", "A deal.", |s| {
        let dsp = s.text("dsp", Required("acme"), "Whose.");
        if dsps.iter().all(|(id, _)| *id != dsp) {
            s.problem("dsp", "", "is no DSP");
        }
        dsp
    });
    s.integers::<u8, _>("cores", Optional(&[1]), .., "Cores.");
    s.table("node", "Ours.", |s| s.text("asi", Required("a.example"), "Domain."));
    Market { dsps, rates, base, deals }
}

/// Loads `vickrey.toml` among these files.
#[track_caller]
fn check(files: &[(&str, &str)], want: &[&str]) {
    let folder = Folder::of(files);
    assert_eq!(folder.problems(market), want, "{files:?}");
}

#[test]
fn tables_append_and_merge_in_order() {
    let folder = Folder::of(&[
        (
            "vickrey.toml",
            "include = ['d/*.toml', 'rates.toml', 'd/b.toml']\n[[dsp]]\nid = 'main'\n\
             [currency]\nbase = 'EUR'\n[currency.rates]\nGBP = '1.2'\n",
        ),
        ("d/b.toml", "[[dsp]]\nid = 'b1'\n[[dsp]]\nid = 'b2'\nqps = 7\n"),
        ("d/a.toml", "dsp = [{ id = 'a' }]\n[[deal]]\ndsp = 'b2'\n"),
        ("d/.hidden.toml", "[[dsp]]\nid = 'hidden'\n"),
        ("d/c.toml~", "[[dsp]]\nid = 'backup'\n"),
        ("rates.toml", "[currency.rates]\nUSD = '0.9'\n"),
    ]);
    let dsp = |id: &str, qps| (id.to_owned(), qps);
    let want = Market {
        dsps: vec![dsp("main", 1), dsp("a", 1), dsp("b1", 1), dsp("b2", 7)],
        rates: vec!["GBP=1.2".to_owned(), "USD=0.9".to_owned()],
        base: "EUR".to_owned(),
        deals: vec!["b2".to_owned()],
    };
    let (loaded, sources) = load_tracked(&folder.main(), market);
    assert_eq!(loaded.unwrap().value, want);
    let mut paths: Vec<_> = sources.paths().map(|path| folder.relative(path)).collect();
    paths.sort();
    assert_eq!(paths, ["d", "d/a.toml", "d/b.toml", "rates.toml", "vickrey.toml"]);
    assert_eq!(sources.now(), sources);
}

#[test]
fn problems_name_their_file_and_line_and_come_together() {
    check(
        &[
            ("vickrey.toml", "include = ['d/*.toml']\n[currency]\nbase = ''\n[[dsp]]\nqps = 0\n"),
            ("d/a.toml", "\n[[dsp]]\nid = 5\n"),
            ("d/b.toml", "[[dsp]]\nid = 'b'\nqps = 101\nx = 1\n[[deal]]\ndsp = 'none'\n"),
            ("d/c.toml", "cores = [1,\n  900]\n[currency]\nfoundation = 5\nfloor = '1 USD'\n"),
            ("d/d.toml", "[[dsp]]\nname = 7\nid = 'd'\n[[dsp]]\n[currency.rates]\nX = 1\n"),
        ],
        &[
            "line 3: currency.base = '': must not be empty",
            "line 4: dsp[0].id: is missing, expected text, for example \"acme\"",
            "line 5: dsp[0].qps = 0: must be from 1 to 100",
            "d/a.toml line 3: dsp[1].id = 5: expected text, for example \"acme\"",
            "d/b.toml line 3: dsp[2].qps = 101: must be from 1 to 100",
            "d/b.toml line 4: dsp[2].x = 1: unknown key, remove it",
            "d/b.toml line 6: deal[0].dsp = 'none': is no DSP",
            "d/c.toml line 2: cores[1] = 900: must be at most 255",
            "d/c.toml line 4: currency.foundation = 5: is now called `base`, rename it",
            "d/c.toml line 5: currency.floor = '1 USD': is now called `dsp_floor`, rename it",
            "d/d.toml line 2: dsp[3].name = 7: is now called `id`, rename it",
            "d/d.toml line 4: dsp[4].id: is missing, expected text, for example \"acme\"",
            "d/d.toml line 6: currency.rates.X = 1: expected text",
        ],
    );
}

#[test]
fn what_is_given_twice_names_both_places() {
    check(
        &[
            ("vickrey.toml", "include = ['a.toml', 'b.toml']\ncores = [1]\n[currency]\nbase = 'A'"),
            (
                "a.toml",
                "cores = [2]\n\n[currency]\nbase = 'A'\nrates = { X = '1' }\n[[dsp]]\nid = 'a'",
            ),
            ("b.toml", "dsp = { id = 'b' }\ndeal = [5]\n[currency.rates]\nX = '1'\nY = '2'"),
        ],
        &[
            "a.toml line 1: cores: is given already in vickrey.toml line 2, keep one of them",
            "a.toml line 4: currency.base: is given already in vickrey.toml line 4, keep one of them",
            "b.toml line 1: dsp: is given already in a.toml line 6, keep one of them",
            "b.toml line 2: deal = [5]: expected tables, each under `[[deal]]`",
            "b.toml line 4: currency.rates.X: is given already in a.toml line 5, keep one of them",
        ],
    );
}

#[test]
fn lists_are_given_once_though_empty() {
    check(
        &[("vickrey.toml", "include = ['a.toml']\ncores = []"), ("a.toml", "cores = []")],
        &["a.toml line 1: cores: is given already in vickrey.toml line 2, keep one of them"],
    );
    check(
        &[("vickrey.toml", "include = ['a.toml']\ndsp = []"), ("a.toml", "[[dsp]]\nid = 'a'")],
        &[],
    );
}

#[test]
fn tables_too_deep_to_walk_are_refused() {
    for deep in [format!("{}x = 1", "x.".repeat(100_000)), format!("[{}x]", "x.".repeat(100_000))] {
        let folder = Folder::of(&[("vickrey.toml", "include = ['a.toml']"), ("a.toml", &deep)]);
        assert!(!folder.problems(market).is_empty());
    }
}

#[test]
fn syntax_errors_of_one_file_do_not_hide_the_problems_of_others() {
    // A broken line: the rest of the file and the other files are judged, but a missing key is not
    // reported if the broken file may contain it.
    check(
        &[
            ("vickrey.toml", "include = ['d/*.toml']\n[[dsp]]\nqps = 0\n[node]\n"),
            ("d/a.toml", "[[dsp]]\nid = 12O\nqps = 0\n[node]\nx = 1\n"),
        ],
        &[
            "line 2: dsp[0].id: is missing, expected text, for example \"acme\"",
            "line 3: dsp[0].qps = 0: must be from 1 to 100",
            "d/a.toml line 2, column 6: string values must be quoted, expected literal string",
            "d/a.toml line 3: dsp[1].qps = 0: must be from 1 to 100",
            "d/a.toml line 5: node.x = 1: unknown key, remove it",
        ],
    );
    // A broken header: the file is not judged, nor are keys elsewhere that it may affect.
    check(
        &[
            ("vickrey.toml", "include = ['d/*.toml']\n[[deal]]\ndsp = 'a'\n"),
            ("d/a.toml", "[[dsp]\nid = 'a'\nqps = 0\n"),
            ("d/b.toml", "[[dsp]]\nid = ''\n"),
        ],
        &[
            "d/a.toml line 1, column 7: unclosed array table, expected `]`",
            "d/b.toml line 2: dsp[0].id = '': must not be empty",
        ],
    );
    // A broken header in the main file: `include` before it still counts.
    check(
        &[("vickrey.toml", "include = ['a.toml']\n[node\nx = 1"), ("a.toml", "[[dsp]]\nid = ''")],
        &[
            "line 2, column 6: unclosed table, expected `]`",
            "a.toml line 2: dsp[0].id = '': must not be empty",
        ],
    );
    check(
        &[
            ("vickrey.toml", "node = 1x\ninclude = ['a.toml']\n[[deal]]\ndsp = 'a'\n"),
            ("a.toml", "[[dsp]]\nid = ''"),
        ],
        &["line 1, column 8: string values must be quoted, expected literal string"],
    );
}

#[test]
fn includes_that_cannot_be() {
    let include = |value: &str, want: &[&str]| {
        let text = format!("include = {value}\n[[deal]]\ndsp = 'unknown while a file is'");
        check(&[("vickrey.toml", &text), ("d/a.toml", "")], want);
    };
    include(
        "5",
        &[
            "line 1: include = 5: expected a list of strings, for example [\"dsps.d/*.toml\", \"rates.toml\"]",
        ],
    );
    include(
        "[\n5, '', 'd*/a.toml', 'd/a.toml']",
        &[
            "line 2: include[0] = 5: expected text",
            "line 2: include[1] = '': names no file",
            "line 2: include[2] = 'd*/a.toml': may have `*` in its last part only",
        ],
    );
    include(
        "['none/*.toml']",
        &[
            "line 1: include[0] = 'none/*.toml': none cannot be listed: No such file or directory (os error 2)",
        ],
    );
    include(
        "['rates.toml', 'd']",
        &[
            "rates.toml: cannot be read: No such file or directory (os error 2) (included by vickrey.toml line 1)",
            "d: cannot be read: not a file (included by vickrey.toml line 1)",
        ],
    );
    // A wildcard may match nothing.
    check(&[("vickrey.toml", "include = ['d/*.toml']"), ("d/a.conf", "")], &[]);
    // A file that includes itself through a wildcard is read once.
    check(&[("vickrey.toml", "include = ['*.toml', './vickrey.toml']")], &[]);
    check(
        &[
            ("vickrey.toml", "include = ['a.toml']\n"),
            ("a.toml", "\ninclude = ['b.toml']\n[[dsp]]\nid = ''"),
        ],
        &[
            "a.toml line 2: include = ['b.toml']: only vickrey.toml may include, name the files there",
            "a.toml line 4: dsp[0].id = '': must not be empty",
        ],
    );
    check(
        &[("vickrey.toml", "include = ['a.toml']\n[node]\ninclude = 1"), ("a.toml", "")],
        &[
            "line 2: node.asi: is missing, expected text, for example \"a.example\"",
            "line 3: node.include = 1: unknown key, remove it",
        ],
    );
    // Where it is not declared, `include` is an ordinary key.
    let folder = Folder::of(&[("vickrey.toml", "include = ['a.toml']"), ("a.toml", "")]);
    let undeclared = |s: &mut Section<'_>| s.boolean("x", true, "Doc.");
    assert_eq!(folder.problems(undeclared), ["line 1: include: unknown key, remove it"]);
    let alone = parse("vickrey.toml", "include = ['/etc/passwd']", market).unwrap_err();
    assert!(alone.to_string().contains("nothing can be included into a text"), "{alone}");
}

#[test]
fn files_that_are_not_text() {
    let folder = Folder::of(&[("vickrey.toml", "include = ['a.toml']")]);
    folder.write("a.toml", b"[[dsp]]\nid = \"\xff\"");
    assert_eq!(
        folder.problems(market),
        [
            "a.toml line 2: is not UTF-8; save the file in that encoding (included by vickrey.toml line 1)"
        ]
    );
}

#[test]
fn includes_are_bounded() {
    let folder = Folder::of(&[("vickrey.toml", "include = ['d/*']"), ("d/0", "")]);
    for name in 1..INCLUDES_MAX {
        folder.write(&format!("d/{name}"), b"");
    }
    assert_eq!(folder.problems(market), Vec::<String>::new());
    folder.write("d/x", b"");
    assert_eq!(
        folder.problems(market),
        ["line 1: include[0] = 'd/*': names more than 10000 files, the most that are included"]
    );
    let large = vec![b' '; usize::try_from(FILES_BYTES_MAX / 4).expect("16 MiB fit")];
    let folder = Folder::of(&[("vickrey.toml", "include = ['d/*']")]);
    for name in 0..4 {
        folder.write(&format!("d/{name}"), &large);
    }
    assert_eq!(folder.problems(market), Vec::<String>::new());
    folder.write("d/4", b" ");
    assert_eq!(
        folder.problems(market),
        ["line 1: include[0] = 'd/*': names more than 64MiB of files, the most that is read"]
    );
}

#[test]
fn what_could_not_be_read_is_watched_too() {
    let folder = Folder::of(&[("vickrey.toml", "include = ['a.toml', 'd/*.toml']")]);
    let (loaded, sources) = load_tracked(&folder.main(), market);
    assert_eq!(loaded.unwrap_err().count(), 2);
    assert_eq!(sources.now().difference(&sources), None);
    folder.write("a.toml", b"");
    let changed = sources.now().difference(&sources).unwrap();
    assert_eq!(folder.relative(&changed), "a.toml");
    folder.write("d/x", b"");
    let (_, sources) = load_tracked(&folder.main(), market);
    folder.write("d/not-matched", b"");
    assert_eq!(sources.now().difference(&sources), None);
    folder.write("d/a.toml", b"");
    let changed = sources.now().difference(&sources).unwrap();
    assert_eq!(folder.relative(&changed), "d/*.toml");
}

#[test]
fn a_file_beside_the_working_folder_needs_no_prefix() {
    // A bare file name has an empty folder.
    let problems = load(Path::new("no-such.toml"), market).unwrap_err();
    assert!(problems.to_string().contains("problem in no-such.toml;"), "{problems}");
}
