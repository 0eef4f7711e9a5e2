//! Removes personal data from a request before its body is recorded, or before it goes to a DSP if
//! privacy requires: user ids, parts of addresses, places, profiles (sections 3.2.18 to 3.2.20).
//! Everything else stays, including unknown members. Does not decide which requests are masked.

use std::borrow::Cow;
// Addresses as text, no socket.
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use openrtb::{escaped, members, string};

/// Section 3.2.20.
const USER_IDS: [&str; 4] = ["id", "buyeruid", "customdata", "eids"];
/// User ids as placed by OpenRTB 2.5 and Prebid.
const USER_EXT_IDS: [&str; 2] = ["eids", "buyeruids"];
/// Including deprecated ones: section 3.2.18.
const DEVICE_IDS: [&str; 7] =
    ["ifa", "didsha1", "didmd5", "dpidsha1", "dpidmd5", "macsha1", "macmd5"];
/// The vendor's device id in `device.ext`, under both of its names.
const DEVICE_EXT_IDS: [&str; 2] = ["ifv", "idfv"];
/// Section 3.2.20.
const PROFILE: [&str; 5] = ["yob", "gender", "keywords", "kwarray", "data"];
/// As precise as latitude and longitude, or their precision.
const EXACT_PLACE: [&str; 2] = ["zip", "accuracy"];

/// Data to mask in requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// Removes ids of users and devices.
    pub user_ids: bool,
    /// Truncates addresses to their network: IPv4 to /24, IPv6 to /48, and 6to4 (RFC 3056) to /40,
    /// which is /24 of the IPv4 address in it.
    pub ip: bool,
    /// Masks latitude and longitude. Unless kept, `zip` and `accuracy` are removed.
    pub geo: GeoMask,
    /// Removes year of birth, gender, keywords, data, `device.ext`, and `user.ext` except consent.
    pub profile: bool,
}

/// How latitude and longitude are masked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GeoMask {
    /// Not at all.
    #[default]
    Keep,
    /// Truncated towards zero: two decimals are about 1 km.
    Cut {
        /// Decimals to keep.
        decimals: u8,
    },
    /// Removed.
    Remove,
}

impl Masks {
    /// Masks for a user who limits tracking.
    pub const LIMITED: Self =
        Self { user_ids: true, ip: true, geo: GeoMask::Cut { decimals: 2 }, profile: false };
    /// Masks for a child.
    pub const COPPA: Self = Self { user_ids: true, ip: true, geo: GeoMask::Remove, profile: true };

    /// The body `request` for recording, without members to be masked that have a wrong type. None
    /// if it is not a JSON object or is nested too deep: then nothing of it may be recorded.
    pub fn apply(&self, request: &str) -> Option<Vec<u8>> {
        let masked = rewritten(request, |key, raw| match key {
            "user" => self.user(raw),
            "device" => self.device(raw),
            _ => Some(Cow::Borrowed(raw)),
        });
        masked.map(String::into_bytes)
    }

    /// The masked JSON text of `user`. None if it is not an object.
    pub fn user<'r>(&self, raw: &'r str) -> Option<Cow<'r, str>> {
        let removed = |ids: &[&str], key: &str| self.user_ids && ids.contains(&key);
        let prebid =
            |raw| {
                within(raw, |key, raw| {
                    if removed(&["buyeruids"], key) { None } else { Some(Cow::Borrowed(raw)) }
                })
            };
        let ext = |raw| {
            within(raw, |key, raw| match key {
                key if removed(&USER_EXT_IDS, key) => None,
                key if self.profile && !key.to_ascii_lowercase().contains("consent") => None,
                "prebid" if self.user_ids => prebid(raw),
                _ => Some(Cow::Borrowed(raw)),
            })
        };
        within(raw, |key, raw| match key {
            key if removed(&USER_IDS, key) => None,
            key if self.profile && PROFILE.contains(&key) => None,
            "ext" if self.user_ids || self.profile => ext(raw),
            "geo" => self.geo(raw),
            _ => Some(Cow::Borrowed(raw)),
        })
    }

    /// The masked JSON text of `device`. None if it is not an object.
    pub fn device<'r>(&self, raw: &'r str) -> Option<Cow<'r, str>> {
        let ext = |raw| {
            within(raw, |key, raw| {
                let is_id = DEVICE_EXT_IDS.iter().any(|id| key.eq_ignore_ascii_case(id));
                if is_id { None } else { Some(Cow::Borrowed(raw)) }
            })
        };
        within(raw, |key, raw| match key {
            key if self.user_ids && DEVICE_IDS.contains(&key) => None,
            "ext" if self.profile => None,
            "ext" if self.user_ids => ext(raw),
            "ip" | "ipv6" if self.ip => network(raw).map(Cow::Owned),
            "geo" => self.geo(raw),
            _ => Some(Cow::Borrowed(raw)),
        })
    }

    fn geo<'r>(&self, raw: &'r str) -> Option<Cow<'r, str>> {
        if self.geo == GeoMask::Keep {
            return Some(Cow::Borrowed(raw));
        }
        within(raw, |key, raw| match (key, self.geo) {
            ("lat" | "lon", GeoMask::Cut { decimals }) => {
                truncate_decimals(raw, decimals).map(Cow::Borrowed)
            }
            ("lat" | "lon", _) => None,
            (key, _) if EXACT_PLACE.contains(&key) => None,
            _ => Some(Cow::Borrowed(raw)),
        })
    }
}

fn within<'r>(
    raw: &'r str,
    edit: impl FnMut(&str, &'r str) -> Option<Cow<'r, str>>,
) -> Option<Cow<'r, str>> {
    if raw == "null" {
        return Some(Cow::Borrowed(raw));
    }
    rewritten(raw, edit).map(Cow::Owned)
}

/// The object `text` with its members edited. `edit` gets keys unescaped, so that none can hide.
fn rewritten<'r>(
    text: &'r str,
    mut edit: impl FnMut(&str, &'r str) -> Option<Cow<'r, str>>,
) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    out.push('{');
    for (key, raw) in members(text)? {
        let Some(edited) = edit(&key, raw) else { continue };
        if out.len() > 1 {
            out.push(',');
        }
        out.extend(["\"", &escaped(&key), "\":", &edited]);
    }
    out.push('}');
    Some(out)
}

fn network(raw: &str) -> Option<String> {
    let address: IpAddr = string(raw)?.parse().ok()?;
    Some(format!("\"{}\"", network_of(address)))
}

/// The network of an address, as [`Masks::ip`] says.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, 0))
        }
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            let c = if a == 0x2002 { c & 0xff00 } else { c };
            IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
        }
    }
}

/// The JSON number `raw` truncated to `decimals`. None if it has an exponent or is not a number.
fn truncate_decimals(raw: &str, decimals: u8) -> Option<&str> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    if !raw.bytes().all(is_plain) {
        return None;
    }
    let Some((whole, fraction)) = raw.split_once('.') else { return Some(raw) };
    let kept = fraction.len().min(decimals.into());
    let point = usize::from(kept > 0);
    Some(&raw[..whole.len() + point + kept])
}

#[cfg(test)]
mod tests;
