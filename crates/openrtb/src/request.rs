//! A bid request, as far as rules depend on it; everything else passes through unread. Sections
//! 3.2.1 to 3.2.3 and 3.2.13 to 3.2.20.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;
// Addresses as text, no socket.
use core::net::IpAddr;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::fields::FieldScan;
use crate::imp::{IMPS_MAX, Imp};
use crate::json::{Spanned, Text};
use crate::json::{at_most, spanned_whole, text_unless_empty, texts_unless_empty, whole};
use crate::members::{entries, named};
use crate::members::{members, string};

/// Section 3.2.1.
#[derive(Clone, Debug, Deserialize)]
pub struct BidRequest<'a> {
    /// The caller's id; required.
    #[serde(borrow)]
    pub id: Option<Spanned<'a, Text<'a>>>,
    /// Impressions on sale; required.
    #[serde(borrow, default, deserialize_with = "at_most::<_, _, { IMPS_MAX + 1 }>")]
    pub imp: Option<Vec<Spanned<'a, Imp<'a>>>>,
    /// At most one of `site`, `app`, `dooh`.
    #[serde(borrow)]
    pub site: Option<Media<'a>>,
    /// At most one of `site`, `app`, `dooh`.
    #[serde(borrow)]
    pub app: Option<Media<'a>>,
    /// At most one of `site`, `app`, `dooh`.
    #[serde(borrow)]
    pub dooh: Option<Media<'a>>,
    /// Where the ad is shown.
    #[serde(borrow)]
    pub device: Option<Device<'a>>,
    /// To whom the ad is shown.
    #[serde(borrow)]
    pub user: Option<User<'a>>,
    /// 1 = no money, no notices.
    #[serde(default, deserialize_with = "whole")]
    pub test: Option<u8>,
    /// 1 first price, 2 second price plus; absent: 2.
    #[serde(default, deserialize_with = "whole")]
    pub at: Option<u32>,
    /// Milliseconds that the caller waits.
    #[serde(borrow, default, deserialize_with = "spanned_whole")]
    pub tmax: Option<Spanned<'a, u32>>,
    /// Seats that may bid; absent: any.
    #[serde(borrow)]
    pub wseat: Option<Vec<Text<'a>>>,
    /// Seats that may not bid.
    #[serde(borrow)]
    pub bseat: Option<Vec<Text<'a>>>,
    /// Currencies that the caller takes, the preferred first.
    #[serde(borrow, default, deserialize_with = "texts_unless_empty")]
    pub cur: Option<Spanned<'a, Vec<Text<'a>>>>,
    /// Creative languages welcome (ISO 639-1); absent: any.
    #[serde(borrow)]
    pub wlang: Option<Vec<Text<'a>>>,
    /// Creative languages welcome (BCP 47); absent: any.
    #[serde(borrow)]
    pub wlangb: Option<Vec<Text<'a>>>,
    /// Advertiser categories welcome; absent: any.
    #[serde(borrow)]
    pub acat: Option<Vec<Text<'a>>>,
    /// Blocked advertiser categories.
    #[serde(borrow)]
    pub bcat: Option<Vec<Text<'a>>>,
    /// Taxonomy of `acat` and `bcat`; absent: 1.
    #[serde(default, deserialize_with = "whole")]
    pub cattax: Option<u32>,
    /// Blocked advertiser domains.
    #[serde(borrow)]
    pub badv: Option<Vec<Text<'a>>>,
    /// Blocked advertised applications.
    #[serde(borrow)]
    pub bapp: Option<Vec<Text<'a>>>,
    /// Legal and regulatory flags.
    pub regs: Option<Regs>,
    /// Where the request comes from.
    #[serde(borrow)]
    pub source: Option<Source<'a>>,
    /// Kept as text; parsed on demand.
    #[serde(borrow)]
    pub(crate) ext: Option<&'a RawValue>,
    /// What is removed, and the places that edits need.
    #[serde(skip)]
    pub(crate) fields: FieldScan,
}

impl<'a> BidRequest<'a> {
    /// Paths of fields that are removed because their type is not the standard's.
    pub fn mistyped(&self) -> &[String] {
        &self.fields.mistyped
    }

    /// The place of `source` in the body.
    pub fn source_span(&self) -> Option<Range<usize>> {
        self.fields.source.clone()
    }

    /// Whether the request is subject to COPPA (`regs.coppa`): the user is a child.
    pub fn is_coppa(&self) -> bool {
        self.regs.as_ref().and_then(|regs| regs.coppa).is_some_and(is_set)
    }

    /// Whether the device asks to limit ad tracking (`device.lmt`).
    pub fn is_lmt(&self) -> bool {
        self.device.as_ref().and_then(|device| device.lmt).is_some_and(is_set)
    }

