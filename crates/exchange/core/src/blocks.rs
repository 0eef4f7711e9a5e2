//! Whether a creative may be shown: size, format, security, language and block lists.

use openrtb::codes::MediaType;
use openrtb::{Bid, BidRequest, Format, Imp, Text};

use crate::Fate;

/// What the bid brings: its `mtype`, or the one format that was offered.
///
/// `None` when it is not on offer, or cannot be told among several.
pub(crate) fn format_of(imp: &Imp<'_>, bid: &Bid<'_>) -> Option<MediaType> {
    let offered = imp.formats();
    match bid.mtype {
        Some(code) => {
            MediaType::from_code(code).filter(|media_type| offered & media_type.bit() != 0)
        }
        None if offered.count_ones() == 1 => {
            MediaType::ALL.into_iter().find(|media_type| offered == media_type.bit())
        }
        None => None,
    }
}

/// Everything about the creative but its format, in order of precedence.
pub(crate) fn check_creative(
    request: &BidRequest<'_>,
    imp: &Imp<'_>,
    bid: &Bid<'_>,
    format: Option<MediaType>,
) -> Result<MediaType, Fate> {
    let refuse_if = |refused: bool, fate| if refused { Err(fate) } else { Ok(()) };
    refuse_if(format == Some(MediaType::Banner) && !size_is_offered(imp, bid), Fate::Size)?;
    let format = format.ok_or(Fate::Format)?;
    let markup = if markup_matters(imp) { bid.markup_text() } else { None };
    let blocked = markup.and_then(|markup| markup_is_blocked(imp, format, &markup));
    refuse_if(blocked == Some(Fate::Insecure), Fate::Insecure)?;
    let language = bid.language.as_deref().or(bid.langb.as_deref());
    refuse_if(!language_is_welcome(request, language), Fate::Language)?;
    refuse_if(is_blocked_advertiser(request, bid), Fate::Advertiser)?;
    refuse_if(!category_is_welcome(request, bid), Fate::Category)?;
    refuse_if(has_blocked_attribute(imp, bid, format), Fate::Attribute)?;
    refuse_if(blocked == Some(Fate::AdType), Fate::AdType)?;
    let bapp = request.bapp.as_deref().unwrap_or_default();
    let bundle = bid.bundle.as_deref();
    refuse_if(
        bundle.is_some_and(|bundle| bapp.iter().any(|app| **app == *bundle)),
        Fate::AppBundle,
    )?;
    Ok(format)
}

/// Whether there is anything that markup can be blocked for: it takes time to search.
fn markup_matters(imp: &Imp<'_>) -> bool {
    let btype = imp.banner.as_ref().and_then(|banner| banner.btype.as_deref());
    imp.secure == Some(1) || btype.is_some_and(|btype| !btype.is_empty())
}

/// What is wrong with the markup itself, and the fate that it brings.
pub(crate) fn markup_is_blocked(imp: &Imp<'_>, format: MediaType, markup: &str) -> Option<Fate> {
    if imp.secure == Some(1) && is_insecure(markup) {
        return Some(Fate::Insecure);
    }
    is_blocked_ad_type(imp, markup, format).then_some(Fate::AdType)
}

/// A banner's size, told or implied by the only one on offer.
pub(crate) fn banner_size(imp: &Imp<'_>, bid: &Bid<'_>) -> Option<(u32, u32)> {
    if let Some(size) = bid.w.zip(bid.h) {
        return Some(size);
    }
    let mut sizes = imp.banner.as_ref()?.sizes();
    let only = sizes.next()?;
    if sizes.next().is_some() { None } else { only.w.zip(only.h) }
}

fn size_is_offered(imp: &Imp<'_>, bid: &Bid<'_>) -> bool {
    let Some(banner) = &imp.banner else { return true };
    let told = match (bid.w.zip(bid.h), bid.wratio.zip(bid.hratio)) {
        (None, None) => return true, // Silence is no wrong size.
        told => told,
    };
    let matches = |offered: Format| {
        let exact = told.0.is_some_and(|size| is_size_offered(size, offered, imp.instl == Some(1)));
        let ratio = match (told.1, offered.wratio.zip(offered.hratio)) {
            (Some((w, h)), Some((w_offered, h_offered))) => {
                u64::from(w) * u64::from(h_offered) == u64::from(h) * u64::from(w_offered)
                    && bid.w.zip(offered.wmin).is_none_or(|(w, w_min)| w >= w_min)
            }
            _ => false,
        };
        exact || ratio
    };
    let mut sizes = banner.sizes().peekable();
    sizes.peek().is_none() || sizes.any(matches)
}

