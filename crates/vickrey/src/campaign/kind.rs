//! Accounts and campaigns in the API: their paths and messages.

use serde_json::Value;

use crate::command::client::{ApiClient, ApiRefusal, encoded};
use crate::command::exit::{CommandFailure, Exit};

/// Page size of lists.
pub(super) const PAGE: usize = 1000;

/// The kind of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefinitionKind {
    Account,
    Campaign,
}

impl DefinitionKind {
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Account => "/v1/accounts",
            Self::Campaign => "/v1/campaigns",
        }
    }

    pub(super) const fn plural(self) -> &'static str {
        match self {
            Self::Account => "accounts",
            Self::Campaign => "campaigns",
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Campaign => "campaign",
        }
    }

    pub(super) fn of(self, id: &str, what: &str) -> String {
        format!("{}/{}{what}", self.path(), encoded(id))
    }
}

/// Requests one account or campaign.
pub(super) fn ask_one(
    client: &ApiClient,
    kind: DefinitionKind,
    id: &str,
    what: &str,
) -> anyhow::Result<Value> {
    let asked = client.ask("GET", &kind.of(id, what), &[], None)?;
    asked.map_err(|refusal| refused(kind, id, refusal))
}

/// The refusal of a request about one account or campaign. For an unknown id it names the command
/// that lists ids, instead of the API's path.
pub(super) fn refused(kind: DefinitionKind, id: &str, refusal: ApiRefusal) -> anyhow::Error {
    if !refusal.is_not_found() {
        return refusal.into_failure();
    }
    let name = kind.name();
    let message = format!("no {name} has the id `{id}`: `vickrey {name} list` shows all");
    CommandFailure::with_exit(Exit::NotFound, message)
}
