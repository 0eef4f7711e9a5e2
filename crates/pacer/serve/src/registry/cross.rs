//! Problems between definitions of all files and the API: duplicate ids and seats, missing
//! accounts, and changes of what must not change. Single definitions were judged before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pacer_core::ledger::CAMPAIGNS_MAX;
use pacer_core::store::StoredKind;
use runtime::config::ConfigProblem;

use super::definition::{DefinedAccount, DefinedCampaign};
use super::read::{FileDefinition, FileDefinitions, named_twice};
use super::table::record::RecordOrigin;
use super::table::{DefinitionEntry, DefinitionTable};
use super::text::json::problem;

pub(super) fn problems<R>(
    set: &FileDefinitions<R>,
    definitions: &DefinitionTable<R>,
) -> Vec<ConfigProblem> {
    let mut problems = named_twice(&set.names());
    let mut seats = seats_of_api(definitions);
    for found in &set.accounts {
        let before = definitions.accounts.get(found.value.id.as_str());
        let taken = before.filter(|entry| is_of_api(entry));
        if taken.is_some() {
            problems.push(of_api(StoredKind::Account, found, &found.value.id));
        } else if let Some((key, remedy)) = changed_account(&found.value, before) {
            problems.push(at(StoredKind::Account, found, key, None, remedy));
        }
        for (dsp, seat) in &found.value.seats {
            let name = format!("{dsp}/{seat}");
            match seats.get(&name) {
                None => drop(seats.insert(name, place(found))),
                Some(first) => {
                    let remedy =
                        format!("names `{name}`, as does the account in {first}: remove one");
                    problems.push(at(StoredKind::Account, found, "seats", None, remedy));
                }
            }
        }
    }
    for found in &set.campaigns {
        let before = definitions.campaigns.get(&found.value.id);
        if before.is_some_and(is_of_api) {
            problems.push(of_api(StoredKind::Campaign, found, &found.value.id));
        } else if let Some(remedy) = changed_campaign(&found.value, before) {
            problems.push(at(
                StoredKind::Campaign,
                found,
                "account",
                Some(&found.value.account),
                remedy,
            ));
        }
    }
    problems.extend(left_alone(set, definitions));
    problems
}

/// A changed key of an account that must not change, and the remedy.
pub(super) fn changed_account(
    account: &DefinedAccount,
    before: Option<&DefinitionEntry<DefinedAccount>>,
) -> Option<(&'static str, String)> {
    let before = before?.value.as_ref()?;
    if before.facts.currency != account.facts.currency {
        let currency = before.facts.currency;
        let remedy = format!("was {currency} and does not change: open another account");
        return Some(("currency", remedy));
    }
    if before.time_zone != account.time_zone {
        let zone = &before.time_zone;
        let remedy = format!("was \"{zone}\" and does not change: open another account");
        return Some(("time_zone", remedy));
    }
    None
}

pub(super) fn changed_campaign<R>(
    campaign: &DefinedCampaign<R>,
    before: Option<&DefinitionEntry<DefinedCampaign<R>>>,
) -> Option<String> {
    let was = before?.account()?;
    (was != campaign.account)
        .then(|| format!("was \"{was}\" and does not change: make another campaign"))
}

/// The problem of a definition for which no number is left.
pub(super) fn too_many(key: &str) -> ConfigProblem {
    let remedy = format!("more than {CAMPAIGNS_MAX} campaigns have ever been: begin a new store");
    problem(key, None, remedy)
}

/// A seat of the account that another account has, and that account.
pub(super) fn taken_seat<R>(
    account: &DefinedAccount,
    definitions: &DefinitionTable<R>,
) -> Option<(String, String)> {
    let others = definitions
        .accounts
        .iter()
        .filter(|(id, entry)| ***id != *account.id && !entry.record.is_removed);
    let own: BTreeSet<_> = account.seats.iter().collect();
    for (id, entry) in others {
        let theirs = entry.value.iter().flat_map(|other| &other.seats);
        if let Some((dsp, seat)) = theirs.into_iter().find(|seat| own.contains(seat)) {
            return Some((format!("{dsp}/{seat}"), id.to_string()));
        }
    }
    None
}

fn is_of_api<T>(entry: &DefinitionEntry<T>) -> bool {
    entry.record.origin == RecordOrigin::Api && !entry.record.is_removed
}

fn seats_of_api<R>(definitions: &DefinitionTable<R>) -> BTreeMap<String, String> {
    let accounts = definitions.accounts.iter().filter(|(_, entry)| is_of_api(entry));
    let seats = accounts.flat_map(|(id, entry)| {
        let seats = entry.value.iter().flat_map(|account| &account.seats);
        seats.map(move |(dsp, seat)| (format!("{dsp}/{seat}"), format!("the API, `{id}`")))
    });
    seats.collect()
}

/// Campaigns of the API whose accounts the files no longer define.
fn left_alone<'b, R>(
    set: &FileDefinitions<R>,
    definitions: &'b DefinitionTable<R>,
) -> impl Iterator<Item = ConfigProblem> + use<'b, R> {
    let given: BTreeSet<Arc<str>> =
        set.accounts.iter().map(|found| found.value.id.as_str().into()).collect();
    let gone = definitions.accounts.iter().filter(move |(id, entry)| {
        !entry.record.is_removed && entry.record.origin.file().is_some() && !given.contains(*id)
    });
    gone.filter_map(|(id, entry)| {
        let theirs = |campaign: &DefinedCampaign<R>| *campaign.account == **id;
        let mut campaigns = definitions.campaigns.iter().filter(|(_, entry)| is_of_api(entry));
        let (campaign, _) =
            campaigns.find(|(_, entry)| entry.value.as_deref().is_some_and(theirs))?;
        Some(ConfigProblem {
            file: Some(entry.record.origin.file()?.display().to_string()),
            line: None,
            column: None,
            key: "account".to_owned(),
            value: None,
            remedy: format!(
                "`{id}` is gone, but campaign `{campaign}` of the API is paid from it: keep the \
                 account, or remove the campaign first"
            ),
        })
    })
}

fn of_api<T>(kind: StoredKind, found: &FileDefinition<T>, id: &str) -> ConfigProblem {
    let remedy = "is defined through the API already: rename or remove this one";
    at(kind, found, "id", Some(id), remedy.to_owned())
}

fn place<T>(found: &FileDefinition<T>) -> String {
    let file = found.file.display();
    found.line.map_or_else(|| file.to_string(), |line| format!("{file} line {line}"))
}

fn at<T>(
    kind: StoredKind,
    found: &FileDefinition<T>,
    key: &str,
    value: Option<&str>,
    remedy: String,
) -> ConfigProblem {
    ConfigProblem {
        file: Some(found.file.display().to_string()),
        line: found.line,
        column: None,
        key: format!("{}[{}].{key}", kind.label(), found.index),
        value: value.map(|value| format!("\"{value}\"")),
        remedy,
    }
}
