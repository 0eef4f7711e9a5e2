//! Every refusal of a definition, from a file and from the API: the key and the remedy.

use super::*;
use crate::registry::testing::{check_body, check_text};

fn file_problems(files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("campaigns.d")).expect("a folder");
    for (name, text) in files {
        write(folder.path(), name, text);
    }
    let Err(RegistryStartError::Invalid(problems)) = started(folder.path(), || NOW_UNIX_MS) else {
        panic!("the files are refused: {files:?}")
    };
    let prefix = format!("{}/campaigns.d/", folder.path().display());
    problems.iter().map(|problem| problem.to_string().replace(&prefix, "")).collect()
}

/// `text` follows the account's four lines.
#[track_caller]
fn check(text: &str, want: &[&str]) {
    let found = file_problems(&[("a.toml", &format!("{ACCOUNT}{text}"))]);
    assert_eq!(found, want, "{text}");
}

#[test]
fn campaigns_of_files() {
    let with = |more: &str| toml("x", more);
    check(
        &with("budgets = '1'"),
        &["a.toml line 10: campaign[0].budgets: unknown key, did you mean `budget`?"],
    );
    check(
        &with("budget = '-1'"),
        &["a.toml line 10: campaign[0].budget = '-1': is negative: give 0 or more"],
    );
    check(
        &with("budget = 5"),
        &["a.toml line 10: campaign[0].budget = 5: expected text, for example \"1000.00\""],
    );
    check(
        &with("daily_budget = 'a lot'"),
        &["a.toml line 10: campaign[0].daily_budget = 'a lot': needs an amount, for example \
           \"1000.00\""],
    );
    check(
        &with("hourly_budget = '1 EUR'"),
        &["a.toml line 10: campaign[0].hourly_budget = '1 EUR': is in EUR, but the account is in \
           USD: give it in USD"],
    );
    check(
        &with("late_holdback = '101%'"),
        &["a.toml line 10: campaign[0].late_holdback = '101%': needs a share from 0% to 100%, no \
           finer than 0.0001%, or an amount"],
    );
    check(
        &with("hours = ['mon', 'someday']"),
        &[
            "a.toml line 10: campaign[0].hours[1] = 'someday': needs days, hours or both, for example \
           \"mon-fri 08-20\", \"sat\" or \"00-06\"",
        ],
    );
    check(
        &toml("x y", ""),
        &["a.toml line 6: campaign[0].id = 'x y': needs 1 to 64 letters, digits, `-`, `.` or `_`"],
    );
    check(
        &toml("x", "").replace("'acme'", "'acne'"),
        &["a.toml line 7: campaign[0].account = 'acne': is no account, did you mean \"acme\"?"],
    );
    check(
        &toml("x", "").replace("12-01", "10-01"),
        &["a.toml line 9: campaign[0].end = '2026-10-01T00:00:00': is not after `start`: give a \
           later end"],
    );
    check(
        &toml("x", "").replace("start = '2026-11-01T00:00:00'\n", ""),
        &["a.toml line 5: campaign[0].start: is missing, expected text, for example \
           \"2026-11-01T00:00:00\""],
    );
    check(
        "[[campaign]]\n[[banner]]\n",
        &[
            "a.toml line 5: campaign[0].id: is missing, expected text, for example \"summer\"",
            "a.toml line 5: campaign[0].account: is missing, expected text, for example \"acme\"",
            "a.toml line 5: campaign[0].start: is missing, expected text, for example \
             \"2026-11-01T00:00:00\"",
            "a.toml line 5: campaign[0].end: is missing, expected text, for example \
             \"2026-12-01T00:00:00\"",
            "a.toml line 6: banner: unknown key, remove it",
        ],
    );
}

