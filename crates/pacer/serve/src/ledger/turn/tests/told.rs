//! The ledger's metrics.

use std::collections::BTreeSet;
use std::path::Path;

use runtime::metrics::Exposition;

use super::fake::TestLedger;

/// The metrics page has every metric that the alerts use.
#[test]
fn alerts_name_what_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = TestLedger::first(folder.path(), 1);
    let mut exposition = Exposition::default();
    ledger.handle.expose(&mut exposition);
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
    ledger.close();
}
