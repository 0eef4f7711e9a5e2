//! Values that are known without a wait.

use std::time::Duration;

use faults::process::isolated;
use lookup_serve::NotRemembered::{Unfit, Unknown};
use lookup_serve::{FieldValues, LookupMemory, MemoryLoad, MemoryRule, RememberedValue};
use runtime::process::unix_ms;
use stats_alloc::Region;
use testbed::provider::{ProviderAct, ProviderOptions, farm_map};

use crate::ALLOCATOR;
use crate::fixtures::*;

const STALE: Duration = Duration::from_secs(3_600);

fn rule(fields: &[&str]) -> MemoryRule {
    MemoryRule {
        key: "group".to_owned(),
        fields: fields.iter().map(|field| (*field).to_owned()).collect(),
        bytes_max: 1_000,
        render: Box::new(|fields: &[FieldValues]| {
            let all = fields.concat();
            (!all.is_empty()).then(|| all.join(","))
        }),
        load: None,
    }
}

fn open(lookups: &Lookups, name: &str, rule: MemoryRule) -> LookupMemory {
    lookups.memories().open(name, rule, STALE).expect("the maps have it")
}

fn names(lookups: &Lookups) -> LookupMemory {
    open(lookups, "names", rule(&["item.name"]))
}

/// What is known about a value.
#[track_caller]
fn known(memory: &LookupMemory, value: &str) -> RememberedValue {
    until("it is known", || memory.find(value, unix_ms()).is_ok());
    memory.find(value, unix_ms()).expect("it was just found")
}

fn three() -> ProviderOptions {
    let mut options = options();
    options.catalogue.items = 3;
    options
}

const THREE: &str = r#""g/0","g/1","g/2""#;

