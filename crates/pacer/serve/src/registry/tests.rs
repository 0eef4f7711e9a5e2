//! The registry over a real store: what it refuses, stores and publishes.

mod bad;
mod changes;
mod files;
mod lots;
mod prepare;
mod standing;
mod unknown_outcomes;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use pacer_core::ledger::{AccountId, BudgetLimits};
use pacer_core::messages::CampaignIndex;
use pacer_core::store::StoredKind;
use runtime::config::reload::Reload;
use runtime::control::Control;
use runtime::shutdown::Shutdown;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use units::{Currency, Nanos};

use super::testing::{PriceRules, StubLedger};
use super::*;

const EVER: Duration = Duration::from_secs(60);

pub(crate) const NOW_UNIX_MS: u64 = 1_800_000_000_000;

const ACCOUNT: &str =
    "[[account]]\nid = 'acme'\ncurrency = 'USD'\ntime_zone = 'America/New_York'\n";

const LATE_WINS: &str = "wins may come late";

struct Fixture {
    registry: Option<Arc<Registry<PriceRules>>>,
    stub: Arc<StubLedger>,
    published: Receiver<PublishedCatalogue<PriceRules>>,
    folder: TempDir,
}

fn options(folder: &Path, clock: fn() -> u64) -> RegistryOptions {
    RegistryOptions {
        folder: folder.to_path_buf(),
        campaigns: Some("campaigns.d/*.toml".to_owned()),
        clock,
        late_wins_warning: Some(LATE_WINS.to_owned()),
    }
}

type Started = (Registry<PriceRules>, Arc<StubLedger>, Receiver<PublishedCatalogue<PriceRules>>);

fn started(folder: &Path, clock: fn() -> u64) -> Result<Started, RegistryStartError> {
    let stub = Arc::new(StubLedger::open(&folder.join("store")).expect("a store"));
    let (told, published) = channel();
    let publish = move |published| drop(told.send(published));
    let builder = Builder::start().expect("a thread");
    let registry = Registry::start(stub.handle(), &options(folder, clock), &builder, publish)?;
    Ok((registry, stub, published))
}

impl Fixture {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("campaigns.d")).expect("a folder");
        for (name, text) in files {
            write(folder.path(), name, text);
        }
        let (registry, stub, published) =
            started(folder.path(), || NOW_UNIX_MS).expect("a registry");
        Self { registry: Some(Arc::new(registry)), stub, published, folder }
    }

    /// Follows the files until the result is dropped.
    fn follow(&self) -> (Reload, Control) {
        let (control, builder) = (Control::start().unwrap(), Builder::start().unwrap());
        let shutdown = Shutdown::new(EVER);
        let interval = Duration::from_millis(1);
        let reload = self.registry().follow_files(interval, &control, &builder, &shutdown);
        (reload.expect("a signal handler"), control)
    }

    fn registry(&self) -> &Arc<Registry<PriceRules>> {
        self.registry.as_ref().expect("it runs")
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        write(self.folder.path(), name, text)
    }

    fn restart(self, clock: fn() -> u64) -> Self {
        let Self { registry, stub, published, folder } = self;
        drop((registry, stub, published));
        let (registry, stub, published) = started(folder.path(), clock).expect("a registry");
        Self { registry: Some(Arc::new(registry)), stub, published, folder }
    }

    fn create(&self, kind: StoredKind, body: Value) -> DefinitionAnswer {
        self.registry().create(kind, &object(body), &keyed(None)).expect("a definition")
    }

    fn edit(&self, id: &str, edit: &DefinitionEdit) -> Result<DefinitionAnswer, ChangeRefusal> {
        self.registry().edit(StoredKind::Campaign, id, edit, &at(None))
    }

    fn view(&self, id: &str) -> Value {
        self.registry().show(StoredKind::Campaign, id).expect("a campaign").view
    }

    /// The next catalogue for which `is` holds.
    fn published(
        &self,
        is: impl Fn(&PublishedCatalogue<PriceRules>) -> bool,
    ) -> PublishedCatalogue<PriceRules> {
        loop {
            let published = self.published.recv_timeout(EVER).expect("it is published");
            if is(&published) {
                return published;
            }
        }
    }
}

fn keyed(key: Option<&str>) -> ChangeOptions<'_> {
    ChangeOptions { key, ..ChangeOptions::default() }
}

fn at(expected: Option<u64>) -> ChangeOptions<'static> {
    ChangeOptions { expected, ..ChangeOptions::default() }
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join("campaigns.d").join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

fn toml(id: &str, more: &str) -> String {
    format!(
        "[[campaign]]\nid = '{id}'\naccount = 'acme'\nstart = '2026-11-01T00:00:00'\n\
         end = '2026-12-01T00:00:00'\n{more}\nbid.value = '2.50'\n"
    )
}

fn body(id: &str, more: &Value) -> Value {
    let mut body = json!({
        "id": id,
        "account": "acme",
        "start": "2026-11-01T00:00:00",
        "end": "2026-12-01T00:00:00",
        "bid": { "value": "2.50" },
    });
    let members = body.as_object_mut().expect("an object");
    members.extend(object(more.clone()));
    body
}

fn account_body() -> Value {
    json!({ "id": "acme", "currency": "USD", "time_zone": "America/New_York" })
}
