//! The campaigns that the client may name, as the server sent them last.

use std::collections::HashMap;

use pacer_wire::{CatalogueChange, DecisionCode, FrameError};
use units::Currency;

/// A campaign's handle. Valid until the server restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CampaignId(pub(crate) u32);

/// A campaign of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CampaignHandle {
    /// Names it in requests.
    pub handle: CampaignId,
    /// [`DecisionCode::Authorised`] if it may spend, otherwise why not.
    pub state: DecisionCode,
    /// Currency of its prices and costs.
    pub currency: Currency,
}

/// All campaigns, by account and id.
#[derive(Debug, Default)]
pub(crate) struct ClientCatalogue {
    pub generation: u64,
    handles: HashMap<(Box<str>, Box<str>), CampaignHandle>,
}

impl ClientCatalogue {
    /// Applies a frame.
    ///
    /// # Errors
    /// A malformed row.
    pub fn apply(&mut self, change: CatalogueChange<'_>) -> Result<(), FrameError> {
        if change.is_complete {
            self.handles.clear();
        }
        self.generation = change.generation;
        for row in change {
            let row = row?;
            let name = (row.account.into(), row.campaign.into());
            if row.state == DecisionCode::Unknown {
                let handle = CampaignId(row.handle);
                // A newer campaign of the same name stays.
                if self.handles.get(&name).is_some_and(|known| known.handle == handle) {
                    self.handles.remove(&name);
                }
                continue;
            }
            let handle = CampaignId(row.handle);
            let (state, currency) = (row.state, row.currency);
            self.handles.insert(name, CampaignHandle { handle, state, currency });
        }
        Ok(())
    }

    pub fn get(&self, account: &str, campaign: &str) -> Option<CampaignHandle> {
        self.handles.get(&(account.into(), campaign.into())).copied()
    }

    pub fn all(&self) -> Vec<(Box<str>, Box<str>, CampaignHandle)> {
        let all = self.handles.iter();
        all.map(|((account, campaign), it)| (account.clone(), campaign.clone(), *it)).collect()
    }
}