#[test]
fn a_value_is_looked_up_once_and_known_from_then_on() {
    let farm = farm(1, &three());
    let lookups = Lookups::of_farm(&farm, "");
    let memory = names(&lookups);
    assert_eq!(memory.find("g", unix_ms()), Err(Unknown));
    let RememberedValue { text, is_stale, .. } = known(&memory, "g");
    assert_eq!((text.as_deref(), is_stale), (Some(THREE), false));
    for _ in 0..1_000 {
        assert!(memory.find("g", unix_ms()).is_ok());
    }
    assert_eq!(requests(&farm), 1);
    // One opened twice, also with another age, has the same values.
    let again = lookups.memories().open("names", rule(&["item.name"]), Duration::ZERO);
    assert!(again.expect("the maps have it").find("g", unix_ms()).is_ok());
    // Of too many values, the first that fit.
    let short = open(&lookups, "short", MemoryRule { bytes_max: 6, ..rule(&["item.name"]) });
    assert_eq!(known(&short, "g").text.as_deref(), Some(r#""g/0""#));
    let none = open(&lookups, "none", MemoryRule { bytes_max: 4, ..rule(&["item.name"]) });
    assert_eq!(known(&none, "g").text, None);
    for value in ["", "a*", &"v".repeat(2_049)] {
        assert_eq!(memory.find(value, unix_ms()), Err(Unfit));
    }
    assert_eq!(memory.find(&"v".repeat(2_048), unix_ms()), Err(Unknown));
    until("only that one is looked up", || requests(&farm) == 2);
}

#[test]
fn what_is_known_is_found_without_an_allocation() {
    isolated(|| {
        let farm = farm(1, &three());
        let lookups = Lookups::of_farm(&farm, "");
        let memory = names(&lookups);
        known(&memory, "g");
        let batch = || {
            let region = Region::new(ALLOCATOR);
            (0..1_000).for_each(|_| assert!(memory.find("g", unix_ms()).is_ok()));
            region.change().allocations
        };
        // Now and then another thread allocates.
        let mut fewest = usize::MAX;
        until("a batch is undisturbed", || {
            fewest = fewest.min(batch());
            fewest == 0
        });
    });
}

/// Old data is better than none, and that it is old is said.
#[test]
fn expired_values_are_looked_up_again_in_the_background() {
    let farm = farm(1, &three());
    let map = farm_map(farm.urls(), "");
    let lookups =
        Lookups::start(&map.replace("path = \"/items\"", "path = \"/items\"\nttl = \"1s\""), "");
    let memory = names(&lookups);
    until("it is known", || memory.find("g", unix_ms()).is_ok_and(|it| !it.is_stale));
    behave(&farm, 0, ProviderAct::Status { code: 500, body: String::new() });
    let now = || memory.find("g", unix_ms()).expect("it is known still");
    until("it has expired", || now().is_stale);
    assert!(now().age >= Duration::from_secs(1));
    until("it is asked again", || now().is_stale && requests(&farm) >= 2);
    // A failure is no data.
    assert!(now().text.is_some());
    behave(&farm, 0, ProviderAct::Healthy);
    until("it is new again", || !now().is_stale);
    assert_eq!(now().text.as_deref(), Some(THREE));
    assert_eq!(memory.find("g", unix_ms() + 3_700_000), Err(Unknown), "it is too old");
}

/// The cache of calls may have had it for long.
#[test]
fn the_age_is_that_of_the_provider_s_answer() {
    let farm = farm(1, &three());
    let map = farm_map(farm.urls(), "");
    let stale = "path = \"/items\"\nttl = \"0s\"\nstale_ttl = \"1h\"";
    let lookups = Lookups::start(&map.replace("path = \"/items\"", stale), "");
    lookups.query("item group=g", "");
    let fetched = unix_ms();
    until("time passes", || unix_ms() > fetched + 20);
    // It is answered with the old records, while newer ones are fetched.
    let found = known(&names(&lookups), "g");
    assert!(found.is_stale && found.age >= Duration::from_millis(20), "{found:?}");
}

#[test]
fn a_failure_is_not_kept_as_an_answer() {
    let farm = farm(1, &three());
    behave(&farm, 0, ProviderAct::Status { code: 200, body: "[]".to_owned() });
    let lookups = Lookups::of_farm(&farm, "");
    let memory = names(&lookups);
    assert_eq!(known(&memory, "none").text, None);
    behave(&farm, 0, ProviderAct::Redirect { code: 302, to: None });
    let start = unix_ms();
    assert_eq!(memory.find("g", start), Err(Unknown));
    let failures = || lookups.metric("vickrey_lookup_memory_failures_total");
    until("it has failed", || failures() == 1);
    behave(&farm, 0, ProviderAct::Healthy);
    // It is not asked at once again, but soon.
    assert_eq!(memory.find("g", start + 1_999), Err(Unknown));
    known(&memory, "another");
    assert_eq!((requests(&farm), memory.find("g", start + 1_999)), (3, Err(Unknown)));
    until("it is asked again", || {
        let found = memory.find("g", start + 60_000);
        found.is_ok()
    });
}

/// What one provider does not say is missing for a while; what was complete stays.
#[test]
fn a_part_is_better_than_nothing_and_worse_than_all() {
    let farm = farm(2, &three());
    behave(&farm, 1, ProviderAct::Redirect { code: 302, to: None });
    let map = farm_map(farm.urls(), "");
    let short = map.replace("path = \"/items\"", "path = \"/items\"\nttl = \"1s\"");
    let lookups = Lookups::start(&short, "");
    let memory = open(&lookups, "both", rule(&["item.p0", "item.p1"]));
    let part = known(&memory, "g");
    assert_eq!((part.text.as_deref(), part.is_stale), (Some("0,1000,2000"), true));
    behave(&farm, 1, ProviderAct::Healthy);
    until("it is complete", || {
        memory
            .find("g", unix_ms() + 2_500)
            .is_ok_and(|it| it.text.as_deref() == Some("0,1000,2000,1,1001,2001"))
    });
    behave(&farm, 1, ProviderAct::Redirect { code: 302, to: None });
    let found = || lookups.metric("vickrey_lookup_memory_found_total");
    let before = found();
    until("parts have come", || {
        let kept = memory.find("g", unix_ms()).expect("it is known still");
        assert_eq!(kept.text.as_deref(), Some("0,1000,2000,1,1001,2001"));
        found() >= before + 2
    });
    // Once that is too old, a part is better again, and is renewed.
    let both = rule(&["item.p0", "item.p1"]);
    let brief = lookups.memories().open("both", both, Duration::from_secs(1));
    let brief = brief.expect("the maps have it");
    let is_part = || {
        let found = brief.find("g", unix_ms());
        found.is_ok_and(|it| it.text.as_deref() == Some("0,1000,2000"))
    };
    until("it is the part", is_part);
    let before = found();
    until("it is renewed", || is_part() && found() >= before + 2);
}

/// What a provider said counts for its time, whatever others fail to say.
#[test]
fn a_part_is_of_use_while_it_counts() {
    let farm = farm(2, &three());
    behave(&farm, 1, ProviderAct::Redirect { code: 302, to: None });
    let lookups = Lookups::of_farm(&farm, "");
    let both = rule(&["item.p0", "item.p1"]);
    let memory = lookups.memories().open("both", both, Duration::ZERO);
    let memory = memory.expect("the maps have it");
    let found = || lookups.metric("vickrey_lookup_memory_found_total");
    until("a part is there", || memory.find("g", unix_ms()).is_ok());
    until("it is renewed", || {
        let part = memory.find("g", unix_ms()).expect("it counts");
        assert_eq!((part.text.as_deref(), part.is_stale), (Some("0,1000,2000"), true));
        found() >= 3
    });
}

#[test]
fn a_slow_provider_delays_no_other_rule() {
    let farm = farm(2, &three());
    behave(&farm, 0, ProviderAct::Hang);
    let map = farm_map(farm.urls(), "timeout = \"20s\"");
    // The second provider's items are things of another kind.
    let (first, second) = map.split_at(map.rfind("[[provider]]").expect("there are two"));
    let second = second.replace("\"item\"", "\"thing\"").replace("item.", "thing.");
    let keys = "[[key]]\nname = \"thing\"\n\n";
    let lookups = Lookups::start(&format!("{keys}{first}{second}"), "");
    let (slow, fast) = (names(&lookups), open(&lookups, "things", rule(&["thing.name"])));
    for at in 0..1_000 {
        assert_eq!(slow.find(&format!("g{at}"), unix_ms()), Err(Unknown));
    }
    until("the provider is busy", || farm.stats()[0].requests > 0);
    assert_eq!(known(&fast, "g").text.as_deref(), Some(THREE));
}

#[test]
fn there_is_a_limit_to_what_is_known() {
    let farm = farm(1, &three());
    let lookups = Lookups::start(&farm_map(farm.urls(), ""), "memory = \"64KiB\"");
    let memory = names(&lookups);
    let value = |at: usize| format!("{at:0>1000}");
    for at in 0..200 {
        assert_eq!(memory.find(&value(at), unix_ms()), Err(Unknown));
    }
    until("all are asked for", || requests(&farm) == 200);
    known(&memory, &value(200));
    let bytes = lookups.metric("vickrey_lookup_memory_bytes");
    assert!((1_000..=64 << 10).contains(&bytes), "{bytes}");
    let values = lookups.metric("vickrey_lookup_memory_values");
    assert!((1..65).contains(&values), "{values}");
}

/// A value with the sign between values of a list would ask for others too.
#[test]
fn a_value_is_never_taken_for_several() {
    let farm = farm(3, &three());
    let mut map = include_str!("../../../../../deploy/maps/audience.toml").to_owned();
    for (port, url) in [7511, 7512, 7513].into_iter().zip(farm.urls()) {
        map = map.replace(&format!("http://127.0.0.1:{port}"), url);
    }
    let lookups = Lookups::start(&map, "");
    let users = MemoryRule { key: "user".to_owned(), ..rule(&["user.segments"]) };
    let memory = open(&lookups, "users", users);
    assert_eq!(memory.find("u1,u2", unix_ms()), Err(Unknown));
    let failures = || lookups.metric("vickrey_lookup_memory_failures_total");
    until("it has failed", || failures() == 1);
    known(&memory, "u1");
    assert_eq!(requests(&farm), 1);
}

/// Users in a file.
const USERS: &str = r#"
[[key]]
name = "user"
primary = "id"

[[provider]]
name = "crm"
url = "file:@"

[[provider.call]]
name = "users"
gives = ["user"]
path = "/users.csv"
format = "csv"
ttl = "0s"
fields = { id = "user.id", segment = "user.segment" }
"#;

fn users(query: &str) -> MemoryRule {
    let load = MemoryLoad { query: query.to_owned(), every: Duration::from_secs(1) };
    let fields = vec!["user.segment".to_owned()];
    MemoryRule { key: "user".to_owned(), fields, load: Some(load), ..rule(&[]) }
}

#[test]
fn a_file_is_loaded_whole_and_again_and_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("users.csv");
    // A file that is being written would be read as it is.
    let write = |text: &str| {
        let written = folder.path().join("written");
        std::fs::write(&written, text).expect("a file");
        std::fs::rename(&written, &file).expect("a folder");
    };
    write("id,segment\nu1,a\nu2,b\nu1,c\n");
    let map = USERS.replace('@', &folder.path().display().to_string());
    let lookups = Lookups::start(&map, "memory = \"64KiB\"");
    let memory = open(&lookups, "users", users("user"));
    let text = |value: &str| known(&memory, value).text;
    // The first of two records of one user counts, as everywhere.
    assert_eq!((text("u1").as_deref(), text("u2").as_deref()), (Some("\"a\""), Some("\"b\"")));
    assert_eq!(text("u3"), None, "the file has all there are");
    write("id,segment\nu3,d\n");
    until("it is loaded again", || text("u3").is_some());
    assert_eq!((text("u1"), lookups.metric("vickrey_lookup_memory_values")), (None, 1));
    // What cannot be loaded, or is too much, leaves what is there.
    std::fs::remove_file(&file).expect("it is there");
    let failures = || lookups.metric("vickrey_lookup_memory_load_failures_total");
    until("it cannot be loaded", || failures() > 0);
    assert!(text("u3").is_some());
    let many: String = (0..1_000).map(|at| format!("u{at},s\n")).collect();
    let before = failures();
    write(&format!("id,segment\n{many}"));
    until("it is too much", || failures() > before + 1);
    assert_eq!(text("u3").as_deref(), Some("\"d\""));
    let now = unix_ms() + 3_000;
    assert!(memory.find("u3", now).is_ok_and(|it| it.is_stale), "the load is overdue");
    assert_eq!(memory.find("u3", now + 3_600_000), Err(Unknown), "it is too old");
    // Nobody is left.
    write("id,segment\n");
    until("it is loaded again", || text("u3").is_none());
}

#[test]
fn a_query_to_load_is_checked() {
    let map = USERS.replace('@', "nowhere");
    let lookups = Lookups::start(&map, "");
    let check = |query: &str, want: &str| {
        let error = lookups.memories().open(query, users(query), STALE).map(drop).unwrap_err();
        assert!(error.contains(want), "{error}");
    };
    check("usr", "did you mean `user`?");
    check("user | limit 5", "must have no stages");
    check("", "the query is empty");
    let other = map.replace("gives = [\"user\"]", "gives = [\"user\", \"seat\"]");
    let other = other.replace("segment = ", "seat = \"seat.name\", segment = ");
    let lookups = Lookups::start(&format!("[[key]]\nname = \"seat\"\n{other}"), "");
    let error = lookups.memories().open("seats", users("seat"), STALE).map(drop).unwrap_err();
    assert!(error.contains("must ask for `user` too"), "{error}");
}

/// Nor does a query's value lead out of the folder.
#[test]
fn files_are_answers_and_what_is_no_file_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("in/a")).expect("a folder");
    std::fs::write(folder.path().join("secret"), "id,segment\nx,y\n").expect("a file");
    std::fs::write(folder.path().join("in/u1"), "id,segment\nu1,a\n").expect("a file");
    let map = USERS.replace('@', &folder.path().join("in").display().to_string());
    let path = "path = \"/{user}\"";
    let parameter =
        "\n[[provider.call.parameter]]\nname = \"user\"\nkey = \"user\"\nrequired = true\n";
    let map = map.replace("path = \"/users.csv\"", path) + parameter;
    let lookups = Lookups::start(&map, "answer_max = \"1KiB\"");
    let query = |user: &str| lookups.query(&format!("user user=\"{user}\""), "");
    assert_eq!(query("u1")["rows"][0]["record"]["user"]["segment"], "a");
    for (user, want) in
        [("u2", "No such file"), ("a", "is no file"), ("../secret", "No such file"), ("..", "")]
    {
        let answer = query(user);
        assert_eq!(
            (&answer["status"], &answer["total"]),
            (&"failed".into(), &0.into()),
            "{answer}"
        );
        let reason = answer["providers"][0]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(want), "{reason}");
    }
    std::fs::write(folder.path().join("in/big"), "x".repeat(1_025)).expect("a file");
    let reason = query("big")["providers"][0]["reason"].clone();
    assert!(reason.as_str().is_some_and(|it| it.contains("more than 1024 bytes")), "{reason}");
}

#[test]
fn what_the_maps_lack_is_said_at_once() {
    let farm = farm(1, &three());
    let lookups = Lookups::of_farm(&farm, "");
    let check = |key: &str, field: &str, want: &str| {
        let rule = MemoryRule { key: key.to_owned(), ..rule(&[field]) };
        let error = lookups.memories().open(key, rule, STALE).map(drop).unwrap_err();
        assert!(error.contains(want), "{error}");
    };
    check("user", "item.name", "the maps have no key `user`, only group, item");
    check("group", "user.name", "the maps have no key `user`, only group, item");
    check("group", "item.nme", "`item` has no attribute `nme`, only name, p0, size");
    check("item", "group.name", "`group` has no attribute `name`, only ");
    check("item", "item.name", "no provider answers this query");
}
