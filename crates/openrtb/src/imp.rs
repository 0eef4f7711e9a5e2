//! An impression and its parts, as far as rules depend on them; everything else passes through
//! unread. Sections 3.2.4 to 3.2.12, 3.2.31 and 3.2.35.

use serde::Deserialize;
use serde_json::value::RawValue;
use units::Price;

use crate::codes::MediaType;
use crate::json::{FloorPrice, Spanned, Text};
use crate::json::{at_most, signed_whole, text_unless_empty, whole, wholes};

/// Most impressions in one request.
pub const IMPS_MAX: usize = 64;

/// Most sizes of one banner.
pub const FORMATS_MAX: usize = 64;

/// Most entries of one list of texts: seats, advertisers, categories, applications, languages,
/// currencies or MIME types.
pub const LIST_MAX: usize = 10_000;

/// Most floors by duration in one list.
pub const DURFLOORS_MAX: usize = 64;

/// Most deals in one request, over all its impressions.
pub const DEALS_MAX: usize = 128;

/// Section 3.2.4.
#[derive(Clone, Debug, Deserialize)]
pub struct Imp<'a> {
    /// Unique in the request; required.
    #[serde(borrow)]
    pub id: Option<Spanned<'a, Text<'a>>>,
    /// Present when a banner is welcome.
    pub banner: Option<Banner>,
    /// Present when a video is welcome.
    #[serde(borrow)]
    pub video: Option<TimedMedia<'a>>,
    /// Present when an audio ad is welcome.
    #[serde(borrow)]
    pub audio: Option<TimedMedia<'a>>,
    /// Present when a native ad is welcome.
    #[serde(borrow)]
    pub native: Option<Native<'a>>,
    /// Deals that may pertain to the impression.
    #[serde(borrow)]
    pub pmp: Option<Pmp<'a>>,
    /// 1 = interstitial.
    #[serde(default, deserialize_with = "whole")]
    pub instl: Option<u8>,
    /// Lowest price for an open bid; absent: 0.
    #[serde(borrow)]
    pub bidfloor: Option<FloorPrice<'a>>,
    /// Currency of all floors in the impression except those of deals; absent: USD.
    #[serde(borrow, default, deserialize_with = "text_unless_empty")]
    pub bidfloorcur: Option<Text<'a>>,
    /// 1 = markup must be HTTPS.
    #[serde(default, deserialize_with = "whole")]
    pub secure: Option<u8>,
    /// Number of impressions per display.
    #[serde(borrow)]
    pub qty: Option<Qty<'a>>,
    /// Seconds that may pass between auction and display.
    #[serde(default, deserialize_with = "whole")]
    pub exp: Option<u32>,
    /// 2 and 3 = the ad is stitched into a stream by a server.
    #[serde(default, deserialize_with = "whole")]
    pub ssai: Option<u32>,
    /// Any JSON, read by [`Imp::key_values`].
    #[serde(borrow)]
    pub(crate) ext: Option<&'a RawValue>,
}

impl<'a> Imp<'a> {
    /// The formats offered, as a set of [`MediaType::bit`].
    pub fn formats(&self) -> u8 {
        let mut set = 0;
        for (offered, media_type) in [
            (self.banner.is_some(), MediaType::Banner),
            (self.video.is_some(), MediaType::Video),
            (self.audio.is_some(), MediaType::Audio),
            (self.native.is_some(), MediaType::Native),
        ] {
            if offered {
                set |= media_type.bit();
            }
        }
        set
    }

    /// The attributes of video or audio. None for other formats, or if it is not offered.
    pub const fn timed_media(&self, format: MediaType) -> Option<&TimedMedia<'a>> {
        match format {
            MediaType::Video => self.video.as_ref(),
            MediaType::Audio => self.audio.as_ref(),
            MediaType::Banner | MediaType::Native => None,
        }
    }

    /// The deals, or none.
    pub fn deals(&self) -> &[Spanned<'a, Deal<'a>>] {
        self.pmp.as_ref().and_then(|pmp| pmp.deals.as_deref()).unwrap_or_default()
    }

    /// Whether only deal bids are welcome.
    pub fn is_private(&self) -> bool {
        self.pmp.as_ref().is_some_and(|pmp| pmp.private_auction == Some(1))
    }
}

