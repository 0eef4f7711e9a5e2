//! What is taken out of a request before its body is recorded, or before it goes to a DSP where
//! privacy asks for it: ids of users, parts of addresses, places, profiles. Everything else stays as
//! it is, unknown members included. Sections 3.2.18 to 3.2.20.
//!
//! Which requests are masked, and by which masks, is not known here.

use std::borrow::Cow;
// Addresses as text, and no socket.
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use openrtb::{escaped, members, string};

/// Ids of a user: section 3.2.20.
const USER_IDS: [&str; 4] = ["id", "buyeruid", "customdata", "eids"];
/// Ids of a user where OpenRTB 2.5 and Prebid have them.
const USER_EXT_IDS: [&str; 2] = ["eids", "buyeruids"];
/// Ids of a device, those that are deprecated included: section 3.2.18.
const DEVICE_IDS: [&str; 7] =
    ["ifa", "didsha1", "didmd5", "dpidsha1", "dpidmd5", "macsha1", "macmd5"];
/// The vendor's id of a device, in `device.ext`, under both of its names.
const DEVICE_EXT_IDS: [&str; 2] = ["ifv", "idfv"];
/// What is known of a user: section 3.2.20.
const PROFILE: [&str; 5] = ["yob", "gender", "keywords", "kwarray", "data"];
/// What says as much of a place as latitude and longitude, or how exact these are.
const EXACT_PLACE: [&str; 2] = ["zip", "accuracy"];

/// What is masked in requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// Ids of users and devices are removed.
    pub user_ids: bool,
    /// Addresses are cut to their network: IPv4 to /24, IPv6 to /48, and 6to4 (RFC 3056) to /40,
    /// which is /24 of the IPv4 address in it.
    pub ip: bool,
    /// What becomes of latitude and longitude. Unless they stay, `zip` and `accuracy` are removed.
    pub geo: GeoMask,
    /// What is known of the user is removed: year of birth, gender, keywords, data, `device.ext`, and
    /// of `user.ext` all but consent.
    pub profile: bool,
}

/// What becomes of latitude and longitude.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GeoMask {
    /// They stay.
    #[default]
    Keep,
    /// They are cut, towards zero, to so many decimals: with two, a place is one of about 1 km.
    Cut {
        /// How many.
        decimals: u8,
    },
    /// They are removed.
    Remove,
}

impl Masks {
    /// What DSPs must not see of a user who asks not to be tracked.
    pub const LIMITED: Self =
        Self { user_ids: true, ip: true, geo: GeoMask::Cut { decimals: 2 }, profile: false };
    /// What DSPs must not see of a child.
    pub const COPPA: Self = Self { user_ids: true, ip: true, geo: GeoMask::Remove, profile: true };

    /// The body `request` as it may be recorded; `None` when it is no JSON object, or nested too
    /// deep: then nothing of it may be.
    ///
    /// What should be masked and is not of the type that it should be is removed.
    pub fn apply(&self, request: &str) -> Option<Vec<u8>> {
        let masked = rewritten(request, |key, raw| match key {
            "user" => self.user(raw),
            "device" => self.device(raw),
            _ => Some(Cow::Borrowed(raw)),
        });
        masked.map(String::into_bytes)
    }

    /// The JSON text of `user` without what is masked; `None` if it is not an object.
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

    /// The JSON text of `device` without what is masked; `None` if it is not an object.
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
            ("lat" | "lon", GeoMask::Cut { decimals }) => coarse(raw, decimals).map(Cow::Borrowed),
            ("lat" | "lon", _) => None,
            (key, _) if EXACT_PLACE.contains(&key) => None,
            _ => Some(Cow::Borrowed(raw)),
        })
    }
}

/// The object `raw` with its members as `edit` leaves them; a null stays, anything else goes.
fn within<'r>(
    raw: &'r str,
    edit: impl FnMut(&str, &'r str) -> Option<Cow<'r, str>>,
) -> Option<Cow<'r, str>> {
    if raw == "null" {
        return Some(Cow::Borrowed(raw));
    }
    rewritten(raw, edit).map(Cow::Owned)
}

/// The object `text` with its members as `edit` leaves them. Keys come to it without escapes, so that
/// none can hide behind them.
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

/// The JSON string `raw` as the network of the address in it.
fn network(raw: &str) -> Option<String> {
    let address: IpAddr = string(raw)?.parse().ok()?;
    let network = match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, 0))
        }
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            let c = if a == 0x2002 { c & 0xff00 } else { c };
            IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
        }
    };
    Some(format!("\"{network}\""))
}

/// The JSON number `raw` with at most so many decimals; `None` of one with an exponent, or of none.
fn coarse(raw: &str, decimals: u8) -> Option<&str> {
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
