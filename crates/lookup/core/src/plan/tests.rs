//! Plans as they should be: calls at once and in turn, conditions that are taken or applied, and why
//! calls cannot be used.

use std::collections::HashMap;

use super::*;
use crate::map::testing::{call, needs, physics, provider, takes};
use crate::map::{CallParameter, KeyParameter, ParameterSource, ProviderMap, check};
use crate::query::{QueryLimits, parse};

fn planned(map: &ProviderMap, text: &str) -> Result<Plan, PlanError> {
    let query = parse(text, &map.vocabulary(), QueryLimits::default());
    plan(map, &query.unwrap_or_else(|error| panic!("{error}")))
}

#[track_caller]
fn view(map: &ProviderMap, text: &str) -> String {
    match planned(map, text) {
        Ok(plan) => {
            let view = PlanView { plan: &plan, map }.to_string();
            // The limits are the same for all.
            let lines =
                view.lines().filter(|line| !line.contains(" for each") || line.ends_with(':'));
            lines.map(|line| format!("{line}\n")).collect()
        }
        Err(error) => format!("{error}\n"),
    }
}

#[track_caller]
fn shows(text: &str, want: &str) {
    assert_eq!(view(&physics(), text), want, "{text}");
}

#[test]
fn the_map_is_sound() {
    assert_eq!(check(&physics()), []);
}

#[test]
fn one_call_or_all_that_answer() {
    shows("dataset=/a/b/c", "call dbs.datasets at default with dataset\n");
    shows(
        "block dataset=/a/b/c",
        "at once:\n  call dbs.blocks at default with dataset\n  call rucio.blocks with dataset\n",
    );
    shows("block dataset=/a/b/c system=rucio", "call rucio.blocks with dataset\n");
    let want = "call dbs.blocks at int with dataset\nnot rucio.blocks: it has no instance `int`\n";
    shows("block dataset=/a/b/c instance=int", want);
    let want = "call dbs.blocks at default with dataset, run\n\
                not rucio.blocks: it takes no condition on `run`\n";
    shows("block dataset=/a/b/c run=1", want);
    // One without steps before it is preferred.
    let want = "call dbs.files at default with dataset\nnot rucio.files: it needs steps that others do not\n";
    shows("file dataset=/a/b/c", want);
}

#[test]
fn values_are_found_by_other_calls() {
    shows(
        "file,run,lumi dataset=/a/b/c",
        "in turn:\n  call dbs.blocks at default with dataset\n  for each block, 10 at a time:\n    \
         call dbs.filelumis at default\n",
    );
    // The order of keys makes no difference. The first call takes what the second cannot, and what
    // makes it find less.
    shows(
        "lumi,file,run dataset=/a/b/c run between [1, 9] lumi=3",
        "in turn:\n  call dbs.blocks at default with dataset, run\n  for each block, 10 at a time:\n    \
         call dbs.filelumis at default, then keep records by run, lumi\n",
    );
}

#[test]
fn conditions_on_what_is_given_are_applied_to_records() {
    shows(
        "file,run,lumi block=/a/b/c#1 run between [1, 9] lumi=3",
        "call dbs.filelumis at default with block, then keep records by run, lumi\n",
    );
    shows(
        "dataset dataset in [/a/b/c, /d/e/f]",
        "for each dataset of 2:\n  call dbs.datasets at default with dataset\n",
    );
    shows(
        "file,run,lumi block in [/a/b/c#1, /a/b/c#2] lumi in [1, 2]",
        "for each block of 2, 10 at a time:\n  call dbs.filelumis at default with block, then keep \
         records by lumi\n",
    );
    shows(
        "file dataset=/a/b/c run in [1, 2] date last 24h",
        "for each run of 2, 100 at a time:\n  call dbs.files at default with dataset, run, date\n\
         not rucio.files: it needs values of `block` from rucio.blocks, which takes no condition on \
         `run`\n",
    );
}

#[test]
fn calls_that_cannot_be_used_are_explained() {
    shows("block dataset=/a/b/c system=dsb", "there is no system `dsb`\n");
    shows("lumi block=/a/b/c#1", "no provider gives lumi\n");
    shows("file,block dataset=/a/b/c", "no provider gives file with block\n");
    let none = "no provider answers this query\n";
    shows("file,site", &format!("{none}  rucio.replicas needs a condition on `file`\n"));
    shows(
        "site,file file=a*",
        &format!("{none}  rucio.replicas takes no `*` in values of `file`\n"),
    );
    let feeder = "from dbs.blocks, which needs a condition on `dataset`";
    let want = format!("{none}  dbs.filelumis needs values of `block` {feeder}\n");
    shows("file,run,lumi", &want);
    let unfit = "takes values of `dataset` like `/*/*/*`, not `/a/b`";
    shows("block dataset=/a/b", &format!("{none}  dbs.blocks {unfit}\n  rucio.blocks {unfit}\n"));
    let pattern = "takes no `*` in values of `dataset`";
    shows(
        "block dataset=/a/b*",
        &format!("{none}  dbs.blocks {pattern}\n  rucio.blocks {pattern}\n"),
    );
    shows("dataset date=20110124", "call dbs.datasets at default with date\n");
}

#[test]
fn conditions_are_not_given_up_for_a_list_of_everything() {
    let none = "no provider answers this query\n";
    // The map says that no dataset is called so.
    let unfit = "takes values of `dataset` like `/*/*/*`, not `foo`";
    shows("dataset=foo", &format!("{none}  dbs.datasets {unfit}\n"));
    // A pattern is another matter: the call does not take it, but its records may match.
    let block = "block block=/a/b/c* dataset=/a/b/c system=rucio";
    shows(block, "call rucio.blocks with dataset, then keep records by block\n");
    // A time is compared as it is sent.
    let mut map = physics();
    let dataset = &mut map.providers[0].calls[0].parameters[1].source;
    let ParameterSource::Key(date) = dataset else { panic!("it takes dates") };
    date.pattern = Some("12958*".to_owned());
    assert_eq!(view(&map, "dataset date=20110124"), "call dbs.datasets at default with date\n");
}

