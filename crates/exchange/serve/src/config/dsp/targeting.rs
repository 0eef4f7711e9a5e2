//! The keys of `[[dsp]]` for targeting.

use exchange_core::{Targeting, UserIdNeed};
use runtime::config::Section;

use crate::config::values::{country, device_type, read_ids, region};

pub(super) fn read(s: &mut Section<'_>) -> Targeting {
    let device_types = s.texts(
        "device_types",
        &[],
        device_type,
        "Types of device it buys, as in AdCOM: mobile (phone or tablet), pc, tv, phone, tablet, \
         connected, set_top_box, ooh; empty: any.",
    );
    Targeting {
        countries_blocked: read_ids(
            s,
            "countries_blocked",
            country,
            "Countries it never buys (ISO 3166-1 alpha-3).",
        ),
        regions: s.texts(
            "regions",
            &[],
            region,
            "Regions it buys, as USA/CA (ISO 3166-2 without its country); a country that is named \
             here is bought in these alone, others whole.",
        ),
        regions_blocked: s.texts(
            "regions_blocked",
            &[],
            region,
            "Regions it never buys, as USA/CA.",
        ),
        device_types: device_types.into_iter().fold(0, |set, number| set | 1 << number),
        user_id: s.one_of(
            "user_id",
            "any",
            &[("any", UserIdNeed::Any), ("required", UserIdNeed::Required)],
            "Whether it is asked about users it cannot know: without its own id of the user, \
             user.id, user.eids and device.ifa.",
        ),
        sample: s.ppm(
            "sample",
            "100%",
            "Its share of all requests. Which ones depends on their ids and exchange.tie_key.",
        ),
    }
}
