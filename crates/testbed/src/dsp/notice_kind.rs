//! The kinds of notices, and how a DSP answers them.

/// The three notices of OpenRTB 2.6, section 4.2.3: `nurl`, `burl` and `lurl`; and the tracker in
/// the markup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DspNotice {
    Win,
    Bill,
    Loss,
    View,
}

impl DspNotice {
    /// The kind of a notice, from its path. None if the path is another.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        let kinds = [
            ("/win", Self::Win),
            ("/bill", Self::Bill),
            ("/loss", Self::Loss),
            ("/view", Self::View),
        ];
        kinds.into_iter().find(|(prefix, _)| path.starts_with(prefix)).map(|(_, kind)| kind)
    }
}

/// How a DSP answers notices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeOptions {
    /// The answer to each call after `fail_first`.
    pub answer: NoticeAnswer,
    /// Number of calls, of all kinds together, that are answered 500 first.
    pub fail_first: u32,
}

/// One answer to a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeAnswer {
    /// A status from 200 to 599, without a body.
    Status(u16),
    /// Never.
    Hang,
    /// 302 to this location.
    Redirect(String),
}

impl Default for NoticeOptions {
    /// 204, always.
    fn default() -> Self {
        Self { answer: NoticeAnswer::Status(204), fail_first: 0 }
    }
}

impl NoticeOptions {
    /// The problem of these options. None if they are valid.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let plain = |to: &String| !to.is_empty() && to.bytes().all(|byte| byte.is_ascii_graphic());
        match &self.answer {
            NoticeAnswer::Status(code) if !(200..=599).contains(code) => {
                Some("notices are answered with a status from 200 to 599")
            }
            NoticeAnswer::Redirect(to) if !plain(to) => Some("a location must be visible ASCII"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_apart_by_path() {
        let check =
            |path: &str, want: Option<DspNotice>| assert_eq!(DspNotice::of_path(path), want);
        check("/win?price=1", Some(DspNotice::Win));
        check("/bill", Some(DspNotice::Bill));
        check("/loss", Some(DspNotice::Loss));
        check("/view?imp=1", Some(DspNotice::View));
        check("/", None);
    }
}
