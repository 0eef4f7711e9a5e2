//! The ledger's thread as the registry tells it of definitions.

use std::collections::BTreeSet;
use std::path::Path;

use pacer_core::ledger::{AccountId, Holdback, Limits};
use pacer_core::messages::Slot;
use pacer_core::refusal::Refusal;
use runtime::metrics::Exposition;

use super::fake::{Till, campaign, usd};
use crate::registry::{AccountOrder, CampaignOrder, DeskError, LedgerDesk};

fn account(id: u32, time_zone: &str) -> AccountOrder {
    AccountOrder {
        id: AccountId(id),
        version: 1,
        currency: usd(),
        time_zone: time_zone.to_owned(),
        late_holdback: Holdback::default(),
        limits: Limits::default(),
        is_paused: false,
    }
}

fn order(slot: u32, account: u32, version: u64) -> CampaignOrder {
    let mut definition = campaign(slot, 1_000).definition;
    (definition.account, definition.version) = (AccountId(account), version);
    CampaignOrder { definition, pacing: None }
}

#[test]
fn what_is_refused_holds_up_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let till = Till::first(folder.path(), 1);
    let desk: &dyn LedgerDesk = &till.handle;
    // A zone that nobody knows, and accounts that are well.
    let accounts = vec![account(0, "UTC"), account(1, "Nowhere/At_All"), account(2, "UTC")];
    let told = desk.define(accounts, vec![order(0, 0, 1)]);
    assert!(matches!(&told, Err(DeskError::Untaken(_))), "{told:?}");
    assert_ne!(till.why(0).refusal, Some(Refusal::Unknown));
    // A campaign stays its account's; those behind it are taken.
    let told = desk.define(Vec::new(), vec![order(0, 2, 2), order(5, 2, 1)]);
    assert!(matches!(&told, Err(DeskError::Untaken(_))), "{told:?}");
    assert_ne!(till.why(5).refusal, Some(Refusal::Unknown));
    assert_eq!(till.handle.next_slot(), Ok(Slot(6)));
    assert_eq!(desk.define(Vec::new(), vec![order(0, 0, 3)]), Ok(()));
    till.close();
}

/// What the alerts ask of the ledger is on the page that is scraped.
#[test]
fn alerts_name_what_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let till = Till::first(folder.path(), 1);
    let mut exposition = Exposition::default();
    till.handle.expose(&mut exposition);
    let page = exposition.text();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/prometheus/alerts.yml");
    let alerts = std::fs::read_to_string(path).unwrap();
    let asked = alerts.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let named =
        asked.flat_map(|it| it.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_'));
    let named: BTreeSet<_> = named.filter(|name| name.starts_with("vickrey_ledger_")).collect();
    assert_eq!(named.len(), 4, "{named:?}");
    for name in named {
        assert!(page.lines().any(|line| line.starts_with(&format!("{name} "))), "{name} in {page}");
    }
    till.close();
}
