//! The clients that may connect, and those that a reload removed, whose wins still count.

use std::collections::BTreeSet;
use std::sync::Arc;

use runtime::metrics::PerShard;

use super::config::BidderConfig;
use super::counters::ClientCounts;

/// A client. Its number stays the same until the process ends.
#[derive(Clone, Debug)]
pub(crate) struct Bidder {
    pub config: BidderConfig,
    /// Whether the configuration no longer has it.
    pub is_removed: bool,
    /// Accounts whose reservations it may settle: of all its configurations in this process. Empty:
    /// all.
    pub settleable: BTreeSet<String>,
    pub counts: PerShard<ClientCounts>,
}

/// All clients, by number.
#[derive(Clone, Debug)]
pub(crate) struct BidderList {
    shards: usize,
    pub bidders: Vec<Arc<Bidder>>,
}

/// Ids of clients that a configuration adds and removes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BidderChanges {
    pub added: Vec<String>,
    pub removed: Vec<String>,
}

impl BidderList {
    pub fn new(shards: usize, configs: Vec<BidderConfig>) -> Self {
        let mut list = Self { shards, bidders: Vec::new() };
        list.replace(configs);
        list
    }

    /// Puts another configuration in force. A client that returns has its number again. None if
    /// nothing changed.
    pub fn replace(&mut self, configs: Vec<BidderConfig>) -> Option<BidderChanges> {
        let former: Vec<_> = self.configured().map(|bidder| &bidder.config).collect();
        if former.len() == configs.len() && configs.iter().all(|config| former.contains(&config)) {
            return None;
        }
        let mut changes = BidderChanges::default();
        let mut configs: Vec<_> = configs.into_iter().map(Some).collect();
        for bidder in &mut self.bidders {
            let of_id = |it: &&mut Option<BidderConfig>| {
                it.as_ref().is_some_and(|config| config.id == bidder.config.id)
            };
            let Some(config) = configs.iter_mut().find(of_id).and_then(Option::take) else {
                if !bidder.is_removed {
                    changes.removed.push(bidder.config.id.to_string());
                    *bidder = Arc::new(Bidder { is_removed: true, ..Bidder::clone(bidder) });
                }
                continue;
            };
            if bidder.is_removed {
                changes.added.push(config.id.to_string());
            } else if bidder.config == config {
                continue;
            }
            let is_all = bidder.settleable.is_empty() || config.accounts.is_empty();
            let settleable =
                if is_all { BTreeSet::new() } else { &bidder.settleable | &config.accounts };
            let counts = bidder.counts.clone();
            *bidder = Arc::new(Bidder { config, is_removed: false, settleable, counts });
        }
        for config in configs.into_iter().flatten() {
            changes.added.push(config.id.to_string());
            let settleable = config.accounts.clone();
            let counts = PerShard::new(self.shards);
            self.bidders.push(Arc::new(Bidder { config, is_removed: false, settleable, counts }));
        }
        Some(changes)
    }

    /// Those that may connect.
    fn configured(&self) -> impl Iterator<Item = &Bidder> {
        self.bidders.iter().map(|bidder| &**bidder).filter(|bidder| !bidder.is_removed)
    }
}

#[cfg(test)]
mod tests {
    use runtime::config::Secret;

    use super::*;

    fn config(id: &str, accounts: &[&str]) -> BidderConfig {
        let accounts = accounts.iter().map(|&account| account.to_owned()).collect();
        BidderConfig { id: id.into(), secret: Secret::new("s"), accounts }
    }

    #[test]
    fn numbers_stay_and_rights_to_settle_remain() {
        let mut list = BidderList::new(1, vec![config("a", &["x"]), config("b", &[])]);
        assert_eq!(list.replace(vec![config("b", &[]), config("a", &["x"])]), None);
        let changes = list.replace(vec![config("c", &["z"]), config("a", &["y"])]).unwrap();
        assert_eq!(changes, BidderChanges { added: vec!["c".into()], removed: vec!["b".into()] });
        let ids: Vec<_> = list.bidders.iter().map(|bidder| &*bidder.config.id).collect();
        assert_eq!(ids, ["a", "b", "c"]);
        let accounts = list.bidders[0].settleable.iter().collect::<Vec<_>>();
        assert_eq!(accounts, ["x", "y"]);
        assert_eq!(list.configured().count(), 2);

        list.bidders[1].counts.shard(0).batches.increment();
        let changes = list.replace(vec![config("b", &["x"]), config("a", &[])]).unwrap();
        assert_eq!(changes, BidderChanges { added: vec!["b".into()], removed: vec!["c".into()] });
        assert!(list.bidders[1].settleable.is_empty(), "it had all accounts");
        assert!(list.bidders[0].settleable.is_empty(), "it has all accounts");
        assert_eq!(list.bidders[1].counts.shard(0).batches.value(), 1);
    }
}