#[test]
fn strategies() {
    let strategy = |more: &str, want: &[&str]| {
        let found = file_problems(&[("a.toml", &format!("{ACCOUNT}{}", toml("x", more)))]);
        let found: Vec<_> =
            found.iter().map(|it| it.replace("a.toml line 10: campaign[0].strategy", "")).collect();
        assert_eq!(found, want, "{more}");
    };
    strategy(
        "strategy.name = 'slot_duel'",
        &[".name = 'slot_duel': is unknown, did you mean \"slot_dual\"?"],
    );
    strategy("strategy.gain = '3'", &[".gain = '3': choose 0.01 to 2"]);
    strategy("strategy.gain = 0.3", &[".gain = 0.3: expected text, for example \"0.3\""]);
    strategy(
        "strategy = { name = 'pid', step = '1' }",
        &[".step = '1': is no gain of `pid`, remove it"],
    );
    strategy("strategy.ahead = '1.5'", &[".ahead = '1.5': choose 0 to 1"]);
    strategy(
        "strategy = { name = 'asap', pricing = 'first_price' }",
        &[".pricing = 'first_price': is nothing that `asap` asks for, remove it"],
    );
    strategy(
        "strategy.forecast_weights = [1, 2]",
        &[".forecast_weights = [1, 2]: has 2 weights: give 168, one for each hour"],
    );
    let fixed = toml("x", "strategy.name = 'pid'").replace("bid.value", "bid.price");
    check(
        &fixed,
        &["a.toml line 10: campaign[0].strategy.name = 'pid': changes prices, but the campaign's \
           price is fixed: choose \"asap\", \"even\" or \"throttle\", or give a value instead of a \
           price"],
    );
}

#[test]
fn accounts_of_files() {
    let check = |text: &str, want: &[&str]| {
        assert_eq!(file_problems(&[("a.toml", text)]), want, "{text}");
    };
    let account =
        |id: &str, more: &str| format!("[[account]]\nid = '{id}'\ncurrency = 'USD'\n{more}\n");
    check(
        &account("a", "time_zone = 'Europe/Berlim'"),
        &["a.toml line 4: account[0].time_zone = 'Europe/Berlim': is no time zone, did you mean \
           \"Europe/Berlin\"?"],
    );
    check(
        &account("a", "").replace("USD", "usd"),
        &[
            "a.toml line 3: account[0].currency = 'usd': unknown currency `usd`, did you mean `USD`?",
        ],
    );
    check(
        &account("a", "seats = ['x']"),
        &[
            "a.toml line 4: account[0].seats[0] = 'x': needs the DSP's id and its seat, for example \
           \"dsp-3/acme\"",
        ],
    );
    check(
        &account("a", "seats = ['x/y', 'x/y']"),
        &["a.toml line 4: account[0].seats = ['x/y', 'x/y']: names `x/y` twice, remove one"],
    );
    let seats: Vec<_> = (0..1_001).map(|number| format!("'x/{number}'")).collect();
    let many = account("a", &format!("seats = [{}]", seats.join(", ")));
    let problems = file_problems(&[("a.toml", &many)]);
    let want = "names 1001 seats, 1000 at most: open another account";
    assert!(problems.len() == 1 && problems[0].ends_with(want), "{problems:?}");
    check(
        &[account("a", "seats = ['x/y']"), account("b", "seats = ['x/y']")].concat(),
        &["a.toml line 5: account[1].seats: names `x/y`, as does the account in a.toml line 1: \
           remove one"],
    );
}

#[test]
fn every_problem_at_once() {
    let found = file_problems(&[
        ("a.toml", &format!("{ACCOUNT}{}", toml("x", "budget = '-1'"))),
        ("b.toml", &toml("y", "daily_budget = '-1'")),
        ("c.toml", "id ="),
    ]);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("a.toml line 10"), "{found:?}");
    assert!(found[1].starts_with("b.toml line 6"), "{found:?}");
    assert!(found[2].starts_with("c.toml line 1"), "{found:?}");
}

