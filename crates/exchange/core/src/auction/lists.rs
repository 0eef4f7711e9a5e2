//! A request's and its deals' lists that restrict bids. Each is sorted on first use, so that long
//! lists cost little and short ones almost nothing.

use std::borrow::Cow;
use std::cell::OnceCell;

use openrtb::{BidRequest, Text};

use super::domains::DomainSet;
use super::steps::Steps;

const SCANNED_MAX: usize = 8;

/// Longer lists are sorted ahead of use: see [`RequestLists::sort_next`].
const SHORT_MAX: usize = 64;

/// Most dashes of a category that is looked up as a child: Content Taxonomy 1.0 has one.
const CHILD_DEPTH_MAX: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct TextSet {
    text: String,
    spans: Vec<(u32, u32)>,
}

impl TextSet {
    /// A set of `texts` in their comparable form.
    pub(crate) fn new<'t>(
        texts: &'t [Text<'_>],
        form: impl Fn(&'t str) -> Cow<'t, str>,
        steps: &Steps,
    ) -> Self {
        steps.add_sort(texts.len());
        let mut set = Self { text: String::new(), spans: Vec::with_capacity(texts.len()) };
        let place = |at: usize| u32::try_from(at).expect("a request is below 4 GiB");
        for text in texts {
            steps.add_bytes(text.len());
            let start = set.text.len();
            set.text.push_str(&form(text));
            set.spans.push((place(start), place(set.text.len())));
        }
        let Self { text, spans } = &mut set;
        spans.sort_unstable_by(|(a, a_end), (b, b_end)| {
            slice(text, *a, *a_end).cmp(slice(text, *b, *b_end))
        });
        set
    }

    fn from<'s>(&'s self, text: &str, steps: &Steps) -> impl Iterator<Item = &'s str> {
        steps.add_search(self.spans.len());
        steps.add_bytes(text.len());
        let first =
            self.spans.partition_point(|(start, end)| slice(&self.text, *start, *end) < text);
        self.spans[first..].iter().map(|(start, end)| slice(&self.text, *start, *end))
    }

    pub(crate) fn has(&self, text: &str, steps: &Steps) -> bool {
        self.from(text, steps).next() == Some(text)
    }

    fn has_prefix(&self, prefix: &str, steps: &Steps) -> bool {
        self.from(prefix, steps).next().is_some_and(|text| text.starts_with(prefix))
    }
}

fn slice(text: &str, start: u32, end: u32) -> &str {
    &text[start as usize..end as usize]
}

/// A list that is sorted on first use. `IS_TRIMMED`: surrounding white space is ignored.
#[derive(Debug, Default)]
pub(crate) struct SortedList<const IS_TRIMMED: bool = false>(OnceCell<TextSet>);

