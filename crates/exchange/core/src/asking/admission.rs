//! Whether a DSP's targeting admits a request.

use openrtb::BidRequest;

use super::not_asked::NotAsked;
use crate::market::targeting::{Region, Targeting, UserIdNeed};
use crate::market::tie::TieKey;

impl Targeting {
    /// Whether `dsp` buys this request, or the first reason in order. A limited request has no user
    /// id.
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
