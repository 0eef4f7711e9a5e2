//! Reading `[budgets]`, and the options of shards.

use pacer_core::messages::Epoch;
use pacer_core::shard::ShardLedger;
use runtime::builder::Builder;
use runtime::config::{default_toml, describe, parse};

use super::*;

fn read(s: &mut Section<'_>) -> Option<BudgetsConfig> {
    s.table("budgets", "Budgets.", BudgetsConfig::read)
}

#[track_caller]
fn given(text: &str) -> BudgetsConfig {
    let text = format!("[budgets]\ndirectory = \"/tmp/b\"\n{text}");
    parse("vickrey.toml", &text, read).unwrap().unwrap()
}

fn origin() -> TokenOrigin {
    TokenOrigin { node: 0, epoch: Epoch(1), shard: 0 }
}

#[test]
fn every_key_has_a_default_that_is_accepted() {
    let text = default_toml(&describe(read)).replace("# [budgets]", "[budgets]");
    assert!(text.contains("lease_period"), "{text}");
    let config = given("");
    assert_eq!(config.lease_period, secs(1));
    assert_eq!(config.reservation_max, secs(1_800));
    assert_eq!((config.node, config.campaigns.clone()), (0, None));
    let start = config.start(
        3,
        Instant::now(),
        &Shutdown::new(secs(1)),
        &Builder::start().expect("a thread"),
    );
    assert_eq!((start.settings.shards, start.settings.node), (3, 0));
    // A reservation stays open a sixteenth longer than configured.
    assert!(start.settings.horizon > secs(1_800 + 112));
}

#[test]
fn the_directory_is_beside_the_configuration() {
    let config = given("");
    assert_eq!(config.beside("/etc/vickrey".as_ref()).directory, PathBuf::from("/tmp/b"));
    let relative = BudgetsConfig { directory: "budgets".into(), ..config };
    assert_eq!(
        relative.beside("/etc/vickrey".as_ref()).directory,
        PathBuf::from("/etc/vickrey/budgets")
    );
    assert_eq!(relative.beside("".as_ref()).directory, PathBuf::from("budgets"));
}

#[test]
fn each_problem_is_told() {
    let check = |line: &str, want: &str| {
        let text = format!("[budgets]\ndirectory = \"/tmp/b\"\n{line}\n");
        let problems = parse("vickrey.toml", &text, read).unwrap_err().to_string();
        assert!(problems.contains(want), "{problems}");
        assert!(!problems.contains("c2VjcmV0"), "a key is not shown: {problems}");
    };
    check("token_key = \"c2VjcmV0\"", "must be base64 of 16 bytes");
    check("draw_key = \"c2VjcmV0\"", "must be base64 of 16 bytes");
    check("lease_period = \"1ms\"", "lease_period");
    check("campaigns_max = 0", "campaigns_max");
    check("reservation_max = \"2d\"", "reservation_max");
    let long = "late_window = \"24h\"\nreservation_max = \"1s\"";
    check(long, "is more than 4000 times `reservation_max`, make it shorter");
    check("leaseperiod = \"1s\"", "did you mean `lease_period`?");
    let problems = parse("vickrey.toml", "[budgets]\n", read).unwrap_err().to_string();
    assert!(problems.contains("directory"), "{problems}");
}

#[test]
fn keys_that_are_given_are_used_and_not_shown() {
    let config =
        given("token_key = \"AAAAAAAAAAAAAAAAAAAAAA==\"\ncampaigns = \"campaigns.d/*.toml\"");
    assert_eq!(config.token_key, Some(TokenKeySource([0; 16])));
    assert!(format!("{config:?}").contains("token_key: Some(***)"), "{config:?}");
    assert_eq!(config.campaigns, Some("campaigns.d/*.toml".into()));
}

#[test]
fn reservations_last_as_long_as_beacons_and_no_longer_than_is_allowed() {
    let config = given("");
    let lifetimes = [60, 86_400, 300, 60, 1_800, 600].map(secs);
    let options = config.shard_options(origin(), &lifetimes);
    assert_eq!(options.ttls, [60, 300, 600, 1_800].map(secs));
    assert!(ShardLedger::new(&options).is_ok());
    let bytes = options.bytes().unwrap();
    let more = BudgetsConfig { campaigns_max: 20_000, ..config.clone() };
    let each = (more.shard_options(origin(), &lifetimes).bytes().unwrap() - bytes) / 10_000;
    assert!((80 << 20..100 << 20).contains(&bytes), "{bytes}");
    assert!((2_000..=2_500).contains(&each), "{each}");
    assert!(options.horizon() > config.reservation_max);
}

#[test]
fn any_lifetimes_make_a_shard() {
    let text = "late_window = \"24h\"\nreservation_max = \"24h\"\ncampaigns_max = 10\nreservations_max = 1024";
    let config = given(text);
    // Lifetimes too short for the late window, and more than there are classes.
    let lifetimes: Vec<_> = (1..40).map(|at| secs(at * at)).collect();
    let options = config.shard_options(origin(), &lifetimes);
    assert!(options.ttls.len() <= TTLS_MAX);
    ShardLedger::new(&options).unwrap();
    for lifetime in lifetimes {
        let longest = options.ttls.last().expect("one at least");
        assert!(*longest >= lifetime.min(config.reservation_max));
    }
}