    /// Whether the browser asks not to be tracked (`device.dnt`).
    pub fn is_dnt(&self) -> bool {
        self.device.as_ref().and_then(|device| device.dnt).is_some_and(is_set)
    }

    /// Who is paid: `publisher.id` of the property.
    pub fn publisher_id(&self) -> Option<&str> {
        self.media()?.publisher.as_ref()?.id.as_deref()
    }

    /// The property: `site`, `app` or `dooh`.
    pub(crate) fn media(&self) -> Option<&Media<'a>> {
        self.site.as_ref().or(self.app.as_ref()).or(self.dooh.as_ref())
    }

    /// ISO 3166-1 alpha-3 code of the device's country.
    pub fn country(&self) -> Option<&str> {
        self.device.as_ref()?.geo.as_ref()?.country.as_deref()
    }

    /// Region of the device's country: the part of ISO 3166-2 after the hyphen, whether the request
    /// has `US-CA` or `CA`.
    pub fn region(&self) -> Option<&str> {
        let region = self.device.as_ref()?.geo.as_ref()?.region.as_deref()?;
        Some(region.rsplit_once('-').map_or(region, |(_, region)| region))
    }

    /// Name of the device's city.
    pub fn city(&self) -> Option<Cow<'_, str>> {
        string(self.device.as_ref()?.geo.as_ref()?.city?.get()).filter(|city| !city.is_empty())
    }

    /// The device's address: of version 4 if it has both.
    pub fn address(&self) -> Option<IpAddr> {
        let device = self.device.as_ref()?;
        let mut addresses = device.ip.into_iter().chain(device.ipv6);
        addresses.find_map(|raw| string(raw.get())?.parse().ok())
    }

    /// Type of the device (AdCOM 1.0, List: Device Types).
    pub fn device_type(&self) -> Option<u32> {
        self.device.as_ref()?.devicetype
    }

    /// Whether `dsp` can identify the user: by its own id, by `user.id` or `user.eids`, or by the
    /// device's advertising id. Ids that are empty or all zeros do not count.
    pub fn has_user_id(&self, dsp: &str) -> bool {
        let ifa = self.device.as_ref().and_then(|device| device.ifa.as_ref());
        let by_user = |user: &User<'_>| {
            user.id.as_ref().is_some_and(|id| is_id(id))
                || user.has_eids()
                || user.buyeruid_of(dsp).is_some_and(|raw| raw != "\"\"")
        };
        ifa.is_some_and(|ifa| is_id(ifa)) || self.user.as_ref().is_some_and(by_user)
    }

    /// The impressions; validated to be at least one.
    pub fn imps(&self) -> &[Spanned<'a, Imp<'a>>] {
        self.imp.as_deref().unwrap_or_default()
    }

    /// Whether this auction moves no money.
    pub fn is_test(&self) -> bool {
        self.test == Some(1)
    }

    /// Whether a test request asks for an explanation: `ext.debug` is 1.
    pub fn wants_debug(&self) -> bool {
        let ext = self.ext.filter(|_| self.is_test()).and_then(|ext| members(ext.get()));
        let is_asked = |(key, value): &(Text<'_>, &str)| &**key == "debug" && *value == "1";
        ext.is_some_and(|members| members.iter().any(is_asked))
    }
}

/// Whether an id identifies anybody; an empty one or all zeros does not.
fn is_id(text: &str) -> bool {
    text.bytes().any(|byte| byte != b'0' && byte != b'-')
}

/// Whether a list of extended ids (section 3.2.27) holds any id.
fn has_identity(eids: &str) -> bool {
    let uids = entries(Some(eids), b'[').flat_map(|(_, eid)| named(Some(eid), "uids"));
    let uids = uids.flat_map(|uids| entries(Some(uids), b'['));
    let mut ids = uids.flat_map(|(_, uid)| named(Some(uid), "id"));
    ids.any(|id| string(id).is_some_and(|id| is_id(&id)))
}

/// A flag other than 0 and 1 is undefined. It counts as set, which reveals nothing more.
const fn is_set(flag: u32) -> bool {
    flag != 0
}

/// Section 3.2.3.
#[derive(Clone, Debug, Deserialize)]
pub struct Regs {
    /// 1 = subject to COPPA.
    #[serde(default, deserialize_with = "whole")]
    pub coppa: Option<u32>,
}

