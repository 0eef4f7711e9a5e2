//! Keywords, and the first-party data that Prebid sends under `ext.data`, as keys and values for
//! targeting. Malformed data is ignored: nothing here makes a request invalid.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::imp::Imp;
use crate::members::{entries, named, string};
use crate::request::BidRequest;

/// The key of all keywords.
const KEYWORDS: &str = "keywords";

/// Receives a key and one of its values.
type KeyValueVisitor<'e> = dyn FnMut(&str, &str) + 'e;

impl BidRequest<'_> {
    /// Calls `each` with every key and value about the property and the user, in the order of the
    /// request.
    ///
    /// These are `keywords` and `kwarray` of `site`, `app` or `dooh` under the key `keywords`; the
    /// members of its `ext.data`; and those of `user.ext.data`, unless the request is subject to
    /// COPPA. A value in `ext.data` (Prebid's first-party data) is a string, number or boolean, or
    /// an array of these.
    pub fn key_values(&self, each: &mut KeyValueVisitor<'_>) {
        if let Some(media) = self.media() {
            if let Some(text) = media.keywords.and_then(|raw| string(raw.get())) {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                words.for_each(|word| each(KEYWORDS, word));
            }
            let words = media.kwarray.map(RawValue::get);
            scalars(words, &mut |word| each(KEYWORDS, word));
            first_party_data(media.ext, each);
        }
        // Under COPPA, user data is not targeted.
        let user = self.user.as_ref().filter(|_| !self.is_coppa());
        let user = user.and_then(|user| user.ext.as_ref());
        members_of(user.and_then(|ext| ext.data).map(RawValue::get), each);
    }

    /// The domain of the property, or else of the page.
    pub fn domain(&self) -> Option<Cow<'_, str>> {
        let media = self.media()?;
        let own = media.domain.as_deref().filter(|domain| !domain.is_empty());
        own.map(Cow::Borrowed).or_else(|| match self.page()? {
            Cow::Borrowed(page) => host_of(page).map(Cow::Borrowed),
            Cow::Owned(page) => host_of(&page).map(|host| Cow::Owned(host.to_owned())),
        })
    }

    /// The application's store id.
    pub fn bundle(&self) -> Option<&str> {
        self.media()?.bundle.as_deref().filter(|bundle| !bundle.is_empty())
    }

    /// The URL of the page on which the ad is shown.
    pub fn page(&self) -> Option<Cow<'_, str>> {
        string(self.media()?.page?.get()).filter(|page| !page.is_empty())
    }
}

impl Imp<'_> {
    /// As [`BidRequest::key_values`], for the data of this impression (`imp.ext.data`).
    pub fn key_values(&self, each: &mut KeyValueVisitor<'_>) {
        first_party_data(self.ext, each);
    }
}

/// The host of an absolute URL, without its port.
fn host_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = host.split(':').next().unwrap_or_default();
    (!host.is_empty()).then_some(host)
}

/// Calls `each` with the members of `data` in an `ext`.
fn first_party_data(ext: Option<&RawValue>, each: &mut KeyValueVisitor<'_>) {
    named(ext.map(RawValue::get), "data").for_each(|data| members_of(Some(data), each));
}

fn members_of(data: Option<&str>, each: &mut KeyValueVisitor<'_>) {
    for (key, value) in entries(data, b'{') {
        if let Some(key) = string(key) {
            scalars(Some(value), &mut |value| each(&key, value));
        }
    }
}

/// Calls `each` with a string, number or boolean, or with each of them in an array.
fn scalars(value: Option<&str>, each: &mut dyn FnMut(&str)) {
    let Some(text) = value else { return };
    if text.starts_with('[') {
        entries(value, b'[').for_each(|(_, value)| scalar(value, each));
    } else {
        scalar(text, each);
    }
}

fn scalar(text: &str, each: &mut dyn FnMut(&str)) {
    match text.bytes().next() {
        Some(b'"') => {
            if let Some(text) = string(text) {
                each(&text);
            }
        }
        Some(b'[' | b'{' | b'n') | None => (),
        Some(_) => each(text),
    }
}
