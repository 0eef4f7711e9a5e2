//! The configuration over HTTP: what is in force, and reading it anew. And the document that
//! describes all of the API.
//!
//! It must not know what is configured: whoever holds the configuration is a [`Configuration`].

use std::time::SystemTime;

use serde_json::{Value, json};

use super::reply::{ErrorCode, Reply};
use super::rfc3339::rfc3339;
use super::route::{Api, Method, Route};
use crate::config::{Difference, Problem, Problems};

/// Who holds the configuration.
pub trait Configuration: Send + Sync {
    /// What is in force.
    fn in_force(&self) -> InForce;

    /// Reads the files anew, and puts them in force if nothing is wrong with them. It may take as
    /// long as reading them does.
    ///
    /// # Errors
    ///
    /// When nothing was changed.
    fn reload(&self) -> Result<ReloadSummary, ReloadError>;
}

/// The configuration in force.
#[derive(Clone, Debug, PartialEq)]
pub struct InForce {
    /// Counts from 1.
    pub generation: u64,
    /// When it was read.
    pub loaded_at: SystemTime,
    /// Its main file.
    pub file: String,
    /// Every key, with its value; secrets masked.
    pub effective: Value,
    /// Keys of it that take effect only when the process is started again.
    pub needs_restart: Vec<String>,
}

/// What reading the configuration anew has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadSummary {
    /// The generation now in force.
    pub generation: u64,
    /// What differs from before.
    pub differences: Vec<Difference>,
    /// Keys that differ from what the process was started with, and take effect only when it is
    /// started again.
    pub needs_restart: Vec<String>,
    /// What became of the files of accounts and campaigns. None if there are none to read.
    pub campaigns: Option<CampaignFiles>,
}

/// What reading the files of accounts and campaigns anew has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CampaignFiles {
    /// They are in force.
    Taken {
        /// Definitions that were not there before, or were removed.
        created: usize,
        /// That are otherwise than before.
        changed: usize,
        /// That no file has any more.
        removed: usize,
    },
    /// They have problems: what they defined before stays in force.
    Refused(Vec<Problem>),
    /// Not now: it is tried again.
    Unavailable(String),
}

/// Why the configuration is as it was.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReloadError {
    /// The files have problems.
    #[error(transparent)]
    Invalid(#[from] Problems),
    /// Not now; a later request may fare better.
    #[error("{0}")]
    Unavailable(String),
}

/// The configuration and its reload.
pub static CONFIGURATION: &[Route<Box<dyn Configuration>>] = &[
    Route {
        method: Method::Get,
        path: "/v1/config",
        answer: |configuration, _| show(&configuration.in_force()),
    },
    Route {
        method: Method::Post,
        path: "/v1/reload",
        answer: |configuration, _| reloaded(configuration.reload()),
    },
];

/// The document of the API.
pub static DOCUMENT: &[Route<&'static str>] = &[Route {
    method: Method::Get,
    path: "/v1/openapi.json",
    answer: |document, _| Reply::json_text(document),
}];

/// Answers for `configuration`.
pub fn configuration(configuration: impl Configuration + 'static) -> Api {
    let configuration: Box<dyn Configuration> = Box::new(configuration);
    Api::new(configuration, CONFIGURATION)
}

/// Shows an OpenAPI document, as JSON.
pub fn document(document: &'static str) -> Api {
    Api::new(document, DOCUMENT)
}

fn show(in_force: &InForce) -> Reply {
    Reply::json(&json!({
        "generation": in_force.generation,
        "loaded_at": rfc3339(in_force.loaded_at),
        "file": in_force.file,
        "needs_restart": in_force.needs_restart,
        "configuration": in_force.effective,
    }))
}

fn reloaded(outcome: Result<ReloadSummary, ReloadError>) -> Reply {
    match outcome {
        Ok(ReloadSummary {
            campaigns: Some(CampaignFiles::Refused(problems)),
            generation,
            differences,
            needs_restart,
        }) => refused(&problems, generation, (&differences, &needs_restart)),
        Ok(ReloadSummary { campaigns: Some(CampaignFiles::Unavailable(why)), .. }) => {
            let message = format!(
                "the configuration is in force; the files of accounts and campaigns are not: {why}"
            );
            Reply::error(ErrorCode::Unavailable, &message)
        }
        Ok(summary) => Reply::json(&json!({
            "generation": summary.generation,
            "differences": summary.differences.iter().map(Difference::to_json).collect::<Value>(),
            "needs_restart": summary.needs_restart,
            "campaigns": summary.campaigns.as_ref().map(taken),
        })),
        Err(ReloadError::Unavailable(why)) => Reply::error(ErrorCode::Unavailable, &why),
        Err(ReloadError::Invalid(problems)) => {
            let (count, file) = (problems.count(), problems.file());
            let noun = if count == 1 { "problem" } else { "problems" };
            let message = format!("{count} {noun} in {file}; the old configuration stays in force");
            let listed: Value = problems.iter().map(problem).collect();
            let members = json!({ "count": count, "problems": listed });
            Reply::error_with(ErrorCode::InvalidConfiguration, &message, members)
        }
    }
}

/// The reply where the files of accounts and campaigns are refused, though the configuration is not.
fn refused(
    problems: &[Problem],
    generation: u64,
    (differences, needs_restart): (&[Difference], &[String]),
) -> Reply {
    let count = problems.len();
    let noun = if count == 1 { "problem" } else { "problems" };
    let message = format!(
        "the configuration is in force, as generation {generation}; {count} {noun} in the files of \
         accounts and campaigns; what they defined before stays in force"
    );
    let listed: Value = problems.iter().map(problem).collect();
    let members = json!({
        "count": count,
        "problems": listed,
        "generation": generation,
        "differences": differences.iter().map(Difference::to_json).collect::<Value>(),
        "needs_restart": needs_restart,
    });
    Reply::error_with(ErrorCode::InvalidCampaignFiles, &message, members)
}

fn taken(files: &CampaignFiles) -> Value {
    match files {
        CampaignFiles::Taken { created, changed, removed } => {
            json!({ "created": created, "changed": changed, "removed": removed })
        }
        CampaignFiles::Refused(_) | CampaignFiles::Unavailable(_) => Value::Null,
    }
}

fn problem(problem: &Problem) -> Value {
    json!({
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "key": problem.key,
        "value": problem.value,
        "remedy": problem.remedy,
    })
}
