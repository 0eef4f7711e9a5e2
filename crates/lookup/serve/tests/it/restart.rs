//! What a later process finds again.

use serde_json::json;
use tempfile::TempDir;
use testbed::provider::{ProviderAct, ProviderFarm, farm_map};

use crate::fixtures::*;

/// Look-ups that keep answers in a folder.
fn start(map: &str, folder: &TempDir) -> Lookups {
    let directory = folder.path().display();
    Lookups::start(map, &format!("[lookup.disk]\ndirectory = \"{directory}\"\nsize = \"64MiB\""))
}

fn map(farm: &ProviderFarm, lines: &str) -> String {
    let path = "path = \"/items\"";
    farm_map(farm.urls(), "").replacen(path, &format!("{path}\n{lines}"), 1)
}

#[test]
fn answers_survive_the_process_for_their_time() {
    let (farm, folder) = (farm(2, &options()), tempfile::tempdir().unwrap());
    // The answers of one are used for long, those of the other only once.
    let map = map(&farm, "ttl = \"0s\"\nstale_ttl = \"1h\"");
    let first = start(&map, &folder).query("item group=g", "");
    assert_eq!(states(&first), ["ok", "ok"]);
    let lookups = start(&map, &folder);
    let again = lookups.query("item group=g", "");
    assert_eq!((states(&again), &again["rows"]), (vec!["stale", "cached"], &first["rows"]));
    assert_eq!(lookups.metric("vickrey_lookup_loaded_total"), 2);
    assert_eq!(again["providers"][1]["expires"], first["providers"][1]["expires"]);
    until("the stale one is asked again", || farm.stats()[0].requests == 2);
    assert_eq!(farm.stats()[1].requests, 1, "the other's still counts");
    // Once it is in memory it is not read again.
    lookups.query("item group=g | limit 3", "");
    assert_eq!(lookups.metric("vickrey_lookup_loaded_total"), 2);
}

#[test]
fn what_does_not_count_any_more_is_asked_for() {
    let (farm, folder) = (farm(1, &options()), tempfile::tempdir().unwrap());
    assert_eq!(states(&start(&map(&farm, ""), &folder).query("item group=g", "")), ["ok"]);
    // The map may have changed.
    let lookups = start(&map(&farm, "ttl = \"0s\"\nstale_ttl = \"1ms\""), &folder);
    assert_eq!((states(&lookups.query("item group=g", "")), requests(&farm)), (vec!["ok"], 2));
    drop(lookups);
    // With other header fields the answer may be another one.
    let lookups = start(&farm_map(farm.urls(), "headers = { x = \"env:PATH\" }"), &folder);
    assert_eq!((states(&lookups.query("item group=g", "")), requests(&farm)), (vec!["ok"], 3));
    drop(lookups);
    let lookups = start(&map(&farm, ""), &folder);
    assert_eq!((states(&lookups.query("item group=g", "")), requests(&farm)), (vec!["cached"], 3));
}

#[test]
fn a_query_that_a_restart_has_ended_goes_on_with_what_it_had() {
    let (farm, folder) = (farm(2, &options()), tempfile::tempdir().unwrap());
    behave(&farm, 1, ProviderAct::Hang);
    let lookups = start(&map(&farm, ""), &folder);
    let id = lookups.begin("item group=g");
    until("one has answered", || lookups.metric("vickrey_lookup_disk_entries") == 1);
    until("the other hangs", || farm.stats()[1].requests == 1);
    drop(lookups);
    behave(&farm, 1, ProviderAct::Healthy);
    let lookups = start(&map(&farm, ""), &folder);
    assert_eq!(lookups.get(&format!("/lookup/{id}")).status, 404);
    let again = lookups.query("item group=g", "");
    assert_eq!((states(&again), &again["status"]), (vec!["cached", "ok"], &json!("done")));
    assert_eq!((farm.stats()[0].requests, farm.stats()[1].requests), (1, 2));
}

#[test]
fn a_folder_belongs_to_one_process() {
    let (farm, folder) = (farm(1, &options()), tempfile::tempdir().unwrap());
    let map = map(&farm, "");
    let _lookups = start(&map, &folder);
    let second = std::panic::catch_unwind(|| start(&map, &folder));
    let said = second.err().expect("it is refused").downcast::<String>().expect("a text");
    assert!(said.starts_with("lookup.disk.directory: "), "{said}");
    assert!(said.contains("is in use by process"), "{said}");
}