/// What `site`, `app` and `dooh` share. Sections 3.2.13, 3.2.14, 3.2.32.
#[derive(Clone, Debug, Deserialize)]
pub struct Media<'a> {
    /// Its domain.
    #[serde(borrow)]
    pub domain: Option<Text<'a>>,
    /// Its app store id.
    #[serde(borrow)]
    pub bundle: Option<Text<'a>>,
    /// Kept as text; parsed on demand by [`BidRequest::page`].
    #[serde(borrow)]
    pub(crate) page: Option<&'a RawValue>,
    /// Kept as text; parsed on demand by [`BidRequest::key_values`].
    #[serde(borrow)]
    pub(crate) keywords: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) kwarray: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) ext: Option<&'a RawValue>,
    /// Who is paid.
    #[serde(borrow)]
    pub publisher: Option<Publisher<'a>>,
}

/// Section 3.2.15.
#[derive(Clone, Debug, Deserialize)]
pub struct Publisher<'a> {
    /// The seller's id.
    #[serde(borrow, default, deserialize_with = "text_unless_empty")]
    pub id: Option<Text<'a>>,
}

/// Section 3.2.18.
#[derive(Clone, Debug, Deserialize)]
pub struct Device<'a> {
    /// Where it is.
    #[serde(borrow)]
    pub geo: Option<Geo<'a>>,
    /// 1 = do not track.
    #[serde(default, deserialize_with = "whole")]
    pub dnt: Option<u32>,
    /// 1 = limit ad tracking.
    #[serde(default, deserialize_with = "whole")]
    pub lmt: Option<u32>,
    /// What kind of device (AdCOM 1.0, List: Device Types).
    #[serde(default, deserialize_with = "whole")]
    pub devicetype: Option<u32>,
    /// Its advertising id.
    #[serde(borrow)]
    pub ifa: Option<Text<'a>>,
    /// Kept as text; parsed on demand by [`BidRequest::address`].
    #[serde(borrow)]
    ip: Option<&'a RawValue>,
    #[serde(borrow)]
    ipv6: Option<&'a RawValue>,
}

/// Section 3.2.19.
#[derive(Clone, Debug, Deserialize)]
pub struct Geo<'a> {
    /// ISO 3166-1 alpha-3.
    #[serde(borrow)]
    pub country: Option<Text<'a>>,
    /// ISO 3166-2, with the country and a hyphen or without.
    #[serde(borrow)]
    pub region: Option<Text<'a>>,
    /// Kept as text; parsed on demand by [`BidRequest::city`].
    #[serde(borrow)]
    city: Option<&'a RawValue>,
}

/// Section 3.2.20.
#[derive(Clone, Debug, Deserialize)]
pub struct User<'a> {
    /// The exchange's id of the user.
    #[serde(borrow)]
    pub id: Option<Text<'a>>,
    /// Ids of third parties, as JSON text.
    #[serde(borrow)]
    eids: Option<&'a RawValue>,
    /// The buyer's id of the user.
    #[serde(borrow)]
    pub buyeruid: Option<Spanned<'a, Text<'a>>>,
    /// The place where callers keep one buyer id per DSP.
    #[serde(borrow)]
    pub ext: Option<UserExt<'a>>,
    /// Whether there are any ids, computed once because each DSP asks.
    #[serde(skip)]
    has_eids: OnceCell<bool>,
}

impl<'a> User<'a> {
    /// The JSON text of the DSP's user id.
    pub fn buyeruid_of(&self, dsp: &str) -> Option<&'a str> {
        let ext = self.ext.as_ref()?;
        let prebid = ext.prebid.as_ref().and_then(|prebid| prebid.buyeruids.as_ref());
        ext.buyeruids.iter().chain(prebid).find_map(|uids| uids.raw_of(dsp))
    }

    fn has_eids(&self) -> bool {
        let older = self.ext.as_ref().and_then(|ext| ext.eids);
        let mut eids = self.eids.into_iter().chain(older);
        *self.has_eids.get_or_init(|| eids.any(|eids| has_identity(eids.get())))
    }
}

/// `user.ext`: a map from DSP id to that DSP's user id, here or under `prebid` as Prebid writes it.
#[derive(Clone, Debug, Deserialize)]
pub struct UserExt<'a> {
    /// Where OpenRTB 2.5 kept `user.eids`.
    #[serde(borrow)]
    eids: Option<&'a RawValue>,
    /// DSP id to user id.
    #[serde(borrow)]
    pub buyeruids: Option<Spanned<'a, BuyerUids<'a>>>,
    /// Prebid's place for the same.
    #[serde(borrow)]
    pub prebid: Option<PrebidUserExt<'a>>,
    /// Any JSON, read by [`BidRequest::key_values`].
    #[serde(borrow)]
    pub(crate) data: Option<&'a RawValue>,
}

/// `user.ext.prebid`.
#[derive(Clone, Debug, Deserialize)]
pub struct PrebidUserExt<'a> {
    /// DSP id to user id.
    #[serde(borrow)]
    pub buyeruids: Option<Spanned<'a, BuyerUids<'a>>>,
}

