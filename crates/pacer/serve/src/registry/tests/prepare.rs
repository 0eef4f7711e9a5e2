//! Files judged before a ledger begins, and without one.

use pacer_core::store::{DefinitionKey, StoredDefinition};

use super::*;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("campaigns.d")).expect("a folder");
    for (name, text) in files {
        write(folder.path(), name, text);
    }
    folder
}

fn checked(folder: &TempDir, may_be_kept: bool) -> Result<CheckedFiles, String> {
    let options = options(folder.path(), || NOW_UNIX_MS);
    let checked = check_files::<PriceRules>(&options, may_be_kept);
    checked.map_err(|error| error.to_string().replace(&folder.path().display().to_string(), ""))
}

fn prepared(
    folder: &TempDir,
    kept: &[(StoredKind, &str, Value)],
) -> Result<(), RegistryStartError> {
    let definitions = |kind| {
        let kept = kept.iter().filter(|(of, ..)| *of == kind);
        let found = kept.map(|(kind, id, given)| {
            let key = DefinitionKey { kind: *kind, id: (*id).to_owned() };
            let body = json!({
                "slot": null, "file": null, "removed": false, "held": {}, "definition": given,
            });
            (key, StoredDefinition { version: 1, body: body.to_string().into_bytes() })
        });
        Ok(found.collect())
    };
    let options = options(folder.path(), || NOW_UNIX_MS);
    PreparedRegistry::<PriceRules>::read(&options, definitions).map(drop)
}

#[test]
fn a_check_tells_what_a_start_would() {
    let twice = "[[account]]\nid = 'b'\ncurrency = 'EUR'\nseats = ['d/s']\n";
    let folder = folder(&[
        ("a.toml", &[ACCOUNT, "seats = ['d/s']\n", &toml("x", "budget = '-1'")].concat()),
        ("b.toml", &[twice, &toml("y", "").replace("'acme'", "'nobody'")].concat()),
    ]);
    let want = "2 problems in the files of accounts and campaigns; nothing was started\n  \
                /campaigns.d/a.toml line 11: campaign[0].budget = '-1': is negative: give 0 or more\n  \
                /campaigns.d/b.toml line 7: campaign[0].account = 'nobody': is no account: define it \
                first";
    assert_eq!(checked(&folder, false), Err(want.to_owned()));
    let started = prepared(&folder, &[]).expect_err("it is refused").to_string();
    assert_eq!(started.replace(&folder.path().display().to_string(), ""), want);
    // Problems between files are reported once each file is valid by itself.
    write(folder.path(), "a.toml", &[ACCOUNT, "seats = ['d/s']\n"].concat());
    write(folder.path(), "b.toml", twice);
    let want = "1 problem in the files of accounts and campaigns; nothing was started\n  \
                /campaigns.d/b.toml line 1: account[0].seats: names `d/s`, as does the account in \
                /campaigns.d/a.toml line 1: remove one";
    assert_eq!(checked(&folder, false), Err(want.to_owned()));
    let started = prepared(&folder, &[]).expect_err("it is refused").to_string();
    assert_eq!(started.replace(&folder.path().display().to_string(), ""), want);
}

#[test]
fn accounts_of_the_api_may_be_supposed() {
    let nobody = toml("y", "budget = '1'").replace("'acme'", "'nobody'");
    let folder = folder(&[
        // In a later file than the campaign.
        ("b.toml", &[ACCOUNT, "seats = ['d/s', 'd/t']\n"].concat()),
        ("a.toml", &[toml("x", ""), nobody].concat()),
    ]);
    let refused = checked(&folder, false).expect_err("nobody has it");
    assert!(refused.contains("campaign[1].account = 'nobody': is no account"), "{refused}");
    let found = checked(&folder, true).expect("it may be kept");
    assert_eq!((found.accounts, found.campaigns), (1, 2));
    assert_eq!(found.supposed.into_iter().collect::<Vec<_>>(), ["nobody"]);
    let seats: Vec<_> =
        found.seats.iter().map(|(account, dsp, seat)| format!("{account} {dsp}/{seat}")).collect();
    assert_eq!(seats, ["acme d/s", "acme d/t"]);
    // A start knows whether the account is stored.
    let account = json!({ "id": "nobody", "currency": "EUR" });
    assert!(prepared(&folder, &[(StoredKind::Account, "nobody", account)]).is_ok());
    assert!(matches!(prepared(&folder, &[]), Err(RegistryStartError::Invalid(_))));
    // All else is judged.
    write(folder.path(), "a.toml", &toml("y", "budget = '-1'").replace("'acme'", "'nobody'"));
    let refused = checked(&folder, true).expect_err("it is negative");
    assert!(refused.starts_with("1 problem") && refused.contains("is negative"), "{refused}");
}

#[test]
fn what_is_kept_counts_before_a_ledger_begins() {
    let folder = folder(&[("a.toml", ACCOUNT)]);
    let kept = json!({ "id": "acme", "currency": "USD" });
    let refused =
        prepared(&folder, &[(StoredKind::Account, "acme", kept)]).expect_err("it is there");
    assert!(refused.to_string().contains("is defined through the API already"), "{refused}");
    let options = options(folder.path(), || NOW_UNIX_MS);
    let silent = |_| Err(LedgerError::Stopped);
    let refused = PreparedRegistry::<PriceRules>::read(&options, silent).map(drop);
    assert!(matches!(refused, Err(RegistryStartError::Ask(_))));
}

#[test]
fn what_clocks_skip_is_told_by_a_check() {
    let skipped = toml("x", "").replace("2026-11-01T00:00:00", "2026-03-08T02:30:00");
    let folder = folder(&[("a.toml", &[ACCOUNT, &skipped].concat())]);
    let found = checked(&folder, false).expect("nothing is wrong");
    assert_eq!(found.notes.len(), 1);
    let (id, note) = &found.notes[0];
    assert!(id == "x" && note.starts_with("start: 2026-03-08T02:30:00 is skipped"), "{note}");
    let options = RegistryOptions { campaigns: None, ..options(folder.path(), || NOW_UNIX_MS) };
    let none = check_files::<PriceRules>(&options, false).expect("there are no files");
    assert_eq!(none, CheckedFiles::default());
}
