//! A DSP's targeting in addition to publishers, countries, formats and sizes. Knows no auction.

use units::Ppm;

/// A DSP's targeting, by default everything. A request without an attribute matches no list of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targeting {
    /// Blocked countries (ISO 3166-1 alpha-3).
    pub countries_blocked: Vec<Box<str>>,
    /// Regions by country: in a listed country it buys only these. Others are unrestricted.
    pub regions: Vec<Region>,
    /// Blocked regions.
    pub regions_blocked: Vec<Region>,
    /// Device types (AdCOM 1.0, List: Device Types), type n as bit n; 0 if any.
    pub device_types: u16,
    /// Whether it needs a user id.
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
    /// The code of ISO 3166-2 after the hyphen, such as `CA`.
    pub region: Box<str>,
}

/// Whether a DSP buys impressions without an id of the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserIdNeed {
    /// It buys them.
    #[default]
    Any,
    /// The request must have its own id of the user, `user.id`, `user.eids` or `device.ifa`.
    Required,
}
