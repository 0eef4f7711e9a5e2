//! The names and numbers of generated requests. Data only.

/// A country and its attributes.
pub(super) struct Country {
    /// ISO 3166-1 alpha-3.
    pub(super) code: &'static str,
    /// ISO 639-1 language of the device.
    pub(super) language: &'static str,
    pub(super) city: &'static str,
    /// Latitude and longitude, in degrees.
    pub(super) position: [f64; 2],
    /// Minutes from UTC.
    pub(super) utc_offset: i32,
}

pub(super) const COUNTRIES: [Country; 10] = [
    country("USA", "en", "New York", [40.71, -74.0], -300),
    country("GBR", "en", "London", [51.51, -0.13], 0),
    country("DEU", "de", "Berlin", [52.52, 13.4], 60),
    country("FRA", "fr", "Paris", [48.86, 2.35], 60),
    country("ESP", "es", "Madrid", [40.42, -3.7], 60),
    country("BRA", "pt", "Sao Paulo", [-23.55, -46.63], -180),
    country("JPN", "ja", "Tokyo", [35.68, 139.69], 540),
    country("IND", "hi", "Mumbai", [19.08, 72.88], 330),
    country("CAN", "en", "Toronto", [43.65, -79.38], -300),
    country("AUS", "en", "Sydney", [-33.87, 151.21], 600),
];

const fn country(
    code: &'static str,
    language: &'static str,
    city: &'static str,
    position: [f64; 2],
    utc_offset: i32,
) -> Country {
    Country { code, language, city, position, utc_offset }
}

/// Banner sizes, most frequent first.
pub(super) const SIZES: [(u32, u32); 8] =
    [(300, 250), (728, 90), (320, 50), (160, 600), (300, 600), (970, 250), (336, 280), (320, 100)];

pub(super) const USER_AGENTS: [&str; 5] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.4 Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:139.0) Gecko/20100101 Firefox/139.0",
];

/// Content categories of publishers (Content Taxonomy 1.0).
pub(super) const CATEGORIES: [&str; 10] =
    ["IAB1", "IAB2", "IAB5", "IAB9-30", "IAB12", "IAB13", "IAB15", "IAB17", "IAB19", "IAB20"];

/// Categories that publishers block.
pub(super) const BLOCKED_CATEGORIES: [&str; 24] = [
    "IAB7-39", "IAB7-42", "IAB8-5", "IAB8-18", "IAB9-9", "IAB11-4", "IAB14-1", "IAB14-3",
    "IAB17-18", "IAB18-1", "IAB19-3", "IAB23-2", "IAB23-10", "IAB24", "IAB25-1", "IAB25-2",
    "IAB25-3", "IAB25-4", "IAB25-5", "IAB25-6", "IAB25-7", "IAB26-1", "IAB26-2", "IAB26-3",
];

/// Words of keywords and titles.
pub(super) const WORDS: [&str; 24] = [
    "news",
    "travel",
    "football",
    "recipe",
    "garden",
    "finance",
    "weather",
    "cinema",
    "mortgage",
    "fashion",
    "running",
    "laptop",
    "electric",
    "camera",
    "holiday",
    "theatre",
    "cycling",
    "museum",
    "insurance",
    "kitchen",
    "puzzle",
    "concert",
    "fitness",
    "architecture",
];

/// Identity providers of `user.eids`.
pub(super) const IDENTITY_SOURCES: [&str; 6] = [
    "uid-source.example",
    "id5-source.example",
    "sharedid.example",
    "ramp-source.example",
    "pairid.example",
    "publisher-id.example",
];

/// The `request` of a native impression: Native 1.2, a title, a main image and a sponsor.
pub(super) const NATIVE_REQUEST: &str = r#"{"ver":"1.2","context":1,"plcmttype":1,"assets":[{"id":1,"required":1,"title":{"len":90}},{"id":2,"required":1,"img":{"type":3,"wmin":600,"hmin":314}},{"id":3,"data":{"type":1,"len":25}}]}"#;

/// A TCF consent string, as `user.consent` carries it.
pub(super) const CONSENT: &str = "CPXxRfAPXxRfAAfKABENB-CgAAAAAAAAAAYgAAAAAAAA";
