//! Whether a creative may be shown: format, size, playback, security, language and block lists.

use openrtb::codes::MediaType;
use openrtb::{Bid, BidRequest, Format, Imp};

use super::format::formats_of;
use super::mixed_content::is_insecure;
use super::playback::check_playback;
use crate::auction::fate::Fate;
use crate::auction::lists::RequestLists;
use crate::market::size::AdSize;

/// The taxonomy whose categories show their parents: Content Taxonomy 1.0.
pub(crate) const TAXONOMY_WITH_CHILDREN: u32 = 1;

const HEAD_BYTES: usize = 256;

#[derive(Clone, Copy, Debug)]
pub(crate) struct CreativeRules<'r> {
    pub(crate) request: &'r BidRequest<'r>,
    pub(crate) lists: &'r RequestLists,
    pub(crate) imp: &'r Imp<'r>,
}

impl CreativeRules<'_> {
    /// Checks the creative, and returns the possible formats that may be shown, as a set of
    /// [`MediaType::bit`]: several only if its markup `is_fetched`.
    pub(crate) fn check(&self, bid: &Bid<'_>, is_fetched: bool) -> Result<u8, Fate> {
        let raw = bid.markup();
        let head = raw.map_or(&b""[..], |raw| &raw.as_bytes()[..raw.len().min(HEAD_BYTES)]);
        let is_escaped = memchr::memmem::find(head, br"\u00").is_some();
        let is_searched = is_escaped || markup_matters(self.imp);
        let text = if is_searched { bid.markup_text() } else { None };
        if is_searched && raw.is_some() && text.is_none() {
            return Err(Fate::Format); // Lone surrogate: we cannot decode it, but a browser may.
        }
        self.lists.steps.add_bytes(text.as_ref().map_or(head.len(), |text| text.len()));
        let formats = formats_of(self.imp, bid, text.as_deref().or(raw));
        let mut passed = 0;
        let mut fate = Fate::Format;
        for format in MediaType::members(formats) {
            match self.check_as(format, bid, text.as_deref()) {
                Ok(()) => passed |= format.bit(),
                Err(why) if formats == format.bit() => fate = why,
                Err(_) => (),
            }
        }
        let is_known = passed.count_ones() == 1;
        if is_known || (passed != 0 && is_fetched) { Ok(passed) } else { Err(fate) }
    }

    fn check_as(&self, format: MediaType, bid: &Bid<'_>, markup: Option<&str>) -> Result<(), Fate> {
        let Self { request, lists, imp } = *self;
        let refuse_if = |refused: bool, fate| if refused { Err(fate) } else { Ok(()) };
        refuse_if(format == MediaType::Banner && !size_is_offered(imp, bid), Fate::Size)?;
        check_playback(imp, format, bid)?;
        let blocked = markup.and_then(|markup| markup_is_blocked(imp, format, markup));
        refuse_if(blocked == Some(Fate::Insecure), Fate::Insecure)?;
        let language = bid.language.as_deref().or(bid.langb.as_deref());
        let is_welcome = language.is_none_or(|language| lists.admit_language(request, language));
        refuse_if(!is_welcome, Fate::Language)?;
        let mut domains = bid.adomain.iter().flatten();
        let is_blocked = domains.any(|domain| lists.blocks_advertiser(request, domain));
        refuse_if(is_blocked, Fate::Advertiser)?;
        refuse_if(!self.admit_categories(bid), Fate::Category)?;
        refuse_if(self.blocks_attribute(bid, format), Fate::Attribute)?;
        refuse_if(blocked == Some(Fate::AdType), Fate::AdType)?;
        let is_blocked = bid.bundle.as_ref().is_some_and(|app| lists.blocks_app(request, app));
        refuse_if(is_blocked, Fate::AppBundle)
    }

    /// Whether no category is in `bcat`, and any is in `acat` if given, within one taxonomy.
    fn admit_categories(&self, bid: &Bid<'_>) -> bool {
        let taxonomy = self.request.cattax.unwrap_or(TAXONOMY_WITH_CHILDREN);
        let categories = bid.cat.as_deref().unwrap_or_default();
        categories.is_empty()
            || bid.cattax.unwrap_or(TAXONOMY_WITH_CHILDREN) != taxonomy
            || self.lists.admit_categories(
                self.request,
                categories,
                taxonomy == TAXONOMY_WITH_CHILDREN,
            )
    }

    fn blocks_attribute(&self, bid: &Bid<'_>, format: MediaType) -> bool {
        let battr = blocked_attributes(self.imp, format);
        let attributes = bid.attr.as_deref().unwrap_or_default();
        // A processor compares eight codes at once.
        self.lists.steps.add(attributes.len() * battr.len().div_ceil(8));
        attributes.iter().any(|attr| battr.contains(attr))
    }
}

