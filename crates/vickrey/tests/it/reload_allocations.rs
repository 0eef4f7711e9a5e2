//! The cost of a reload in which every campaign has changed: allocations per campaign, and commits
//! in total.
//!
//! Counts, never times, in a process without other allocations.

use std::path::Path;

use faults::process::isolated;
use pacer_serve::registry::testing::StubLedger;
use pacer_serve::registry::{FilesRead, Registry, RegistryOptions};
use runtime::builder::Builder;
use stats_alloc::Region;

use crate::ALLOCATOR;
use crate::definitions::DirectPart;

const FILES: usize = 10;
const CAMPAIGNS: usize = 1_000;

/// Writes a file per account, whose campaigns have two banners each; `daily_budget` is the change.
fn write(folder: &Path, daily_budget: &str) {
    for account in 0..FILES {
        let mut text = format!("[[account]]\nid = \"account-{account}\"\ncurrency = \"USD\"\n");
        for campaign in (account..CAMPAIGNS).step_by(FILES) {
            let id = format!("campaign-{campaign}");
            text += &format!(
                "[[campaign]]\nid = \"{id}\"\naccount = \"account-{account}\"\n\
                 start = \"2026-11-01T00:00:00Z\"\nend = \"2027-01-01T00:00:00Z\"\n\
                 daily_budget = \"{daily_budget}\"\nbid = {{ value = \"0.60\" }}\n\
                 strategy = {{ start = \"1\" }}\n\
                 targeting = {{ countries = [\"USA\"], publishers = [\"publisher-7\"] }}\n"
            );
            for size in ["300x250", "728x90"] {
                text += &format!(
                    "[[campaign.creative]]\nid = \"{id}-{size}\"\nformat = \"banner\"\n\
                     size = \"{size}\"\ndomains = [\"{id}.example\"]\nmarkup = \"<a \
                     href='https://{id}.example/'><img src='https://cdn.example/{id}/{size}.png'>\
                     </a>\"\n"
                );
            }
        }
        std::fs::write(folder.join(format!("{account}.toml")), text).unwrap();
    }
}

#[test]
fn a_campaign_that_changes_takes_so_many_allocations_and_no_commit_of_its_own() {
    isolated(|| {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "100.00");
        let stub = StubLedger::open(&folder.path().join("books")).unwrap();
        let options = RegistryOptions {
            folder: folder.path().to_owned(),
            campaigns: Some("*.toml".to_owned()),
            clock: || 1_793_500_000_000,
            late_wins_warning: None,
        };
        let builder = Builder::start().unwrap();
        let registry =
            Registry::<DirectPart>::start(stub.handle(), &options, &builder, |_| ()).unwrap();
        write(folder.path(), "200.00");
        let changes = stub.state().changes;
        let region = Region::new(ALLOCATOR);
        let read = registry.reload().unwrap();
        let allocated = region.change();
        assert_eq!(read, FilesRead { changed: CAMPAIGNS, ..FilesRead::default() });
        assert_eq!(stub.state().changes - changes, 1, "one commit");
        let each = (allocated.allocations + allocated.reallocations) / CAMPAIGNS;
        assert!(each <= 146, "a campaign that changes takes {each} allocations: {allocated:?}");
    });
}
