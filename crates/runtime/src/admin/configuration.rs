//! The configuration over HTTP: the one in force, and its reload. It must not know what is
//! configured: the owner of the configuration is a [`Configuration`].

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::reply::{ErrorCode, Reply, ReplyResult};
use super::route::operation::Operation;
use super::route::{Api, Method, Route};
use crate::config::{ConfigProblem, ConfigProblems, SettingDifference};

/// The owner of the configuration.
pub trait Configuration: Send + Sync {
    /// The configuration in force.
    fn in_force(&self) -> ConfigurationInForce;

    /// Rereads the files, and puts them in force if they have no problem. Takes as long as reading
    /// does.
    ///
    /// # Errors
    /// If nothing changed.
    fn reload(&self) -> Result<ReloadSummary, ReloadError>;
}

/// The configuration in force.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Configuration")]
pub struct ConfigurationInForce {
    /// Number of configurations applied so far, from 1.
    pub generation: u64,
    /// When it was read.
    #[schemars(extend("format" = "date-time"))]
    pub loaded_at: String,
    /// The main file.
    pub file: String,
    /// Keys in it that take effect only at the next start.
    pub needs_restart: Vec<String>,
    /// Every key with its value, nested as in the file; null for absent keys without a default,
    /// `"***"` for secrets.
    #[schemars(with = "Map<String, Value>")]
    pub configuration: Value,
}

/// The changes from the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReloadSummary {
    /// The generation now in force.
    pub generation: u64,
    /// Differences from the previous generation.
    pub differences: Vec<SettingDifference>,
    /// Keys that differ from those at the start, and take effect only at the next start.
    pub needs_restart: Vec<String>,
    /// The outcome of each service's own files.
    #[serde(skip)]
    pub files: Vec<ReloadedFiles>,
}

/// The outcome of rereading the definitions in a service's own files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadedFiles {
    /// They are in force.
    Taken {
        /// New or restored definitions.
        created: usize,
        /// Changed definitions.
        changed: usize,
        /// Definitions that no file has any more.
        removed: usize,
    },
    /// They have problems: the previous definitions stay in force.
    Refused(Vec<ConfigProblem>),
    /// Temporarily impossible; it is retried.
    Unavailable(String),
}

/// Why the configuration did not change.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReloadError {
    /// The files have problems.
    #[error(transparent)]
    Invalid(#[from] ConfigProblems),
    /// Temporarily impossible; a later request may succeed.
    #[error("{0}")]
    Unavailable(String),
}

fn routes() -> Vec<Route<Box<dyn Configuration>>> {
    const TAG: &str = "configuration";
    vec![
        Route {
            method: Method::Get,
            path: "/v1/config",
            answer: |configuration, _| Ok(Reply::json(&configuration.in_force())),
            operation: Operation::new(TAG, "config", "The configuration in force, secrets masked.")
                .json::<ConfigurationInForce>(200, "The configuration in force."),
        },
        Route {
            method: Method::Post,
            path: "/v1/reload",
            answer: |configuration, _| reloaded(configuration.reload()),
            operation: Operation::new(
                TAG,
                "reload",
                "Reads the configuration and the files of accounts and campaigns anew, and puts each in \
                 force if something has changed and nothing is wrong with it.",
            )
            .json::<ReloadView>(
                200,
                "All is in force. Without a change of the configuration its generation is the same as \
                 before.",
            )
            .error_with::<InvalidConfiguration>(
                ErrorCode::InvalidConfiguration,
                "The configuration has problems (`invalid_configuration`): nothing was changed.",
            )
            .error_with::<InvalidCampaignFiles>(
                ErrorCode::InvalidCampaignFiles,
                "The files of accounts and campaigns have (`invalid_campaign_files`): what they said \
                 before stays in force, and the configuration is in force.",
            )
            .error(
                ErrorCode::Unavailable,
                "The process is shutting down, or what the files of campaigns say cannot be kept now.",
            ),
        },
    ]
}

/// The result of a reload.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Reloaded")]
struct ReloadView {
    #[serde(flatten)]
    taken: ReloadSummary,
    /// The changes from the files of accounts and campaigns; null without `[budgets]`.
    campaigns: Option<FileCounts>,
}

/// Number of definitions in files that changed.
#[derive(Default, Serialize, JsonSchema)]
struct FileCounts {
    created: usize,
    changed: usize,
    removed: usize,
}

/// Error members for an invalid configuration.
#[derive(Serialize, JsonSchema)]
struct InvalidConfiguration {
    /// Number of problems, including those not listed.
    count: usize,
    problems: Vec<ConfigProblem>,
}

/// Error members for invalid files of accounts and campaigns.
#[derive(Serialize, JsonSchema)]
struct InvalidCampaignFiles {
    #[serde(flatten)]
    problems: InvalidConfiguration,
    #[serde(flatten)]
    taken: ReloadSummary,
}

/// The API of `configuration`.
pub fn configuration(configuration: impl Configuration + 'static) -> Api {
    let configuration: Box<dyn Configuration> = Box::new(configuration);
    Api::new(configuration, routes())
}

fn reloaded(outcome: Result<ReloadSummary, ReloadError>) -> ReplyResult {
    let mut taken = match outcome {
        Ok(summary) => summary,
        Err(ReloadError::Unavailable(why)) => {
            return Err(Reply::error(ErrorCode::Unavailable, &why));
        }
        Err(ReloadError::Invalid(problems)) => {
            let (count, file) = (problems.count(), problems.file());
            let found = counted(count);
            let message = format!("{found} in {file}; the old configuration stays in force");
            let problems = problems.iter().cloned().collect();
            let members = InvalidConfiguration { count, problems };
            return Err(Reply::error_with(ErrorCode::InvalidConfiguration, &message, members));
        }
    };
    let (mut campaigns, mut problems) = (None, Vec::new());
    for outcome in std::mem::take(&mut taken.files) {
        match outcome {
            ReloadedFiles::Taken { created, changed, removed } => {
                let counts: &mut FileCounts = campaigns.get_or_insert_default();
                counts.created += created;
                counts.changed += changed;
                counts.removed += removed;
            }
            ReloadedFiles::Refused(found) => problems.extend(found),
            ReloadedFiles::Unavailable(why) => {
                let message = format!(
                    "the configuration is in force; the files of accounts and campaigns are not: \
                     {why}"
                );
                return Err(Reply::error(ErrorCode::Unavailable, &message));
            }
        }
    }
    if !problems.is_empty() {
        let count = problems.len();
        let message = format!(
            "the configuration is in force, as generation {}; {} in the files of \
             accounts and campaigns; what they defined before stays in force",
            taken.generation,
            counted(count)
        );
        let problems = InvalidConfiguration { count, problems };
        let members = InvalidCampaignFiles { problems, taken };
        return Err(Reply::error_with(ErrorCode::InvalidCampaignFiles, &message, members));
    }
    Ok(Reply::json(&ReloadView { taken, campaigns }))
}

fn counted(count: usize) -> String {
    format!("{count} {}", if count == 1 { "problem" } else { "problems" })
}