/// Whether `size` is the one offered, or fits in it: an interstitial's sizes are the largest.
pub(crate) fn is_size_offered((w, h): (u32, u32), offered: Format, is_interstitial: bool) -> bool {
    match offered.w.zip(offered.h) {
        Some((w_max, h_max)) if is_interstitial => w <= w_max && h <= h_max,
        offered => offered == Some((w, h)),
    }
}

/// Whether the markup loads anything over plain HTTP. Links that the user follows, and names of
/// XML namespaces, load nothing.
pub(crate) fn is_insecure(markup: &str) -> bool {
    let markup = markup.as_bytes();
    let loads = |colon: usize| {
        let (before, after) = (&markup[..colon], &markup[colon + 1..]);
        let is_url = after_slash(after).and_then(after_slash).is_some();
        let scheme = before.len().checked_sub(b"http".len());
        is_url
            && scheme.is_some_and(|start| {
                before[start..].eq_ignore_ascii_case(b"http") && !is_link_or_name(&before[..start])
            })
    };
    memchr::memchr_iter(b':', markup).any(loads)
}

/// What follows a slash, which JSON may escape, and JSON within JSON twice.
fn after_slash(text: &[u8]) -> Option<&[u8]> {
    let escapes = text.iter().take_while(|byte| **byte == b'\\').count();
    text[escapes..].strip_prefix(b"/")
}

/// How far before a URL the tag that it stands in opens: enough for any tag, and no markup costs
/// more than this per URL.
const TAG_BYTES_MAX: usize = 1024;

/// Whether what follows `before` in markup is a link to follow or the name of a namespace.
fn is_link_or_name(before: &[u8]) -> bool {
    let before = trim_quotes(&before[before.len().saturating_sub(TAG_BYTES_MAX)..]);
    let Some(open) = memchr::memrchr(b'<', before) else { return is_native_link(before) };
    let tag = &before[open + 1..];
    let mut words = tag.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'!');
    let element = words.next().unwrap_or_default();
    match tag {
        [.., b'>'] => element.ends_with(b"ClickThrough"), // VAST
        [attribute @ .., b'='] => {
            let name = attribute.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
            let is_anchor = [b"a".as_slice(), b"area"]
                .into_iter()
                .any(|anchor| element.eq_ignore_ascii_case(anchor));
            name.starts_with(b"xmlns") || (is_anchor && name.eq_ignore_ascii_case(b"href"))
        }
        _ => element.eq_ignore_ascii_case(b"!doctype"),
    }
}

/// Native markup is JSON, where a landing page is `"link":{"url":…`.
fn is_native_link(before: &[u8]) -> bool {
    let trim = |text| trim_end(text, b"\"\\ :{");
    trim(before).strip_suffix(b"url").is_some_and(|rest| trim(rest).ends_with(b"link"))
}

/// `before` without the quotes, spaces, escapes of these, and CDATA opening at its end.
fn trim_quotes(mut before: &[u8]) -> &[u8] {
    loop {
        before = match trim_end(before, b"\"'\\ \n\r\t") {
            [rest @ .., b'\\', b'n' | b't' | b'r'] => rest,
            trimmed => match trimmed.strip_suffix(b"<![CDATA[") {
                Some(rest) => rest,
                None => return trimmed,
            },
        };
    }
}

fn trim_end<'t>(text: &'t [u8], what: &[u8]) -> &'t [u8] {
    let end = text.iter().rposition(|byte| !what.contains(byte)).map_or(0, |last| last + 1);
    &text[..end]
}