#[test]
fn the_same_twice() {
    let found = file_problems(&[
        ("a.toml", &format!("{ACCOUNT}{}", toml("x", ""))),
        ("b.toml", &format!("{}{}", toml("y", ""), toml("x", ""))),
        ("c.toml", ACCOUNT),
    ]);
    assert_eq!(
        found,
        [
            "c.toml line 1: account[0].id = \"acme\": is defined twice, first in a.toml line 1: \
             rename or remove one",
            "b.toml line 8: campaign[1].id = \"x\": is defined twice, first in a.toml line 5: \
             rename or remove one",
        ]
    );
}

#[test]
fn definitions_of_the_api() {
    let fixture = Fixture::new(&[("a.toml", ACCOUNT)]);
    let check = |more: Value, want: &[&str]| {
        let body = object(body("x", &more));
        let refused = fixture.registry().create(StoredKind::Campaign, &body, &keyed(None));
        let Err(ChangeRefusal::Invalid(problems)) = refused else { panic!("{more}: {refused:?}") };
        let found: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(found, want, "{more}");
    };
    check(
        json!({ "budget": "-1", "budgets": "1" }),
        &[
            "budget = \"-1\": is negative: give 0 or more",
            "budgets: unknown key, did you mean `budget`?",
        ],
    );
    check(
        json!({ "strategy": { "gain": 0.3 }, "paused": null }),
        &[
            "paused = null: is null: leave the key out",
            "strategy.gain = 0.3: is no whole number: write it as text, \"0.3\"",
        ],
    );
    check(json!({ "strategy": { "gain": "3" } }), &["strategy.gain = \"3\": choose 0.01 to 2"]);
    check(
        json!({ "account": "acne" }),
        &["account = \"acne\": is no account, did you mean \"acme\"?"],
    );
    check(
        json!({ "hours": ["never"] }),
        &[
            "hours[0] = \"never\": needs days, hours or both, for example \"mon-fri 08-20\", \"sat\" \
           or \"00-06\"",
        ],
    );
    // Nothing was stored.
    let unknown = ChangeRefusal::Unknown { kind: StoredKind::Campaign, id: "x".to_owned() };
    assert_eq!(fixture.registry().show(StoredKind::Campaign, "x"), Err(unknown));
    assert_eq!(fixture.stub.state().changes, 1, "the file's alone");
}

/// What a text results in reads as the same.
#[test]
fn texts_by_themselves() {
    let text = format!("{ACCOUNT}{}", toml("x", "budget = '1.50'\nstrategy = { gain = '0.2' }"));
    let kept = check_text::<PriceRules>("a.toml", &text).expect("a good text");
    let campaign = object(kept["campaign"][0].clone());
    let again =
        check_body::<PriceRules>(StoredKind::Campaign, &campaign).expect("what is kept reads");
    assert_eq!(serde_json::from_str::<Value>(&again).expect("JSON"), Value::from(campaign));
    let bad = check_text::<PriceRules>("a.toml", &toml("x", "")).expect_err("no account");
    let bad: Vec<_> = bad.iter().map(ToString::to_string).collect();
    assert_eq!(bad, ["line 3: campaign[0].account = 'acme': is no account: define it first"]);
}

/// Duplicate ids are reported along with other problems.
#[test]
fn ids_that_stand_twice_are_told_beside_all_else() {
    let found = file_problems(&[
        ("a.toml", &format!("{ACCOUNT}{}", toml("x", "budget = '-1'"))),
        ("b.toml", &format!("{}{}{}", toml("x", ""), toml("y z", ""), toml("w z", ""))),
    ]);
    let ids: Vec<_> = found.iter().filter(|it| it.contains("twice")).collect();
    assert_eq!(ids.len(), 1, "an id that cannot be read is nobody's: {found:?}");
    assert!(
        ids[0].starts_with("b.toml line 1: campaign[0].id = \"x\": is defined twice"),
        "{ids:?}"
    );
    assert!(ids[0].contains("a.toml line 5"), "{ids:?}");
    assert_eq!(found.len(), 4, "{found:?}");
}