/// DSP id to user id, sorted by DSP; of ids given twice the first counts.
#[derive(Clone, Debug)]
pub struct BuyerUids<'a>(Vec<(Text<'a>, Spanned<'a, Text<'a>>)>);

impl<'a> BuyerUids<'a> {
    /// The JSON text of the DSP's user id.
    pub fn raw_of(&self, dsp: &str) -> Option<&'a str> {
        let first = self.0.partition_point(|(id, _)| **id < *dsp);
        let (_, uid) = self.0.get(first).filter(|(id, _)| **id == *dsp)?;
        Some(uid.raw())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for BuyerUids<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor;

        impl<'de> serde::de::Visitor<'de> for MapVisitor {
            type Value = BuyerUids<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of DSP id to user id")
            }

            fn visit_map<M: serde::de::MapAccess<'de>>(
                self,
                mut map: M,
            ) -> Result<Self::Value, M::Error> {
                let mut uids: Vec<(Text<'de>, _)> = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    uids.push(entry);
                }
                uids.sort_by(|(a, _), (b, _)| a.cmp(b));
                Ok(BuyerUids(uids))
            }
        }

        deserializer.deserialize_map(MapVisitor)
    }
}

/// Section 3.2.2.
#[derive(Clone, Debug, Deserialize)]
pub struct Source<'a> {
    /// Who takes part in the flow of payment.
    #[serde(borrow)]
    pub schain: Option<SupplyChain<'a>>,
    /// Where OpenRTB 2.5 kept the chain.
    #[serde(borrow)]
    pub ext: Option<SourceExt<'a>>,
}

/// `source.ext`.
#[derive(Clone, Debug, Deserialize)]
pub struct SourceExt<'a> {
    /// The chain as OpenRTB 2.5 has it.
    #[serde(borrow)]
    pub schain: Option<SupplyChain<'a>>,
}

impl<'a> Source<'a> {
    /// The supply chain, from either place.
    pub fn chain(&self) -> Option<&SupplyChain<'a>> {
        let older = self.ext.as_ref().and_then(|ext| ext.schain.as_ref());
        self.schain.as_ref().or(older)
    }
}

/// Section 3.2.25.
#[derive(Clone, Debug, Deserialize)]
pub struct SupplyChain<'a> {
    /// From the owner of the property to the sender of this request.
    #[serde(borrow)]
    pub nodes: Option<Spanned<'a, Vec<IgnoredAny>>>,
}

#[cfg(test)]
mod tests {
    use crate::validate::parse_request;

    #[test]
    fn debug_is_asked_for_by_tests_alone() {
        for (more, want) in [
            (r#","test":1,"ext":{"debug":1}"#, true),
            (r#","ext":{"a":{"debug":0}, "debug" : 1 },"test":1"#, true),
            (r#","test":1,"ext":{"\u0064ebug":1}"#, true),
            (r#","ext":{"debug":1}"#, false),
            (r#","test":0,"ext":{"debug":1}"#, false),
            (r#","test":1"#, false),
            (r#","test":1,"ext":null"#, false),
            (r#","test":1,"ext":"debug""#, false),
            (r#","test":1,"ext":[1]"#, false),
            (r#","test":1,"ext":{"debug":0}"#, false),
            (r#","test":1,"ext":{"debug":"1"}"#, false),
            (r#","test":1,"ext":{"a":{"debug":1}}"#, false),
        ] {
            let body = format!(r#"{{"id":"r","imp":[{{"id":"1","banner":{{}}}}]{more}}}"#);
            let request = parse_request(&body).unwrap_or_else(|invalid| panic!("{invalid}"));
            assert_eq!(request.wants_debug(), want, "{more}");
        }
    }

    #[test]
    fn each_dsp_has_its_own_id_of_the_user() {
        let uids: String = (0..99).rev().map(|n| format!(r#","n{n}":"{n}","n{n}":"x""#)).collect();
        let user = format!(r#""user":{{"ext":{{"buyeruids":{{"\u0061":"\u0062"{uids}}}}}}}"#);
        let body = format!(r#"{{"id":"r","imp":[{{"id":"1","banner":{{}}}}],{user}}}"#);
        let request = parse_request(&body).unwrap_or_else(|invalid| panic!("{invalid}"));
        let raw_of = |dsp: &str| request.user.as_ref()?.buyeruid_of(dsp);
        for (dsp, want) in [
            ("a", Some(r#""\u0062""#)),
            ("n0", Some(r#""0""#)),
            ("n70", Some(r#""70""#)),
            ("n98", Some(r#""98""#)),
            ("n", None),
            ("n99", None),
        ] {
            assert_eq!(raw_of(dsp), want, "{dsp}");
        }
    }
}
