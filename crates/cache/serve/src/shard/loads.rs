//! Reads from the disk under way, by key: those who want the same wait for one, which leaves in memory
//! what it found.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The reads of all shards.
#[derive(Debug, Default)]
pub(crate) struct Loads(Mutex<HashMap<Box<str>, Vec<oneshot::Sender<()>>>>);

/// The part of a request in a read.
#[derive(Debug)]
pub(crate) enum LoadPlace {
    /// It reads.
    Leads(LoadLead),
    /// Another reads; this fails once it has.
    Waits(oneshot::Receiver<()>),
}

/// The right to read a key, alone. Those who wait go on once it is dropped.
#[derive(Debug)]
pub(crate) struct LoadLead {
    loads: Arc<Loads>,
    key: Box<str>,
}

impl Loads {
    /// Takes part in the read of a key.
    pub fn join(self: &Arc<Self>, key: &str) -> LoadPlace {
        let mut under_way = self.under_way();
        if let Some(waiting) = under_way.get_mut(key) {
            let (sender, receiver) = oneshot::channel();
            waiting.push(sender);
            return LoadPlace::Waits(receiver);
        }
        under_way.insert(key.into(), Vec::new());
        LoadPlace::Leads(LoadLead { loads: Arc::clone(self), key: key.into() })
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Box<str>, Vec<oneshot::Sender<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LoadLead {
    fn drop(&mut self) {
        self.loads.under_way().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_goes_on_once_the_one_who_reads_has_left() {
        let loads = Arc::<Loads>::default();
        let LoadPlace::Leads(lead) = loads.join("k") else { panic!("nobody reads yet") };
        let LoadPlace::Waits(mut ended) = loads.join("k") else { panic!("one reads") };
        assert!(matches!(loads.join("other"), LoadPlace::Leads(_)));
        assert_eq!(ended.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        drop(lead);
        assert_eq!(ended.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert!(matches!(loads.join("k"), LoadPlace::Leads(_)));
    }
}