/// Section 3.2.6.
#[derive(Clone, Debug, Deserialize)]
pub struct Banner {
    /// Accepted sizes, up to one more than the limit.
    #[serde(default, deserialize_with = "at_most::<_, _, { FORMATS_MAX + 1 }>")]
    pub format: Option<Vec<Format>>,
    /// Width in DIPS, without `format`.
    #[serde(default, deserialize_with = "whole")]
    pub w: Option<u32>,
    /// Height in DIPS, without `format`.
    #[serde(default, deserialize_with = "whole")]
    pub h: Option<u32>,
    /// Blocked banner ad types.
    #[serde(default, deserialize_with = "wholes::<_, { LIST_MAX + 1 }>")]
    pub btype: Option<Vec<u32>>,
    /// Blocked creative attributes.
    #[serde(default, deserialize_with = "wholes::<_, { LIST_MAX + 1 }>")]
    pub battr: Option<Vec<u32>>,
    /// API frameworks supported (AdCOM 1.0, List: API Frameworks); absent: unknown.
    #[serde(default, deserialize_with = "wholes::<_, { LIST_MAX + 1 }>")]
    pub api: Option<Vec<u32>>,
}

impl Banner {
    /// Every size offered: `format`, or `w` and `h`.
    pub fn sizes(&self) -> impl Iterator<Item = Format> + '_ {
        let formats = self.format.as_deref().unwrap_or_default();
        let own = Format { w: self.w, h: self.h, ..Format::default() };
        let own = (self.w.is_some() && self.h.is_some()).then_some(own);
        formats.iter().copied().chain(own)
    }
}

/// Section 3.2.10: a size, or the ratio of a flex ad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Format {
    /// Width in DIPS.
    #[serde(default, deserialize_with = "whole")]
    pub w: Option<u32>,
    /// Height in DIPS.
    #[serde(default, deserialize_with = "whole")]
    pub h: Option<u32>,
    /// Relative width.
    #[serde(default, deserialize_with = "whole")]
    pub wratio: Option<u32>,
    /// Relative height.
    #[serde(default, deserialize_with = "whole")]
    pub hratio: Option<u32>,
    /// Least width in DIPS of a flex ad.
    #[serde(default, deserialize_with = "whole")]
    pub wmin: Option<u32>,
}

/// Sections 3.2.7 and 3.2.8: rules read the same fields of video and audio.
#[derive(Clone, Debug, Deserialize)]
pub struct TimedMedia<'a> {
    /// MIME types welcome; required.
    #[serde(borrow)]
    pub mimes: Option<Vec<Text<'a>>>,
    /// Shortest ad, in seconds.
    #[serde(default, deserialize_with = "whole")]
    pub minduration: Option<u32>,
    /// Longest ad, in seconds.
    #[serde(default, deserialize_with = "whole")]
    pub maxduration: Option<u32>,
    /// Length of the dynamic pod, in seconds.
    #[serde(default, deserialize_with = "whole")]
    pub poddur: Option<u32>,
    /// Exact durations welcome, in seconds.
    #[serde(default, deserialize_with = "wholes::<_, { LIST_MAX + 1 }>")]
    pub rqddurs: Option<Vec<u32>>,
    /// Floor per second of the ad.
    #[serde(borrow)]
    pub mincpmpersec: Option<FloorPrice<'a>>,
    /// Floors by duration, up to one more than the limit.
    #[serde(borrow, default, deserialize_with = "at_most::<_, _, { DURFLOORS_MAX + 1 }>")]
    pub durfloors: Option<Vec<DurFloor<'a>>>,
    /// Blocked creative attributes.
    #[serde(default, deserialize_with = "wholes::<_, { LIST_MAX + 1 }>")]
    pub battr: Option<Vec<u32>>,
    /// Seconds beyond `maxduration` that an ad may be extended by; -1: any number, absent or 0: none.
    #[serde(default, deserialize_with = "signed_whole")]
    pub maxextended: Option<i64>,
    /// Protocols supported (AdCOM 1.0, List: Creative Subtypes - Audio/Video); absent: unknown.
    #[serde(default, deserialize_with = "wholes::<_, { LIST_MAX + 1 }>")]
    pub protocols: Option<Vec<u32>>,
    /// API frameworks supported (AdCOM 1.0, List: API Frameworks); absent: unknown.
    #[serde(default, deserialize_with = "wholes::<_, { LIST_MAX + 1 }>")]
    pub api: Option<Vec<u32>>,
}

