//! What is wrong with a configuration, key by key.

use cache_serve::Cache;
use runtime::config::parse;
use runtime::service::Service as _;

#[track_caller]
fn check(cache: &str, route: &str, want: &str) {
    let text = format!(
        "[cache]\nlisten = \"127.0.0.1:0\"\n{cache}\n[[cache.route]]\nid = \"a\"\n{route}\n"
    );
    let problems = parse("test.toml", &text, Cache::read).expect_err(want).to_string();
    assert!(problems.contains(want), "no `{want}` in {problems}");
    assert!(problems.contains("1 problem"), "{problems}");
}

#[test]
fn problems_name_their_key_and_the_remedy() {
    let origin = "origin = \"http://127.0.0.1:1\"";
    for wrong in ["127.0.0.1:80", "ftp://a", "http://a/b", "http://u@a", "http://a?b", "http://"] {
        check("", &format!("origin = \"{wrong}\""), "needs the form \"http://host:port\"");
    }
    check("", &format!("{origin}\npath = \"x\""), "path = \"x\": must begin with `/`");
    check("", &format!("{origin}\nttl = \"5\""), "ttl = \"5\": needs a unit");
    check("", &format!("{origin}\norigin_host = \"a\\nb\""), "needs the form \"host\"");
    check("name = \"1 b\"", origin, "name = \"1 b\": needs a letter");
    let large = "memory = \"1MiB\"\nobject_max = \"2MiB\"";
    check(large, origin, "must not be more than `memory`");
    let twice = format!("{origin}\n[[cache.route]]\nid = \"b\"\n{origin}");
    check("", &twice, "two routes have the same `host` and `path`");
    let same = format!("{origin}\n[[cache.route]]\nid = \"a\"\npath = \"/b\"\n{origin}");
    check("", &same, "two routes have the same `id`");
}

#[test]
fn a_cache_has_routes() {
    let text = "[cache]\nlisten = \"127.0.0.1:0\"\n";
    let problems = parse("test.toml", text, Cache::read).expect_err("no route").to_string();
    assert!(problems.contains("add a [[cache.route]]"), "{problems}");
}
