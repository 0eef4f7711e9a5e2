//! A cache with a disk under a mix of loads for a while: its memory stays where it was, within what its
//! limits allow. `SOAK_S` sets for how many seconds; a few suffice to see a leak per request.

use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::operations::fixtures::Server;
use crate::program::{Running, check, vickrey};

/// Of memory, fetches, what waits for the disk, and all else.
const MEMORY_MIB: u64 = 16;
const FETCHING_MIB: u64 = 8;
const WAITING_MIB: u64 = 4;
const BASE_MIB: u64 = 120;

/// Of a process, in MiB.
fn resident_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[test]
fn memory_stays_within_its_limits_under_a_mix_of_loads() {
    let soak = std::env::var("SOAK_S").map_or(6, |told| told.parse().expect("SOAK_S is a number"));
    let mut command =
        vickrey(&["origin", "--vary", "x-variant", "--surrogate-keys", "16", "--json"]);
    let mut origin =
        Running::start(command.args(["--fault", "short-body", "--fault-share", "20000"]));
    let mut line = String::new();
    BufReader::new(origin.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let origin_url: Value = serde_json::from_str(&line).unwrap();
    let server = Server::start_without_exchange(&format!(
        "[runtime]\nshards = 1\n[cache]\nlisten = \"127.0.0.1:0\"\nmemory = \"{MEMORY_MIB}MiB\"\n\
         object_max = \"1MiB\"\nfetching_max = \"{FETCHING_MIB}MiB\"\n[cache.disk]\nsize = \"64MiB\"\n\
         waiting = \"{WAITING_MIB}MiB\"\nwrite_all = true\n\
         [[cache.route]]\nid = \"all\"\norigin = {url}\n",
        url = origin_url["url"]
    ));
    let url = format!("http://{}/", server.logged("the cache is at "));
    let loads: [&[&str]; 4] = [
        &["--order", "new", "--bytes", "2000"],
        &["--order", "scan", "--keys", "3000", "--bytes", "20000"],
        &["--keys", "5000"],
        &["--order", "scan", "--keys", "40", "--bytes", "900000"],
    ];
    let mut after_first = None;
    let (begun, mut rounds) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(soak) || rounds < 2 {
        rounds += 1;
        for load in loads {
            let mut command = vickrey(&["hammer", "cache", "--url", &url, "--warm-up", "0s"]);
            command.args(["--count", "400", "--in-flight", "8"]).args(load);
            command.args(["--vary", "x-variant", "--variants", "3"]);
            check(&mut command, 0, &["not valid"], &[]);
        }
        server.send("POST", "/v1/cache/purges", &json!({ "surrogate_key": "group-3" }));
        let resident = resident_mib(server.id());
        let limit = MEMORY_MIB + FETCHING_MIB + WAITING_MIB + BASE_MIB;
        assert!(resident <= limit, "{resident} MiB of {limit}");
        let first = *after_first.get_or_insert(resident);
        assert!(resident <= first + first / 4, "{first} MiB grew to {resident}");
    }
    assert!(server.scraped("cache_disk_written_total") > 500);
    origin.signal("-INT");
    assert_eq!(origin.wait().0, Some(0));
}
