//! The parts of a bid response that rules depend on.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use strum::{FromRepr, IntoStaticStr, VariantArray};
use units::{Cpm, DecimalError, Rounding};

use crate::json::{
    self, Text, at_most, span_of, text_unless_empty, whole, whole_unless_zero, wholes,
};

/// Most domains, categories, attributes or API frameworks of one bid.
pub const BID_LIST_MAX: usize = 32;

/// Section 4.2.1. `B` is [`Bid`], or its text, so that one bad bid does not spoil the others.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound(deserialize = "B: Deserialize<'de>"))]
pub struct BidResponse<'a, B> {
    /// The request's id.
    #[serde(borrow)]
    pub id: Option<Text<'a>>,
    /// Bids, by seat.
    #[serde(borrow)]
    pub seatbid: Option<Vec<SeatBid<'a, B>>>,
    /// The DSP's id of this response.
    #[serde(borrow)]
    pub bidid: Option<Text<'a>>,
    /// Currency of every price in the response; absent: USD.
    #[serde(borrow, default, deserialize_with = "text_unless_empty")]
    pub cur: Option<Text<'a>>,
    /// No-bid reason: any JSON, since no rule depends on it.
    #[serde(borrow, default, deserialize_with = "raw")]
    pub nbr: Option<&'a str>,
}

/// Section 4.2.2.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound(deserialize = "B: Deserialize<'de>"))]
pub struct SeatBid<'a, B> {
    /// At least one bid.
    pub bid: Vec<B>,
    /// The seat that bids; absent: the DSP's first.
    #[serde(borrow, default, deserialize_with = "text_unless_empty")]
    pub seat: Option<Text<'a>>,
    /// 1 = all impressions or none.
    #[serde(default, deserialize_with = "whole")]
    pub group: Option<u8>,
}

/// Section 4.2.3.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(remote = "Self")]
pub struct Bid<'a> {
    /// Required.
    #[serde(borrow)]
    pub id: Option<Text<'a>>,
    /// The impression; required.
    #[serde(borrow)]
    pub impid: Option<Text<'a>>,
    /// JSON number, read by [`Bid::price`]; required.
    #[serde(borrow, default, deserialize_with = "raw")]
    pub(super) price: Option<&'a str>,
    #[serde(borrow, default, deserialize_with = "raw")]
    pub(super) adm: Option<&'a str>,
    #[serde(borrow, default, deserialize_with = "raw")]
    pub(super) nurl: Option<&'a str>,
    #[serde(borrow, default, deserialize_with = "raw")]
    pub(super) burl: Option<&'a str>,
    #[serde(borrow, default, deserialize_with = "raw")]
    pub(super) lurl: Option<&'a str>,
    /// Any JSON, read by [`Bid::campaign`]: since no rule depends on it, it costs no bid.
    #[serde(borrow, default, deserialize_with = "raw")]
    pub(super) cid: Option<&'a str>,
    /// A preloaded ad.
    #[serde(borrow, default, deserialize_with = "text_unless_empty")]
    pub adid: Option<Text<'a>>,
    /// Advertiser domains.
    #[serde(borrow, default, deserialize_with = "at_most::<_, _, { BID_LIST_MAX + 1 }>")]
    pub adomain: Option<Vec<Text<'a>>>,
    /// The advertised app's store id.
    #[serde(borrow, default, deserialize_with = "text_unless_empty")]
    pub bundle: Option<Text<'a>>,
    /// Creative id.
    #[serde(borrow)]
    pub crid: Option<Text<'a>>,
    /// Creative categories.
    #[serde(borrow, default, deserialize_with = "at_most::<_, _, { BID_LIST_MAX + 1 }>")]
    pub cat: Option<Vec<Text<'a>>>,
    /// Taxonomy of `cat`; absent: 1.
    #[serde(default, deserialize_with = "whole")]
    pub cattax: Option<u32>,
    /// Creative attributes.
    #[serde(default, deserialize_with = "wholes::<_, { BID_LIST_MAX + 1 }>")]
    pub attr: Option<Vec<u32>>,
    /// Creative language (ISO 639-1).
    #[serde(borrow, default, deserialize_with = "text_unless_empty")]
    pub language: Option<Text<'a>>,
    /// Creative language (BCP 47).
    #[serde(borrow, default, deserialize_with = "text_unless_empty")]
    pub langb: Option<Text<'a>>,
    /// The deal under which the bid is made.
    #[serde(borrow, default, deserialize_with = "text_unless_empty")]
    pub dealid: Option<Text<'a>>,
    /// Creative width in DIPS.
    #[serde(default, deserialize_with = "whole")]
    pub w: Option<u32>,
    /// Creative height in DIPS.
    #[serde(default, deserialize_with = "whole")]
    pub h: Option<u32>,
    /// Relative width of a flex ad.
    #[serde(default, deserialize_with = "whole")]
    pub wratio: Option<u32>,
    /// Relative height of a flex ad.
    #[serde(default, deserialize_with = "whole")]
    pub hratio: Option<u32>,
    /// Seconds of video or audio.
    #[serde(default, deserialize_with = "whole_unless_zero")]
    pub dur: Option<u32>,
    /// 1 banner, 2 video, 3 audio, 4 native.
    #[serde(default, deserialize_with = "whole")]
    pub mtype: Option<u32>,
    /// Protocol of the video or audio markup (AdCOM 1.0, List: Creative Subtypes - Audio/Video).
    #[serde(default, deserialize_with = "whole_unless_zero")]
    pub protocol: Option<u32>,
    /// API frameworks that the markup can use.
    #[serde(default, deserialize_with = "wholes::<_, { BID_LIST_MAX + 1 }>")]
    pub apis: Option<Vec<u32>>,
    /// The single framework of OpenRTB 2.5.
    #[serde(default, deserialize_with = "whole")]
    pub api: Option<u32>,
}

