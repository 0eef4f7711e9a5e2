//! Files of maps, right and wrong.

use std::fs;
use std::path::Path;

use lookup_core::plan::{PlanView, plan};
use lookup_core::query::{QueryLimits, parse};

use super::*;

fn examples() -> ProviderMap {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy");
    load_maps(&folder, "maps/*.toml").unwrap_or_else(|problems| panic!("{problems:?}")).map
}

#[test]
fn the_examples_are_sound_and_plan() {
    let map = examples();
    let shown = |text: &str| {
        let query = parse(text, &map.vocabulary(), QueryLimits::default()).expect(text);
        let plan = plan(&map, &query).expect(text);
        let view = PlanView { plan: &plan, map: &map }.to_string();
        let steps = view.lines().filter(|line| !line.contains("calls at a time"));
        steps.map(|line| format!("{line}\n")).collect::<String>()
    };
    let want = "in turn:\n  call dbs.blocks at prod/global with dataset\n  for each block, 10 at a \
                time:\n    call dbs.filelumis at prod/global\n";
    assert_eq!(shown("file,run,lumi dataset=/a/b/c | grep lumi.number>3"), want);
    assert_eq!(
        shown("user user in [a, b]"),
        "for each user of 2, 200 at a time:\n  call audience.segments with user\n"
    );
    let want =
        "in turn:\n  call rucio.blocks with dataset\n  for each block:\n    call rucio.replicas\n";
    assert_eq!(shown("site dataset=/a/b/c"), want);
}

/// The problems of files with these texts, by name.
fn problems(files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    let found = load_maps(folder.path(), "*.toml").expect_err("wrong");
    found.iter().map(ToString::to_string).collect()
}

const KEYS: &str = "[[key]]\nname = \"file\"\n[[key]]\nname = \"run\"\n";

const CALL: &str = "[[provider]]\nname = \"p\"\nurl = \"http://p\"\n[[provider.call]]\nname = \"c\"\n\
                    gives = [\"file\"]\npath = \"/c\"\nfields = { name = \"file.name\" }\n";

#[test]
fn problems_name_their_file_and_line() {
    assert_eq!(problems(&[]), ["maps = \"*.toml\": no file matches"]);
    let twice = problems(&[("a.toml", KEYS), ("b.toml", CALL), ("c.toml", CALL)]);
    let want = [
        "a.toml line 3: key[1].name = \"run\": no call gives or takes this key: add one, or remove the key",
        "c.toml line 1: provider[0].name = \"p\": two providers have this name",
    ];
    assert_eq!(twice, want);
    let parameter = "[[provider.call.parameter]]\nname = \"r\"\nkey = \"rnu\"\n";
    let found = problems(&[("a.toml", &format!("{KEYS}{CALL}{parameter}"))]);
    let want = "a.toml line 13: provider[0].call[0].parameter[0].key = \"rnu\": there is no such key, did \
                you mean `run`?";
    assert!(found.contains(&want.to_owned()), "{found:?}");
}

#[test]
fn problems_of_one_file_come_with_those_of_others() {
    let found = problems(&[
        ("a.toml", "[[key]]\nnmae = \"file\"\n"),
        ("b.toml", "[[provider]]\nname = \"p\"\nurl = \"ftp://p\"\n"),
        ("c.toml", &format!("{CALL}[[provider.call.parameter]]\nname = \"x\"\nlow = \"l\"\n")),
        ("d.toml", ""),
    ]);
    let want = [
        "a.toml line 2: key[0].nmae: unknown key, did you mean `name`?",
        "b.toml line 3: provider[0].url = \"ftp://p\": needs the form \"https://host/path\", without a \
         user, `?` and `#`",
        "c.toml line 9: provider[0].call[0].parameter[0].key = …: a parameter has either a `key` or a \
         `value`",
        "c.toml line 11: provider[0].call[0].parameter[0].low = \"l\": `low` and `high` belong together",
        "d.toml: provider = …: the file describes nothing: add a [[provider]] or a [[key]]",
    ];
    for want in want {
        assert!(found.contains(&want.to_owned()), "{want}\n{found:#?}");
    }
}

#[test]
fn a_provider_is_a_service_or_a_database() {
    let database =
        "[[key]]\nname = \"file\"\n[[provider]]\nname = \"p\"\ndatabase = \"file:secret\"\n";
    let call =
        "[[provider.call]]\nname = \"c\"\ngives = [\"file\"]\nfields = { name = \"file.name\" }\n";
    let wrong = |lines: &str, of_call: &str, secret: &str| {
        let map = format!("{database}{lines}{call}{of_call}");
        problems(&[("a.toml", &map), ("secret", secret)])
    };
    let (sql, good) = ("sql = \"select name from files\"\n", "host=db user=u password=hidden");
    for (lines, of_call, secret, want) in [
        ("url = \"http://p\"\n", sql, good, "a provider has either a `url` or a `database`"),
        ("instances = { x = \"http://x\" }\n", sql, good, "a database has no other instances"),
        ("", "path = \"/c\"\n", good, "is missing: the provider is a database"),
        ("", &format!("{sql}path = \"/c\"\n"), good, "a call has either a `path` or `sql`"),
        ("", "sql = \"select 'a\"\n", good, "has a quote or a comment that does not end"),
        ("", "sql = \"select $x\"\n", good, "names no parameter: add one with the name `x`"),
        ("", sql, "host=db hidden", "needs the form \"postgresql://"),
        ("", sql, "host=db port=hidden", "needs the form \"postgresql://"),
    ] {
        let found = wrong(lines, of_call, secret);
        assert!(found.iter().any(|problem| problem.contains(want)), "{want}: {found:?}");
        assert!(!found.iter().any(|problem| problem.contains("hidden")), "{found:?}");
    }
    // One mistake is one problem.
    assert_eq!(wrong("", sql, "host=db hidden").len(), 1);
    assert_eq!(problems(&[("a.toml", &format!("{database}{call}{sql}"))]).len(), 1);
    let found = problems(&[("a.toml", &format!("{KEYS}{CALL}sql = \"select 1\"\n"))]);
    let want = "is for providers with a `database`";
    assert!(found.iter().any(|problem| problem.contains(want)), "{found:?}");
}