/// Whether a creative in the language `told`, if it is told, is welcome.
pub(crate) fn language_is_welcome(request: &BidRequest<'_>, told: Option<&str>) -> bool {
    let wlang = request.wlang.as_deref().unwrap_or_default();
    let wlangb = request.wlangb.as_deref().unwrap_or_default();
    // `xx` is a creative without words.
    let Some(told) = told.filter(|told| !told.eq_ignore_ascii_case("xx")) else { return true };
    if wlang.is_empty() && wlangb.is_empty() {
        return true;
    }
    let primary = |tag: &str| tag.split('-').next().unwrap_or_default().len();
    // A bare language covers all its regions; a region covers itself and an untold region.
    let matches = |welcome: &Text<'_>| {
        let same_primary = welcome.as_bytes()[..primary(welcome)]
            .eq_ignore_ascii_case(&told.as_bytes()[..primary(told)]);
        welcome.eq_ignore_ascii_case(told)
            || (same_primary && !(welcome.contains('-') && told.contains('-')))
    };
    wlang.iter().chain(wlangb).any(matches)
}

fn is_blocked_advertiser(request: &BidRequest<'_>, bid: &Bid<'_>) -> bool {
    let badv = request.badv.as_deref().unwrap_or_default();
    let domains = bid.adomain.as_deref().unwrap_or_default();
    domains.iter().any(|domain| badv.iter().any(|blocked| is_within(domain, blocked)))
}

/// Whether `domain` is `parent` or a subdomain of it.
pub(crate) fn is_within(domain: &str, parent: &str) -> bool {
    let (domain, parent) = (domain.as_bytes(), parent.as_bytes());
    let Some(start) = domain.len().checked_sub(parent.len()) else { return false };
    !parent.is_empty()
        && domain[start..].eq_ignore_ascii_case(parent)
        && (start == 0 || domain[start - 1] == b'.')
}

/// Not in `bcat`, and in `acat` where that is given. Categories compare within one taxonomy.
fn category_is_welcome(request: &BidRequest<'_>, bid: &Bid<'_>) -> bool {
    let taxonomy = request.cattax.unwrap_or(1);
    let told = bid.cat.as_deref().unwrap_or_default();
    if told.is_empty() || bid.cattax.unwrap_or(1) != taxonomy {
        return true;
    }
    let within = |list: &Option<Vec<Text<'_>>>| {
        let list = list.as_deref().unwrap_or_default();
        told.iter().any(|cat| list.iter().any(|listed| is_same_or_child(cat, listed, taxonomy)))
    };
    let allowed = request.acat.as_ref().is_none_or(Vec::is_empty) || within(&request.acat);
    allowed && !within(&request.bcat)
}

/// In Content Taxonomy 1.0 a child is written as its parent, a dash, and a number: IAB7-39.
/// Later taxonomies number categories without order, so there only the same is the same.
fn is_same_or_child(cat: &str, listed: &str, taxonomy: u32) -> bool {
    let rest = cat.strip_prefix(listed);
    rest.is_some_and(|rest| rest.is_empty() || (taxonomy == 1 && rest.starts_with('-')))
}

fn has_blocked_attribute(imp: &Imp<'_>, bid: &Bid<'_>, format: MediaType) -> bool {
    let battr = match format {
        MediaType::Banner => imp.banner.as_ref().and_then(|banner| banner.battr.as_deref()),
        MediaType::Video => imp.video.as_ref().and_then(|video| video.battr.as_deref()),
        MediaType::Audio => imp.audio.as_ref().and_then(|audio| audio.battr.as_deref()),
        MediaType::Native => imp.native.as_ref().and_then(|native| native.battr.as_deref()),
    };
    let battr = battr.unwrap_or_default();
    bid.attr.as_deref().unwrap_or_default().iter().any(|attr| battr.contains(attr))
}

/// `btype` 3 is JavaScript and 4 an iframe, which show in the markup. The other two, text and
/// plain XHTML banners, cannot be told from it.
fn is_blocked_ad_type(imp: &Imp<'_>, markup: &str, format: MediaType) -> bool {
    let btype = imp.banner.as_ref().and_then(|banner| banner.btype.as_deref());
    let (MediaType::Banner, Some(btype)) = (format, btype) else { return false };
    (btype.contains(&3) && has_tag(markup, "script"))
        || (btype.contains(&4) && has_tag(markup, "iframe"))
}

/// Whether an element's tag opens in the markup.
pub(crate) fn has_tag(markup: &str, tag: &str) -> bool {
    let tags = memchr::memchr_iter(b'<', markup.as_bytes());
    tags.into_iter().any(|at| {
        let rest = &markup.as_bytes()[at + 1..];
        rest.len() >= tag.len() && rest[..tag.len()].eq_ignore_ascii_case(tag.as_bytes())
    })
}

#[cfg(test)]
mod tests;
