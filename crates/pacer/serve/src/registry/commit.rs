//! Stores changes. While the outcome of one is unknown, no other is judged.

use std::sync::{Arc, PoisonError};

use pacer_core::store::StoreDenial;
use tracing::{error, info, warn};

use super::changes::{DefinitionStep, NewEntry, UncertainChange, UnstoredSteps};
use crate::ledger::handle::LedgerError;
use crate::registry::refused::ChangeRefusal;
use crate::registry::{CampaignRules, ChangeState, RegistryState, changes};

impl<R: CampaignRules> RegistryState<R> {
    /// Makes steps durable, then updates the ledger, then publishes.
    pub(in crate::registry) fn commit(
        &self,
        changing: &mut ChangeState<R>,
        steps: Vec<DefinitionStep<R>>,
    ) -> Result<(), ChangeRefusal> {
        let at_unix_ms = (self.clock)();
        let stored = self.store_and_apply(changing, UncertainChange { steps, at_unix_ms });
        let defined = changing.backlog.send(&self.definitions, &self.ledger);
        self.publish_soon();
        if let Err(UnstoredSteps { steps, error }) = stored {
            // A first attempt that was denied is surely not stored; a repeated one may have been
            // stored by the first.
            if matches!(error, LedgerError::Stopped | LedgerError::TimedOut) {
                warn!(%error, "whether a change is kept is not known: it is asked for again");
                changing.uncertain = Some(UncertainChange { steps, at_unix_ms });
            }
            return Err(refusal_of(&error));
        }
        defined.map_err(|error| {
            error!(%error, "the ledger is not told of a change that is kept");
            ChangeRefusal::Unavailable(match error {
                LedgerError::Rejected(_) => format!("it is kept, but {error}"),
                error => format!("it is kept, and holds once the ledger is told: {error}"),
            })
        })
    }

    /// Resolves a change of unknown outcome by submitting it again: it is applied once.
    ///
    /// # Errors
    /// [`ChangeRefusal::Unavailable`] while the outcome stays unknown: nothing may be changed then.
    pub(in crate::registry) fn resolve_uncertain(
        &self,
        changing: &mut ChangeState<R>,
    ) -> Result<(), ChangeRefusal> {
        let Some(uncertain) = changing.uncertain.take() else { return Ok(()) };
        let at_unix_ms = uncertain.at_unix_ms;
        match self.store_and_apply(changing, uncertain) {
            Ok(()) => info!("a change of which nobody knew how it had ended is kept"),
            Err(UnstoredSteps { steps, error }) if may_be_stored(&error) => {
                changing.uncertain = Some(UncertainChange { steps, at_unix_ms });
                let message = format!("whether a change before is kept is not known yet: {error}");
                return Err(ChangeRefusal::Unavailable(message));
            }
            Err(UnstoredSteps { error, .. }) => {
                warn!(%error, "a change of which nobody knew how it had ended is not kept");
            }
        }
        // What the ledger cannot take now goes with the next change.
        let _defined = changing.backlog.send(&self.definitions, &self.ledger);
        self.publish_soon();
        Ok(())
    }

    fn store_and_apply(
        &self,
        changing: &mut ChangeState<R>,
        uncertain: UncertainChange<R>,
    ) -> Result<(), UnstoredSteps<R>> {
        let UncertainChange { steps, at_unix_ms } = uncertain;
        let ChangeState { backlog, keys, .. } = changing;
        let before = |step: &DefinitionStep<R>| {
            let definitions = self.definitions();
            let (_, record) = definitions.record(step.kind(), &step.id)?;
            (!record.is_removed).then(|| record.clone())
        };
        changes::store_steps(&self.ledger, steps, at_unix_ms, before, |part| {
            let mut definitions = self.definitions.write().unwrap_or_else(PoisonError::into_inner);
            for step in part {
                if let Some(keyed) = step.keyed.clone() {
                    keys.remember(keyed, &step.answer(), at_unix_ms);
                }
                let DefinitionStep { id, becomes, .. } = step;
                match becomes {
                    NewEntry::Account(entry) => {
                        definitions.put_account(Arc::clone(&id), entry);
                        backlog.account(&id);
                    }
                    NewEntry::Campaign(entry) => {
                        definitions.put_campaign(Arc::clone(&id), entry);
                        backlog.campaign(&id);
                    }
                }
            }
        })
    }
}

/// Whether retried steps may be stored despite the error: an earlier try may have succeeded.
const fn may_be_stored(error: &LedgerError) -> bool {
    match error {
        LedgerError::Denied(denied) => {
            matches!(denied, StoreDenial::Busy | StoreDenial::Failing(_))
        }
        LedgerError::Stopped | LedgerError::TimedOut | LedgerError::Rejected(_) => true,
    }
}

fn refusal_of(error: &LedgerError) -> ChangeRefusal {
    if let LedgerError::Denied(StoreDenial::Conflict { key, present }) = error {
        let (kind, id) = (key.kind.label(), &key.id);
        error!(kind, id, present, "the store keeps another version than is known");
        let message = format!(
            "the store keeps {kind} `{id}` at version {present}, which this process does not know: \
             nothing was changed; start the process again"
        );
        return ChangeRefusal::Unavailable(message);
    }
    ChangeRefusal::Unavailable(error.to_string())
}
