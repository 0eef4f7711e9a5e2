//! The keys of `[[dsp]]` for targeting.

use exchange_core::{Region, Targeting, UserIdNeed};
use runtime::config::Section;

use super::{country, read_ids};

/// Device types by name, with their numbers in AdCOM 1.0, List: Device Types.
const DEVICE_TYPES: [(&str, u16); 8] = [
    ("mobile", 1),
    ("pc", 2),
    ("tv", 3),
    ("phone", 4),
    ("tablet", 5),
    ("connected", 6),
    ("set_top_box", 7),
    ("ooh", 8),
];

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

pub(in crate::config) fn region(text: &str) -> Result<Region, String> {
    let remedy = || "must be a country and a region of ISO 3166, for example \"USA/CA\"".to_owned();
    let (of, region) = text.split_once('/').ok_or_else(remedy)?;
    let of = country(of).map_err(|_| remedy())?;
    let is_code = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    if region.is_empty() || region.len() > 3 || !region.bytes().all(is_code) {
        return Err(remedy());
    }
    Ok(Region { country: of.into(), region: region.into() })
}

pub(in crate::config) fn device_type(text: &str) -> Result<u16, String> {
    let known = DEVICE_TYPES.iter().find(|(name, _)| *name == text);
    known
        .map(|(_, number)| *number)
        .ok_or_else(|| format!("must be one of {}", DEVICE_TYPES.map(|(name, _)| name).join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_and_device_types_are_read_or_refused() {
        let california = Region { country: "USA".into(), region: "CA".into() };
        assert_eq!(region("USA/CA"), Ok(california));
        assert!(region("FRA/75C").is_ok());
        for bad in ["CA", "US/CA", "USA/", "USA/ca", "USA/US-CA", "USA/CALI", "usa/CA", ""] {
            let remedy = region(bad).expect_err(bad);
            assert!(remedy.contains("\"USA/CA\""), "{bad}: {remedy}");
        }
        assert_eq!(device_type("phone"), Ok(4));
        assert!(device_type("Phone").is_err_and(|remedy| remedy.contains("set_top_box")));
    }
}