/// Section 3.2.9.
#[derive(Clone, Debug, Deserialize)]
pub struct Native<'a> {
    /// JSON of the Native Ads API, in a string; required.
    #[serde(borrow)]
    pub request: Option<Text<'a>>,
    /// Blocked creative attributes.
    #[serde(default, deserialize_with = "wholes::<_, { LIST_MAX + 1 }>")]
    pub battr: Option<Vec<u32>>,
    /// API frameworks supported (AdCOM 1.0, List: API Frameworks); absent: unknown.
    #[serde(default, deserialize_with = "wholes::<_, { LIST_MAX + 1 }>")]
    pub api: Option<Vec<u32>>,
}

/// Section 3.2.11.
#[derive(Clone, Debug, Deserialize)]
pub struct Pmp<'a> {
    /// 1 = only deal bids.
    #[serde(default, deserialize_with = "whole")]
    pub private_auction: Option<u8>,
    /// The deals.
    #[serde(borrow, default, deserialize_with = "at_most::<_, _, { DEALS_MAX + 1 }>")]
    pub deals: Option<Vec<Spanned<'a, Deal<'a>>>>,
}

/// Section 3.2.12.
#[derive(Clone, Debug, Deserialize)]
pub struct Deal<'a> {
    /// Required.
    #[serde(borrow)]
    pub id: Option<Text<'a>>,
    /// Lowest price, or the agreed one if `at` is 3. Absent and 0 differ (section 7.11).
    #[serde(borrow)]
    pub bidfloor: Option<FloorPrice<'a>>,
    /// Never inherited from the impression; absent: USD.
    #[serde(borrow, default, deserialize_with = "text_unless_empty")]
    pub bidfloorcur: Option<Text<'a>>,
    /// 1 first price, 2 second price plus, 3 the agreed price; absent: the request's.
    #[serde(default, deserialize_with = "whole")]
    pub at: Option<u32>,
    /// Seats that may use the deal; absent: any.
    #[serde(borrow)]
    pub wseat: Option<Vec<Text<'a>>>,
    /// Advertiser domains that may use the deal; absent: any.
    #[serde(borrow)]
    pub wadomain: Option<Vec<Text<'a>>>,
    /// Floor per second of the ad.
    #[serde(borrow)]
    pub mincpmpersec: Option<FloorPrice<'a>>,
    /// Floors by duration, up to one more than the limit.
    #[serde(borrow, default, deserialize_with = "at_most::<_, _, { DURFLOORS_MAX + 1 }>")]
    pub durfloors: Option<Vec<DurFloor<'a>>>,
}

impl Deal<'static> {
    /// A deal at an agreed price for one seat, which no request contains. Its floor has no place.
    pub fn agreed(id: &str, price: Price, seat: &str) -> Self {
        Self {
            id: Some(Text::from(id.to_owned())),
            bidfloor: Some(FloorPrice::unplaced(price.amount)),
            bidfloorcur: Some(Text::from(price.currency.code().to_owned())),
            at: Some(3),
            wseat: Some(vec![Text::from(seat.to_owned())]),
            wadomain: None,
            mincpmpersec: None,
            durfloors: None,
        }
    }
}

/// Section 3.2.35: a floor for ads of `mindur ..= maxdur` seconds.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct DurFloor<'a> {
    /// Absent: unbounded below.
    #[serde(default, deserialize_with = "whole")]
    pub mindur: Option<u32>,
    /// Absent: unbounded above.
    #[serde(default, deserialize_with = "whole")]
    pub maxdur: Option<u32>,
    /// Absent: 0.
    #[serde(borrow)]
    pub bidfloor: Option<FloorPrice<'a>>,
}

/// Section 3.2.31.
#[derive(Clone, Debug, Deserialize)]
pub struct Qty<'a> {
    /// Number of impressions per display; required.
    #[serde(borrow)]
    pub multiplier: Option<Spanned<'a, serde::de::IgnoredAny>>,
}