/// The `battr` of a format.
pub(crate) fn blocked_attributes<'i>(imp: &'i Imp<'_>, format: MediaType) -> &'i [u32] {
    let battr = match format {
        MediaType::Banner => imp.banner.as_ref().and_then(|banner| banner.battr.as_deref()),
        MediaType::Video => imp.video.as_ref().and_then(|video| video.battr.as_deref()),
        MediaType::Audio => imp.audio.as_ref().and_then(|audio| audio.battr.as_deref()),
        MediaType::Native => imp.native.as_ref().and_then(|native| native.battr.as_deref()),
    };
    battr.unwrap_or_default()
}

/// The banner's `btype`.
pub(crate) fn blocked_ad_types<'i>(imp: &'i Imp<'_>) -> &'i [u32] {
    imp.banner.as_ref().and_then(|banner| banner.btype.as_deref()).unwrap_or_default()
}

/// Whether markup can be blocked at all: searching it takes time.
fn markup_matters(imp: &Imp<'_>) -> bool {
    imp.secure == Some(1) || !blocked_ad_types(imp).is_empty()
}

pub(crate) fn markup_is_blocked(imp: &Imp<'_>, format: MediaType, markup: &str) -> Option<Fate> {
    if imp.secure == Some(1) && is_insecure(markup) {
        return Some(Fate::Insecure);
    }
    is_blocked_ad_type(imp, markup, format).then_some(Fate::AdType)
}

/// A banner's size, given or implied by the only one on offer.
pub(crate) fn banner_size(imp: &Imp<'_>, bid: &Bid<'_>) -> Option<AdSize> {
    if let Some(size) = AdSize::given(bid.w, bid.h) {
        return Some(size);
    }
    let mut sizes = imp.banner.as_ref()?.sizes();
    let only = sizes.next()?;
    if sizes.next().is_some() { None } else { AdSize::of(&only) }
}

fn size_is_offered(imp: &Imp<'_>, bid: &Bid<'_>) -> bool {
    let Some(banner) = &imp.banner else { return true };
    let (size, ratio) = (AdSize::given(bid.w, bid.h), bid.wratio.zip(bid.hratio));
    if size.is_none() && ratio.is_none() {
        return true; // A missing size is not wrong.
    }
    let matches = |offered: Format| {
        let exact = size.is_some_and(|size| size.is_offered(&offered, imp.instl == Some(1)));
        let ratio = match (ratio, offered.wratio.zip(offered.hratio)) {
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

/// Markup shows `btype` 3, JavaScript, and 4, an iframe, but not text and plain XHTML banners.
fn is_blocked_ad_type(imp: &Imp<'_>, markup: &str, format: MediaType) -> bool {
    let btype = blocked_ad_types(imp);
    format == MediaType::Banner
        && ((btype.contains(&3) && has_tag(markup, "script"))
            || (btype.contains(&4) && has_tag(markup, "iframe")))
}

pub(crate) fn has_tag(markup: &str, tag: &str) -> bool {
    let tags = memchr::memchr_iter(b'<', markup.as_bytes());
    tags.into_iter().any(|at| {
        let rest = &markup.as_bytes()[at + 1..];
        rest.len() >= tag.len() && rest[..tag.len()].eq_ignore_ascii_case(tag.as_bytes())
    })
}

#[cfg(test)]
mod tests;
