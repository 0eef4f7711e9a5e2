//! Why a campaign does not spend, in words with a remedy.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SpendCause {
    pub(super) reason: Option<&'static str>,
    pub(super) words: String,
    pub(super) remedy: Option<String>,
}

impl SpendCause {
    pub(super) fn new(reason: &'static str, words: String, remedy: &str) -> Self {
        Self { reason: Some(reason), words, remedy: Some(remedy.to_owned()) }
    }

    pub(super) fn nothing() -> Self {
        Self { reason: None, words: nothing(), remedy: None }
    }
}

pub(super) fn nothing() -> String {
    "nothing keeps it from spending".to_owned()
}
