//! Of whom, where and how much a DSP buys, beyond publishers, countries and what is on sale. Knows
//! the request, and no auction.

use openrtb::BidRequest;
use units::Ppm;

use crate::{NotAsked, TieKey};

/// What a DSP buys, beyond publishers, countries, formats and sizes. By default anything. What a
/// request does not tell is not among what is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targeting {
    /// Countries in which it never buys (ISO 3166-1 alpha-3).
    pub countries_blocked: Vec<Box<str>>,
    /// Of a country that is named here it buys these regions only; other countries are whole.
    pub regions: Vec<Region>,
    /// Regions in which it never buys.
    pub regions_blocked: Vec<Region>,
    /// Types of device (AdCOM 1.0, List: Device Types), type n as bit n; 0: any.
    pub device_types: u16,
    /// Whether it wants to know the user.
    pub user_id: UserIdNeed,
    /// Its share of all requests, by a keyed hash of request and DSP.
    pub sample: Ppm,
}

impl Default for Targeting {
    fn default() -> Self {
        Self {
            countries_blocked: Vec::new(),
            regions: Vec::new(),
            regions_blocked: Vec::new(),
            device_types: 0,
            user_id: UserIdNeed::Any,
            sample: Ppm::ONE,
        }
    }
}

/// A part of a country.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// ISO 3166-1 alpha-3.
    pub country: Box<str>,
    /// What ISO 3166-2 has after the hyphen, such as `CA`.
    pub region: Box<str>,
}

/// Whether a DSP buys users that it cannot know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserIdNeed {
    /// It does.
    #[default]
    Any,
    /// The request must have its own id of the user, `user.id`, `user.eids` or `device.ifa`.
    Required,
}

impl Targeting {
    /// Whether `dsp` buys this request, or why not: the first reason in [`NotAsked`]'s order. A
    /// request that it sees limited has no id of the user.
    pub(crate) fn admit(
        &self,
        request: &BidRequest<'_>,
        dsp: &str,
        is_limited: bool,
        key: &TieKey,
    ) -> Result<(), NotAsked> {
        if !self.buys_in(request.country(), request.region()) {
            return Err(NotAsked::Country);
        }
        if !self.buys_on(request.device_type()) {
            return Err(NotAsked::Device);
        }
        let knows_user = || !is_limited && request.has_user_id(dsp);
        if self.user_id == UserIdNeed::Required && !knows_user() {
            return Err(NotAsked::UserId);
        }
        let id = request.id.as_ref().map_or("", |id| &**id);
        if !key.is_sampled(id, dsp, self.sample) {
            return Err(NotAsked::Sampling);
        }
        Ok(())
    }

    fn buys_in(&self, country: Option<&str>, region: Option<&str>) -> bool {
        let is_country =
            |own: &str| country.is_some_and(|country| own.eq_ignore_ascii_case(country));
        let is_region = |own: &Region| {
            is_country(&own.country)
                && region.is_some_and(|region| own.region.eq_ignore_ascii_case(region))
        };
        let is_narrowed = self.regions.iter().any(|own| is_country(&own.country));
        !self.countries_blocked.iter().any(|own| is_country(own))
            && (!is_narrowed || self.regions.iter().any(is_region))
            && !self.regions_blocked.iter().any(is_region)
    }

    fn buys_on(&self, device_type: Option<u32>) -> bool {
        let bought = u32::from(self.device_types);
        let is_bought = |bit| bought.checked_shr(bit).is_some_and(|rest| rest & 1 == 1);
        bought == 0 || device_type.is_some_and(is_bought)
    }
}

#[cfg(test)]
mod tests;
