//! `update` and `apply`: the difference comes first, and with any problem nothing changes.

use super::{CAMPAIGN, Server};

#[test]
fn what_a_file_says_is_applied_and_the_difference_shown() {
    let server = Server::start("");
    let other = CAMPAIGN.replace("summer", "winter").replace("'5'", "'7'");
    let both = |first: &str, second: &str| {
        let table =
            |text: &str| format!("[[campaign]]\n{}", text.replace("[bid]\nvalue", "bid.value"));
        server.file("both.toml", &format!("{}{}", table(first), table(second)))
    };
    let file = both(CAMPAIGN, &other);
    let apply = ["campaign", "apply", "-f", &file];
    let would = ["campaign summer would be created", "  + budget: 5", "campaign winter would be"];
    server.run(&[&apply[..], &["--dry-run"]].concat(), 0, &would, &[]);
    server.run(&["campaign", "list"], 0, &["no campaigns yet"], &[]);
    server.run(&apply, 0, &["campaign summer is created, at version 1"], &[]);
    server.run(
        &apply,
        0,
        &["campaign summer is unchanged: it already matches", "campaign winter is unchanged"],
        &[],
    );
    both(&CAMPAIGN.replace("'5'", "'6'"), &other);
    let changed = ["campaign summer would be changed", "  ~ budget: 5 → 6"];
    let said = server.run(&[&apply[..], &["--dry-run"]].concat(), 0, &changed, &[]);
    assert!(!said.contains("winter would"), "{said}");
    server.run(&apply, 0, &["campaign summer is changed, at version 2"], &[]);
    // All definitions of a file are validated before the first one changes.
    both(&CAMPAIGN.replace("'5'", "'9'"), &other.replace("'7'", "'-7'").replace("acme", "acne"));
    let refused = [
        "error: nothing was changed",
        "campaign `winter`: 2 problems",
        "account = \"acne\"",
        "budget = \"-7\": is negative",
    ];
    server.run(&apply, 64, &[], &refused);
    server.run(&["campaign", "show", "summer"], 0, &["version 2", "budget     6"], &[]);
    let account = server.file("b.toml", "id = 'b'\ncurrency = 'EUR'\n");
    let created = ["account b is created, at version 1", "  + currency: EUR"];
    server.run(&["account", "apply", "-f", &account], 0, &created, &[]);
    // A removed campaign is restored.
    server.run(&["campaign", "remove", "winter"], 0, &[], &[]);
    both(&CAMPAIGN.replace("'5'", "'6'"), &other);
    server.run(&apply, 0, &["campaign winter is changed, at version 3"], &[]);
    let filed = server.file("acme.toml", "id = 'acme'\ncurrency = 'USD'\nbudget = '1'\n");
    server.run(&["account", "apply", "-f", &filed], 73, &[], &["a.toml: change it there"]);
}

#[test]
fn keys_are_updated_and_the_difference_shown() {
    let server = Server::start("");
    let file = server.file("summer.toml", CAMPAIGN);
    server.run(&["campaign", "create", &file], 0, &[], &[]);
    let update = ["campaign", "update", "summer", "--set", "daily_budget=2.50"];
    let would = ["campaign summer would be changed", "  + daily_budget: 2.50"];
    server.run(&[&update[..], &["--dry-run"]].concat(), 0, &would, &[]);
    server.run(&update, 0, &["campaign summer is changed, at version 2"], &[]);
    server.run(&update, 0, &["campaign summer is unchanged: it already matches"], &[]);
    let several = ["--set", "budget=null", "--set", "bid.value=3", "--set", "hours=[\"mon\"]"];
    let lines = ["  - budget: 5", "  ~ bid.value: 2.50 → 3", "  + hours: [\"mon\"]", "version 3"];
    server.run(&[&update[..3], &several].concat(), 0, &lines, &[]);
    let patch = server.file("patch.json", "{\"daily_budget\": \"4\"}");
    let by_file = ["campaign", "update", "summer", "--file", &patch];
    server.run(&by_file, 0, &["  ~ daily_budget: 2.50 → 4"], &[]);
    let check = |more: &[&str], exit: i32, stderr: &str| {
        server.run(&[&["campaign", "update"], more].concat(), exit, &[], &[stderr]);
    };
    check(&["summer"], 64, "--set");
    check(&["summer", "--set", "x"], 64, "write KEY=VALUE");
    check(&["summer", "--set", "budget=-1"], 64, "budget = \"-1\": is negative");
    check(&["nobody", "--set", "budget=1"], 66, "no campaign has the id `nobody`");
    check(&["summer", "--set", "budget=1", "--if-version", "1"], 75, "is at version 4, not 1");
}
