//! Look-ups by command.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::program::{check, root, vickrey};

#[test]
fn a_query_is_printed_as_json() {
    let text = "file,run dataset=/a/b* date last 24h system=dbs | grep file.size>10 | count(file)";
    let (out, _) = check(&mut vickrey(&["query", "--parse", text]), 0, &[], &[]);
    let printed: Value = serde_json::from_str(&out).unwrap();
    let want = json!({
        "fields": ["file", "run"],
        "conditions": [
            { "key": "dataset", "op": "=", "value": "/a/b*" },
            { "key": "date", "op": "last", "value": 86_400 },
        ],
        "pipe": [
            { "grep": [{ "field": "file.size", "op": ">", "value": 10 }] },
            { "aggregate": [{ "fn": "count", "field": "file" }] },
        ],
        "system": "dbs",
        "instance": null,
    });
    assert_eq!(printed, want);
}

#[test]
fn a_wrong_query_is_shown_with_its_place() {
    let want = "error: the query is wrong: there is no operator `betwen`\n  run betwen [1, 2]\n      \
                ^^^^^^\ndid you mean `between`? operators are =, in, between and last\n";
    check(&mut vickrey(&["query", "--parse", "run betwen [1, 2]"]), 64, &[], &[want]);
    check(&mut vickrey(&["query", "--parse", ""]), 64, &[], &["the query is empty"]);
    // A megabyte comes through a pipe, of which no more is read than is too much.
    let mut child = vickrey(&["query", "--parse", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let long = format!("file | grep {}", "file.name,".repeat(100_000));
    let _closed = child.stdin.take().unwrap().write_all(long.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(said.contains("the query has more than 262144 bytes"), "{said}");
}

#[test]
fn a_plan_is_explained() {
    let maps = root().join("deploy/maps/*.toml");
    let explain = |query: &str, more: &[&str]| {
        let options = ["query", "--explain", "--maps", maps.to_str().unwrap(), query];
        vickrey(&[&options[..], more].concat())
    };
    let want = "in turn:\n  call dbs.blocks at prod/global with dataset\n  for each block, 10 at a \
                time:\n    call dbs.filelumis at prod/global\ndbs: at most 10 calls at a time, 10s for \
                each\nabout 6 calls\n";
    let query = "file,run,lumi dataset=/a/b/c";
    assert_eq!(check(&mut explain(query, &[]), 0, &[], &[]).0, want);
    let (json, _) = check(&mut explain(query, &["--json"]), 0, &[], &[]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["calls_estimate"], 6);
    assert_eq!(json["step"]["sequence"][0]["fetch"]["call"], "dbs.blocks");
    let unfit = "error: no provider answers this query\n  dbs.files takes values of `dataset` like \
                 `/*/*/*`, not `/a/b`\n";
    check(&mut explain("file dataset=/a/b", &[]), 64, &[], &[unfit]);
    // With maps, keys and attributes are checked.
    check(&mut explain("usr=1", &[]), 64, &[], &["did you mean `user`?"]);
    check(
        &mut explain("user user=a | grep user.sgments", &[]),
        64,
        &[],
        &["did you mean `segments`?"],
    );
    let mut no_maps = vickrey(&["query", "--explain", "--maps", "nowhere/*.toml", query]);
    check(&mut no_maps, 64, &[], &["error: 1 problem in the maps\n  maps = \"nowhere/*.toml\": "]);
}
