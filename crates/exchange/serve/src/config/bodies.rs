//! `[exchange.bodies]`: how much of bodies is recorded.

use exchange_core::{GeoMask, Masks};
use runtime::config::Section;
use units::Ppm;

/// How much of bodies is recorded; a reload applies it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodiesConfig {
    /// Share of auctions.
    pub sample: Ppm,
    pub answers: bool,
    pub masks: Masks,
}

pub(super) fn read_bodies(s: &mut Section<'_>) -> BodiesConfig {
    let sample = s.ppm("sample", "0%", "Share of auctions to record with their full request.");
    let about = "Whether to also record the DSPs' responses in these auctions, as received.";
    let answers = s.boolean("answers", true, about);
    s.section("masks", "Personal data that is masked in recorded requests.", |s| {
        let user_ids = s.boolean(
            "user_ids",
            true,
            "Whether to remove ids of users and devices: `user.id`, `buyeruid`, `eids`, `ifa` and \
             similar fields.",
        );
        let ip =
            s.boolean("ip", true, "Whether to truncate IP addresses: IPv4 to /24, IPv6 to /48.");
        let decimals = s.integer(
            "geo_decimals",
            2,
            0..=6_u8,
            "Number of decimals kept in latitude and longitude if `geo` is \"cut\"; 2 is about 1 \
             km.",
        );
        let geo = [
            ("cut", GeoMask::Cut { decimals }),
            ("remove", GeoMask::Remove),
            ("keep", GeoMask::Keep),
        ];
        let about =
            "What to do with latitude and longitude: cut them to `geo_decimals`, remove them or \
             keep them. Unless they are kept, `zip` and `accuracy` are removed.";
        let geo = s.one_of("geo", "cut", &geo, about);
        BodiesConfig { sample, answers, masks: Masks { user_ids, ip, geo, profile: false } }
    })
}

impl BodiesConfig {
    pub(crate) fn draws(&self) -> bool {
        let share = self.sample.get();
        share > 0 && rand::random_range(0..Ppm::ONE.get()) < share
    }
}