impl<const IS_TRIMMED: bool> SortedList<IS_TRIMMED> {
    pub(crate) fn has(&self, list: &[Text<'_>], text: &str, steps: &Steps) -> bool {
        let text = Self::form(text);
        if list.len() <= SCANNED_MAX {
            steps.add(list.len());
            return list.iter().any(|own| Self::form(own) == text);
        }
        self.sorted(list, steps).has(text, steps)
    }

    fn form(text: &str) -> &str {
        if IS_TRIMMED { text.trim() } else { text }
    }

    fn sorted(&self, list: &[Text<'_>], steps: &Steps) -> &TextSet {
        self.0.get_or_init(|| TextSet::new(list, |text| Self::form(text).into(), steps))
    }

    /// Sorts a long list. False if it is short or sorted.
    pub(crate) fn sort_if_long(&self, list: &[Text<'_>], steps: &Steps) -> bool {
        let is_due = is_due(list.len(), &self.0);
        if is_due {
            self.sorted(list, steps);
        }
        is_due
    }
}

#[derive(Debug, Default)]
pub(crate) struct DomainList(OnceCell<DomainSet>);

impl DomainList {
    pub(crate) fn has(&self, list: &[Text<'_>], domain: &str, steps: &Steps) -> bool {
        self.sorted(list, steps).has(domain, steps)
    }

    fn sorted(&self, list: &[Text<'_>], steps: &Steps) -> &DomainSet {
        self.0.get_or_init(|| DomainSet::new(list.iter().map(|text| &**text), steps))
    }

    pub(crate) fn sort_if_long(&self, list: &[Text<'_>], steps: &Steps) -> bool {
        let is_due = is_due(list.len(), &self.0);
        if is_due {
            self.sorted(list, steps);
        }
        is_due
    }
}

/// Whether a list of this length is to be sorted ahead of use.
fn is_due<T>(len: usize, sorted: &OnceCell<T>) -> bool {
    len > SHORT_MAX && sorted.get().is_none()
}

#[derive(Debug, Default)]
pub(crate) struct RequestLists {
    pub(crate) steps: Steps,
    pub(crate) wseat: SortedList,
    pub(crate) bseat: SortedList,
    bapp: SortedList<true>,
    badv: DomainList,
    bcat: OnceCell<TextSet>,
    acat: OnceCell<TextSet>,
    languages: OnceCell<TextSet>,
}

impl RequestLists {
    /// Sorts one of the long lists. False if all are sorted.
    pub(crate) fn sort_next(&self, request: &BidRequest<'_>) -> bool {
        let BidRequest { wlang, wlangb, bcat, acat, badv, bapp, .. } = request;
        let [wlang, wlangb, bcat, acat, badv, bapp] =
            [wlang, wlangb, bcat, acat, badv, bapp].map(|list| list.as_deref().unwrap_or_default());
        if is_due(wlang.len() + wlangb.len(), &self.languages) {
            self.languages(request);
        } else if is_due(bcat.len(), &self.bcat) {
            self.categories(&self.bcat, bcat);
        } else if is_due(acat.len(), &self.acat) {
            self.categories(&self.acat, acat);
        } else {
            return self.badv.sort_if_long(badv, &self.steps)
                || self.bapp.sort_if_long(bapp, &self.steps)
                || self.sort_next_seats(request);
        }
        true
    }

    /// As [`Self::sort_next`], for lists of seats only.
    pub(crate) fn sort_next_seats(&self, request: &BidRequest<'_>) -> bool {
        let [wseat, bseat] =
            [&request.wseat, &request.bseat].map(|list| list.as_deref().unwrap_or_default());
        self.wseat.sort_if_long(wseat, &self.steps) || self.bseat.sort_if_long(bseat, &self.steps)
    }

    /// A bare language covers its regions, a region also the bare language (ISO 639-1, BCP 47).
    pub(crate) fn admit_language(&self, request: &BidRequest<'_>, language: &str) -> bool {
        let wlang = request.wlang.as_deref().unwrap_or_default();
        let wlangb = request.wlangb.as_deref().unwrap_or_default();
        // `xx` is a creative without words.
        if (wlang.is_empty() && wlangb.is_empty()) || language.eq_ignore_ascii_case("xx") {
            return true;
        }
        let languages = self.languages(request);
        let language = language.to_ascii_lowercase();
        let primary = language.split('-').next().unwrap_or_default();
        languages.has(&language, &self.steps)
            || languages.has(primary, &self.steps)
            || (primary == language && languages.has_prefix(&format!("{language}-"), &self.steps))
    }

    fn languages(&self, request: &BidRequest<'_>) -> &TextSet {
        self.languages.get_or_init(|| {
            let all: Vec<_> =
                request.wlang.iter().chain(&request.wlangb).flatten().cloned().collect();
            TextSet::new(&all, |text| text.to_ascii_lowercase().into(), &self.steps)
        })
    }

    pub(crate) fn admit_categories(
        &self,
        request: &BidRequest<'_>,
        categories: &[Text<'_>],
        has_children: bool,
    ) -> bool {
        let (bcat, acat) = (request.bcat.as_deref(), request.acat.as_deref());
        let any = |own: &OnceCell<TextSet>, list: Option<&[Text<'_>]>| {
            let list = list.unwrap_or_default();
            !list.is_empty() && {
                let set = self.categories(own, list);
                categories.iter().any(|category| self.is_listed(set, category, has_children))
            }
        };
        (acat.is_none_or(<[_]>::is_empty) || any(&self.acat, acat)) && !any(&self.bcat, bcat)
    }

    fn categories<'s>(&'s self, own: &'s OnceCell<TextSet>, list: &[Text<'_>]) -> &'s TextSet {
        own.get_or_init(|| TextSet::new(list, Cow::Borrowed, &self.steps))
    }

    /// In Content Taxonomy 1.0 a child is its parent, a dash and a number, as IAB7-39. Later
    /// taxonomies are unordered, so only equal categories match.
    fn is_listed(&self, set: &TextSet, category: &str, has_children: bool) -> bool {
        let depth = if has_children { CHILD_DEPTH_MAX } else { 0 };
        let dashes = memchr::memchr_iter(b'-', category.as_bytes()).take(depth);
        let mut parents = dashes.into_iter().map(|dash| &category[..dash]);
        set.has(category, &self.steps) || parents.any(|parent| set.has(parent, &self.steps))
    }

    pub(crate) fn blocks_advertiser(&self, request: &BidRequest<'_>, domain: &str) -> bool {
        let badv = request.badv.as_deref().unwrap_or_default();
        !badv.is_empty() && self.badv.has(badv, domain, &self.steps)
    }

    pub(crate) fn blocks_app(&self, request: &BidRequest<'_>, bundle: &str) -> bool {
        self.bapp.has(request.bapp.as_deref().unwrap_or_default(), bundle, &self.steps)
    }
}

#[cfg(test)]
mod tests;
