//! The keys of `[[dsp]]` for targeting.

use exchange_core::{Targeting, UserIdNeed};
use runtime::config::Section;

use crate::config::values::{country, device_type, read_ids, region};

pub(super) fn read(s: &mut Section<'_>) -> Targeting {
    let device_types = s.texts(
        "device_types",
        &[],
        device_type,
        "AdCOM device types that the DSP buys: mobile (phone or tablet), pc, tv, phone, tablet, \
         connected, set_top_box, ooh. If empty, all types.",
    );
    Targeting {
        countries_blocked: read_ids(
            s,
            "countries_blocked",
            country,
            "Countries that the DSP does not buy (ISO 3166-1 alpha-3).",
        ),
        regions: s.texts(
            "regions",
            &[],
            region,
            "Regions that the DSP buys, for example USA/CA (ISO 3166-2 without its country \
             prefix). In a country named here, the DSP buys only these regions; other countries \
             are not restricted.",
        ),
        regions_blocked: s.texts(
            "regions_blocked",
            &[],
            region,
            "Regions that the DSP does not buy, for example USA/CA.",
        ),
        device_types: device_types.into_iter().fold(0, |set, number| set | 1 << number),
        user_id: s.one_of(
            "user_id",
            "any",
            &[("any", UserIdNeed::Any), ("required", UserIdNeed::Required)],
            "Whether to call the DSP for all users (any) or only for users with an id (required): \
             the DSP's own user id, `user.id`, `user.eids` or `device.ifa`. Ids that privacy \
             signals withhold do not count.",
        ),
        sample: s.ppm(
            "sample",
            "100%",
            "Share of requests to send to the DSP. The ids of the requests and `exchange.tie_key` \
             determine which ones.",
        ),
    }
}
