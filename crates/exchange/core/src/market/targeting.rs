//! Of whom, where and how much a DSP buys, beyond publishers, countries and what is on sale. Knows
//! the request, and no auction.

use units::Ppm;

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
