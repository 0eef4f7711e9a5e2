//! Reads a request's body, headers and query, or refuses it with the wrong field and a remedy.

use pacer_core::messages::Epoch;
use pacer_core::store::AuditKey;
use runtime::admin::{ApiCall, ErrorCode, Reply};
use runtime::config::ConfigProblem;
use serde_json::{Map, Value};

use super::shown::{invalid, wrong};
use crate::registry::{ChangeOptions, ReadJsonError, read_json};

pub(super) const JSON: &[&str] = &["application/json"];

pub(super) const MERGE_PATCH: &[&str] = &["application/merge-patch+json", "application/json"];

const KEY_BYTES_MAX: usize = 128;

const ACTOR_BYTES_MAX: usize = 64;

#[derive(Clone, Copy)]
pub(super) struct AdminRequest<'c>(&'c ApiCall);

fn twice(path: &str) -> ConfigProblem {
    let (key, remedy) = (path.to_owned(), "is given twice: remove one".to_owned());
    ConfigProblem { file: None, line: None, column: None, key, value: None, remedy }
}

fn bad(field: &str, message: &str) -> Reply {
    wrong(ErrorCode::BadRequest, field, message)
}

impl<'c> AdminRequest<'c> {
    pub(super) fn new(call: &'c ApiCall) -> Self {
        Self(call)
    }

    pub(super) fn body(self, media_types: &[&str]) -> Result<Map<String, Value>, Reply> {
        self.body_or_problems(media_types, |_| Vec::new())
    }

    /// As [`Self::body`]; reports duplicate names together with what `problems` finds.
    pub(super) fn body_or_problems(
        self,
        media_types: &[&str],
        problems: impl Fn(&Map<String, Value>) -> Vec<ConfigProblem>,
    ) -> Result<Map<String, Value>, Reply> {
        let given = self.0.header("content-type")?.unwrap_or_default();
        let media_type = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !media_types.contains(&media_type.as_str()) {
            let message = format!("`{given}` is not read: send {}", media_types.join(" or "));
            return Err(wrong(ErrorCode::UnsupportedMediaType, "content-type", &message));
        }
        match read_json(self.0.body()) {
            Ok(Value::Object(body)) => Ok(body),
            Ok(_) => Err(bad("body", "the body is no object: send one, with a definition's keys")),
            Err(ReadJsonError::Twice(paths, value)) => {
                let twice = paths.iter().map(|path| twice(path));
                let others = value.as_object().map(problems).unwrap_or_default();
                Err(invalid(&twice.chain(others).collect::<Vec<_>>()))
            }
            Err(ReadJsonError::Json(error)) => {
                Err(bad("body", &format!("the body is not JSON: {error}: send a JSON object")))
            }
        }
    }

    /// The version that must be in force, if any (RFC 9110, section 13.1.1).
    pub(super) fn version(self) -> Result<Option<u64>, Reply> {
        let Some(given) = self.0.header("if-match")? else { return Ok(None) };
        let given = given.trim();
        if given == "*" {
            return Ok(None);
        }
        let tag = given.strip_prefix("W/").unwrap_or(given);
        let quoted = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
        let digits = quoted.unwrap_or(tag);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        match digits.parse() {
            Ok(version) if is_number => Ok(Some(version)),
            _ => {
                let message =
                    format!("`{given}` is no version: send one as the etag had it, such as \"3\"");
                Err(bad("if-match", &message))
            }
        }
    }

    /// The same version, from the header or the body, but not both.
    pub(super) fn version_or(self, of_body: Option<Value>) -> Result<Option<u64>, Reply> {
        let of_header = self.version()?;
        let Some(of_body) = of_body else { return Ok(of_header) };
        let Some(version) = of_body.as_u64() else {
            return Err(bad("version", "is no version: give a whole number such as 3"));
        };
        match of_header {
            Some(other) if other != version => {
                let message = "if-match names another version than the body: name one of them";
                Err(bad("version", message))
            }
            _ => Ok(Some(version)),
        }
    }

    pub(super) fn key(self) -> Result<Option<&'c str>, Reply> {
        let Some(key) = self.0.header("idempotency-key")? else { return Ok(None) };
        let fits = (1..=KEY_BYTES_MAX).contains(&key.len())
            && key.bytes().all(|byte| byte.is_ascii_graphic());
        if fits {
            return Ok(Some(key));
        }
        let message = format!("the key needs 1 to {KEY_BYTES_MAX} letters without spaces");
        Err(bad("idempotency-key", &message))
    }

    /// Actor and dry run, with `expected` as the version.
    pub(super) fn options(self, expected: Option<u64>) -> Result<ChangeOptions<'c>, Reply> {
        let actor = self.0.header("vickrey-actor")?;
        let fits = |actor: &str| {
            (1..=ACTOR_BYTES_MAX).contains(&actor.len())
                && actor.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        };
        if actor.is_some_and(|actor| !fits(actor)) {
            let message =
                format!("the actor needs 1 to {ACTOR_BYTES_MAX} printable ASCII characters");
            return Err(bad("vickrey-actor", &message));
        }
        Ok(ChangeOptions { key: None, expected, actor, is_dry_run: self.flag("dry_run")? })
    }

    pub(super) fn only(self, known: &[&str]) -> Result<(), Reply> {
        match self.0.query_names().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let message = format!("`{name}` is unknown: ask by {}", known.join(", "));
                Err(bad(&name, &message))
            }
        }
    }

    pub(super) fn most(self, default: usize, limit: usize) -> Result<usize, Reply> {
        let Some(given) = self.0.query("most")? else { return Ok(default) };
        match given.parse() {
            Ok(most) if (1..=limit).contains(&most) => Ok(most),
            _ => Err(bad("most", &format!("`{given}` is not from 1 to {limit}: choose one"))),
        }
    }

    pub(super) fn flag(self, name: &str) -> Result<bool, Reply> {
        match self.0.query(name)?.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(given) => {
                Err(bad(name, &format!("`{given}` is not `true` or `false`: write one")))
            }
        }
    }

    pub(super) fn audit_key(self, name: &str) -> Result<Option<AuditKey>, Reply> {
        let Some(given) = self.0.query(name)? else { return Ok(None) };
        let numbers: Option<Vec<u64>> = given.split('.').map(|part| part.parse().ok()).collect();
        let key = numbers.and_then(|numbers| match numbers[..] {
            [node, epoch, number, index] => Some(AuditKey {
                node: node.try_into().ok()?,
                epoch: Epoch(epoch.try_into().ok()?),
                number,
                index: index.try_into().ok()?,
            }),
            _ => None,
        });
        let message = format!("`{given}` is no key of an entry: take one from `next` or `key`");
        key.map(Some).ok_or_else(|| bad(name, &message))
    }
}