#[test]
fn the_call_before_takes_what_makes_it_find_less() {
    let mut map = physics();
    // It takes the dataset itself, and still needs blocks.
    let call = &mut map.providers[0].calls[3];
    let dataset = CallParameter {
        name: "dataset".to_owned(),
        source: ParameterSource::Key(takes("dataset")),
    };
    call.parameters.push(dataset);
    assert_eq!(check(&map), []);
    let want = "in turn:\n  call dbs.blocks at default with dataset, run\n  for each block, 10 at a time:\n    \
                call dbs.filelumis at default with dataset, then keep records by run\n";
    assert_eq!(view(&map, "file,run,lumi dataset=/a/b/c run=1"), want);
}

#[test]
fn no_call_finds_values_of_everything() {
    let mut map = physics();
    let from = Some("dbs.datasets".to_owned());
    map.providers[0].calls.push(call(
        "sites",
        &["site"],
        vec![KeyParameter { from, ..needs("dataset") }],
    ));
    assert_eq!(check(&map), []);
    let want = "no provider answers this query\n  dbs.sites needs a condition on `dataset`\n";
    assert_eq!(view(&map, "site"), want);
    let want = "in turn:\n  call dbs.datasets at default with date\n  for each dataset:\n    \
                call dbs.sites at default\n";
    assert_eq!(view(&map, "site date last 1h"), want);
}

#[test]
fn a_system_that_may_not_answer_finds_no_values() {
    let mut map = physics();
    let ParameterSource::Key(block) = &mut map.providers[1].calls[1].parameters[0].source else {
        panic!("it needs blocks")
    };
    block.from = Some("dbs.blocks".to_owned());
    assert_eq!(check(&map), []);
    let want = "no provider answers this query\n  rucio.files needs values of `block` from dbs.blocks, \
                which is of a system that the query excludes\n";
    assert_eq!(view(&map, "file dataset=/a/b/c system=rucio"), want);
}

#[test]
fn chains_may_have_several_steps() {
    let from = |of: &str, from: &str| KeyParameter { from: Some(from.to_owned()), ..needs(of) };
    let calls = vec![
        call("users", &["user"], vec![needs("site")]),
        call(
            "groups",
            &["group"],
            vec![KeyParameter { batch: 5, ..from("user", "p.users") }, takes("run")],
        ),
        call("rights", &["right"], vec![from("group", "p.groups")]),
    ];
    let keys = ["user", "group", "right", "site", "run"].map(crate::map::testing::key).to_vec();
    let map = ProviderMap { keys, providers: vec![provider("p", calls)] };
    assert_eq!(check(&map), []);
    let want = "in turn:\n  in turn:\n    call p.users with site\n    for each user, 5 at a time:\n      \
                call p.groups with run\n  for each group:\n    call p.rights\n";
    assert_eq!(view(&map, "right site=a run=1"), want);
    let plan = planned(&map, "right site=a run=1").expect("a plan");
    // One call for 100 users, 20 for their groups, and one for each of these 2,000.
    assert_eq!(plan.calls_estimate(&map, &HashMap::new()), 1 + 20 + 2_000);
    let users = map.call_named("p.users").expect("a call");
    assert_eq!(plan.calls_estimate(&map, &HashMap::from([(users, 3)])), 1 + 1 + 100);
    assert_eq!(plan.calls_estimate(&map, &HashMap::from([(users, 0)])), 1);
    let [groups, rights] =
        ["p.groups", "p.rights"].map(|name| map.call_named(name).expect("it is there"));
    let feeders =
        [users, groups, rights].map(|call| plan.feeders(call).into_iter().collect::<Vec<_>>());
    assert_eq!(feeders, [vec![], vec![users], vec![users, groups]]);
}

#[test]
fn limits_are_shown() {
    let mut map = physics();
    map.providers[0].concurrency_max = Some(10);
    map.providers[1].rate_max = Some(200);
    let plan = planned(&map, "block dataset=/a/b/c").expect("a plan");
    let view = PlanView { plan: &plan, map: &map };
    let want = "at once:\n  call dbs.blocks at default with dataset\n  call rucio.blocks with dataset\n\
                dbs: at most 10 calls at a time, 10s for each\n\
                rucio: as many calls at a time as it bears, 200 per second, 10s for each\n";
    assert_eq!(view.to_string(), want);
    let want = serde_json::json!([
        { "provider": "dbs", "concurrency": 10, "rate": null, "timeout_ms": 10_000 },
        { "provider": "rucio", "concurrency": null, "rate": 200, "timeout_ms": 10_000 },
    ]);
    assert_eq!(to_json(&view)["limits"], want);
}

#[test]
fn plans_are_json_too() {
    let map = physics();
    let plan = planned(&map, "block dataset=/a/b/c run in [1, 2]").expect("a plan");
    let json = to_json(&PlanView { plan: &plan, map: &map });
    let want = serde_json::json!({
        "step": { "for_each": { "over": "run", "chunk": 100, "listed": 2, "step": { "fetch": {
            "call": "dbs.blocks", "instance": "default", "takes": ["dataset", "run"], "filters": [],
        } } } },
        "limits": [{
            "provider": "dbs", "concurrency": null, "rate": null, "timeout_ms": 10_000,
        }],
        "rejected": [{ "call": "rucio.blocks", "reason": "takes no condition on `run`" }],
    });
    assert_eq!(json, want);
}