/// Kinds of notices; each has its own URL in the bid. Tokens contain the numbers, which never
/// change.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum NoticeKind {
    /// `nurl`: it has won.
    Win = 1,
    /// `burl`: it is billed.
    Billing = 2,
    /// `lurl`: it has lost.
    Loss = 3,
}

units::labelled!(NoticeKind);

/// Why a bid's price or markup cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BidError {
    /// `price` is absent.
    NoPrice,
    /// `price` is not a number above zero within [`Cpm::MAX`].
    BadPrice,
}

impl<'a> Bid<'a> {
    /// The price, rounded down to micros; never zero.
    pub fn price(&self) -> Result<Cpm, BidError> {
        match Cpm::parse(self.price.ok_or(BidError::NoPrice)?, Rounding::Down) {
            Ok(Cpm::ZERO)
            | Err(DecimalError::Malformed | DecimalError::Negative | DecimalError::TooLarge) => {
                Err(BidError::BadPrice)
            }
            Ok(price) => Ok(price),
        }
    }

    /// Inline markup as JSON text with quotes and escapes. None if `adm` is empty or not a string.
    /// Native markup may be a JSON object instead, unless `mtype` says another format.
    pub fn markup(&self) -> Option<&'a str> {
        let native = || {
            let may_be_native = matches!(self.mtype, None | Some(4));
            let object = self.adm.filter(|_| may_be_native)?;
            let inside = object.strip_prefix('{')?.strip_suffix('}')?;
            (!inside.trim_ascii().is_empty()).then_some(object)
        };
        present(self.adm).or_else(native)
    }

    /// Inline markup for a search: as [`Bid::markup`], unescaped if an escape might hide a letter
    /// or a bracket (Go writes `<` as `\u003c`).
    pub fn markup_text(&self) -> Option<Cow<'a, str>> {
        let raw = self.markup()?;
        if memchr::memmem::find(raw.as_bytes(), br"\u00").is_none() {
            return Some(Cow::Borrowed(raw));
        }
        if raw.starts_with('{') {
            let native: serde_json::Value = serde_json::from_str(raw).ok()?;
            return Some(Cow::Owned(native.to_string()));
        }
        serde_json::from_str(raw).ok().map(Cow::Owned)
    }

    /// A notice URL as JSON text with quotes and escapes. None if it is empty or not a string.
    pub fn notice_url(&self, which: NoticeKind) -> Option<&'a str> {
        present(match which {
            NoticeKind::Win => self.nurl,
            NoticeKind::Billing => self.burl,
            NoticeKind::Loss => self.lurl,
        })
    }

    /// The place of that URL in `text`, the text that the bid was parsed from.
    pub fn notice_span(&self, which: NoticeKind, text: &str) -> Option<std::ops::Range<usize>> {
        self.notice_url(which).map(|url| span_of(url, text))
    }

    /// The campaign. None if `cid` is empty or not a string.
    pub fn campaign(&self) -> Option<Text<'a>> {
        present(self.cid).and_then(|raw| json::parse(raw).ok())
    }

    /// The place of the number `price` in `text`, the text that the bid was parsed from.
    pub fn price_span(&self, text: &str) -> Option<std::ops::Range<usize>> {
        self.price.map(|price| span_of(price, text))
    }

    /// Whether a list of domains, categories, attributes or API frameworks is too long.
    pub fn lists_too_much(&self) -> bool {
        let lengths = [
            self.adomain.as_ref().map_or(0, Vec::len),
            self.cat.as_ref().map_or(0, Vec::len),
            self.attr.as_ref().map_or(0, Vec::len),
            self.apis.as_ref().map_or(0, Vec::len),
        ];
        lengths.into_iter().any(|length| length > BID_LIST_MAX)
    }

    /// Whether the ad can be reached: inline, on the win notice, or preloaded (section 4.3).
    pub fn has_markup(&self) -> bool {
        self.markup().is_some() || present(self.nurl).is_some() || self.adid.is_some()
    }
}

/// Reads the text of any value but null.
fn raw<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a str>, D::Error> {
    Ok(Option::<&'de RawValue>::deserialize(deserializer)?.map(RawValue::get))
}

fn present(raw: Option<&str>) -> Option<&str> {
    raw.filter(|text| text.starts_with('"') && *text != r#""""#)
}

impl<'de: 'a, 'a> Deserialize<'de> for Bid<'a> {
    /// Only from an object: the derived implementation accepts an array too, and bids are passed on
    /// as they came.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;

        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Bid<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self::Value, M::Error> {
                // The derived function, which `remote` keeps from implementing the trait.
                Bid::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(ObjectVisitor)
    }
}
