//! The winners' markup in a cache, from which the page or the player fetches it: where it is is said in
//! `ext.prebid` of each bid, in the form of Prebid Server.

use std::fmt::Write as _;

use openrtb::codes::MediaType;
use openrtb::{bid_spans, escaped, members, string};

use super::conclude::ClearedAuction;
use crate::answering::response::by_seat;
use crate::answering::sale::Sale;
use crate::answering::win_markup::FetchedMarkup;
use crate::auction::fate::Fate;

/// What is stored of a winner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkupKind {
    /// The JSON of its bid, as it is returned.
    Bid,
    /// The VAST document of a video or audio ad.
    Vast,
}

/// The URL of the cache, for pages and players.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheUrl {
    url: Box<str>,
    /// Where the host begins and ends.
    host: (usize, usize),
}

impl CacheUrl {
    /// An `http` or `https` URL of at most 256 bytes, with a path and without a query. Letters, digits
    /// and `-._~:/` only, so that JSON needs no escapes.
    pub fn parse(url: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/".contains(&byte);
        let start = ["https://", "http://"].iter().find(|scheme| url.starts_with(**scheme))?.len();
        let length = url[start..].find('/').filter(|length| *length > 0)?;
        let is_sound = url.len() <= 256 && url.bytes().all(is_plain);
        is_sound.then(|| Self { url: url.into(), host: (start, start + length) })
    }

    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.url
    }

    /// Host, and the port if it is named.
    pub fn host(&self) -> &str {
        &self.url[self.host.0..self.host.1]
    }

    /// The path.
    pub fn path(&self) -> &str {
        &self.url[self.host.1..]
    }
}

/// The response of an auction, in which each winner says where its markup is. `store` stores a text
/// and returns its UUID, or None if it does not want it; if nothing of a bid is stored, it stays as it
/// is.
pub fn with_cached_markup(
    response: &str,
    cleared: &ClearedAuction<'_, '_>,
    fetched: &[FetchedMarkup],
    url: &CacheUrl,
    mut store: impl FnMut(MarkupKind, &str) -> Option<String>,
) -> String {
    let ClearedAuction { judgement, clearing, sales, .. } = *cleared;
    let in_order = by_seat(judgement, sales);
    let in_order: Vec<&Sale> = in_order.into_iter().flatten().collect();
    // A response without this is as good to its caller.
    let spans = bid_spans(response).ok().filter(|spans| spans.len() == in_order.len());
    let Some(spans) = spans else { return response.to_owned() };
    let mut out = String::with_capacity(response.len() + 512 * sales.len());
    let mut written = 0;
    for (sale, span) in in_order.into_iter().zip(spans) {
        if sale.fate != Fate::Won {
            continue;
        }
        let bid = &response[span.clone()];
        let own = clearing.wins[sale.imp].as_ref();
        let is_it = |ad: &&FetchedMarkup| {
            own.is_some_and(|win| (ad.entry, ad.price) == (win.entry, win.price))
        };
        let fetched = fetched.iter().find(is_it);
        let format = judgement.bids[sale.bid].format(fetched.map(|ad| &*ad.markup));
        let stored = StoredMarkup {
            bid: store(MarkupKind::Bid, bid),
            vast: vast_of(bid, format).and_then(|vast| store(MarkupKind::Vast, &vast)),
        };
        out.push_str(&response[written..span.start]);
        stored.write_bid(&mut out, bid, url);
        written = span.end;
    }
    out.push_str(&response[written..]);
    out
}

/// The document of a video or audio ad. None if the bid has none inline.
fn vast_of(bid: &str, format: Option<MediaType>) -> Option<String> {
    matches!(format, Some(MediaType::Video | MediaType::Audio)).then_some(())?;
    let (_, adm) = members(bid)?.into_iter().find(|(key, _)| &**key == "adm")?;
    string(adm).filter(|adm| !adm.trim_ascii().is_empty()).map(String::from)
}

/// UUIDs of what was stored of a bid.
struct StoredMarkup {
    bid: Option<String>,
    vast: Option<String>,
}

impl StoredMarkup {
    /// Writes the bid with `ext.prebid`, which keeps the DSP's other members.
    fn write_bid(&self, out: &mut String, bid: &str, url: &CacheUrl) {
        if self.bid.is_none() && self.vast.is_none() {
            return out.push_str(bid);
        }
        let with_prebid = |out: &mut String, prebid: Option<&str>| {
            write_object(out, prebid, &["cache", "targeting"], |out| self.write_prebid(out, url));
        };
        let members = members(bid).expect("it is our own");
        // Of two with one name, readers take the last.
        let ext = members.iter().rev().find(|(key, _)| &**key == "ext").map(|(_, ext)| *ext);
        if ext.is_some_and(|ext| ext.starts_with('{') && openrtb::members(ext).is_none()) {
            // It has keys that are no text, and would be lost.
            return out.push_str(bid);
        }
        write_object(out, Some(bid), &["ext"], |out| {
            out.push_str("\"ext\":");
            let prebid = ext.and_then(|ext| {
                let members = openrtb::members(ext)?;
                members
                    .into_iter()
                    .rev()
                    .find(|(key, _)| &**key == "prebid")
                    .map(|(_, prebid)| prebid)
            });
            write_object(out, ext, &["prebid"], |out| {
                out.push_str("\"prebid\":");
                with_prebid(out, prebid);
            });
        });
    }

    fn write_prebid(&self, out: &mut String, url: &CacheUrl) {
        let (host, path) = (url.host(), url.path());
        let url = url.as_str();
        let parts = [("bids", "hb_cache_id", &self.bid), ("vastXml", "hb_uuid", &self.vast)];
        let stored =
            || parts.iter().filter_map(|(kind, key, id)| Some((*kind, *key, id.as_ref()?)));
        out.push_str("\"cache\":{");
        for (at, (kind, _, id)) in stored().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let _ = write!(out, r#"{comma}"{kind}":{{"url":"{url}?uuid={id}","cacheId":"{id}"}}"#);
        }
        out.push_str("},\"targeting\":{");
        for (_, key, id) in stored() {
            let _ = write!(out, r#""{key}":"{id}","#);
        }
        let _ = write!(out, r#""hb_cache_host":"{host}","hb_cache_path":"{path}"}}"#);
    }
}

/// Writes an object: the members of another except for some, and then what `write_last` writes.
fn write_object(
    out: &mut String,
    object: Option<&str>,
    without: &[&str],
    write_last: impl FnOnce(&mut String),
) {
    out.push('{');
    let members = object.and_then(members).unwrap_or_default();
    for (key, raw) in members.iter().filter(|(key, _)| !without.contains(&&**key)) {
        out.extend(["\"", &escaped(key), "\":", raw, ","]);
    }
    write_last(out);
    out.push('}');
}

#[cfg(test)]
mod tests;
