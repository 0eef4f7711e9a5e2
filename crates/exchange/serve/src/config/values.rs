//! Values that several tables have: countries, regions, formats, sizes, types of device.

use exchange_core::{AdSize, Region};
use openrtb::codes::MediaType;
use runtime::config::Section;

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

pub(super) fn read_ids(
    s: &mut Section<'_>,
    key: &'static str,
    parse: impl Fn(&str) -> Result<String, String>,
    doc: &'static str,
) -> Vec<Box<str>> {
    let mut texts: Vec<_> = s.texts(key, &[], parse, doc).into_iter().map(Into::into).collect();
    // They live as long as what they configure.
    texts.shrink_to_fit();
    texts
}

pub(super) fn not_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.to_owned()) }
}

pub(super) fn country(text: &str) -> Result<String, String> {
    if text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase()) {
        Ok(text.to_owned())
    } else {
        Err("must be three capitals of ISO 3166-1 alpha-3, for example \"DEU\"".to_owned())
    }
}

pub(super) fn format(text: &str) -> Result<MediaType, String> {
    let known = MediaType::ALL.into_iter().find(|known| known.label() == text);
    known.ok_or_else(|| {
        format!("must be one of {}", MediaType::ALL.map(MediaType::label).join(", "))
    })
}

pub(super) fn size(text: &str) -> Result<AdSize, String> {
    let size =
        text.split_once('x').and_then(|(w, h)| Some(AdSize::new(w.parse().ok()?, h.parse().ok()?)));
    size.ok_or_else(|| "must be width x height, for example \"300x250\"".to_owned())
}

pub(super) fn region(text: &str) -> Result<Region, String> {
    let remedy = || "must be a country and a region of ISO 3166, for example \"USA/CA\"".to_owned();
    let (of, region) = text.split_once('/').ok_or_else(remedy)?;
    let of = country(of).map_err(|_| remedy())?;
    let is_code = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    if region.is_empty() || region.len() > 3 || !region.bytes().all(is_code) {
        return Err(remedy());
    }
    Ok(Region { country: of.into(), region: region.into() })
}

pub(super) fn device_type(text: &str) -> Result<u16, String> {
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
