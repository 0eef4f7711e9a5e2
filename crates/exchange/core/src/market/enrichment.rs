//! What is added to requests for DSPs: which data, about which value of the request, and where it goes.

use std::time::Duration;

use openrtb::DataPlace;
use strum::{IntoStaticStr, VariantArray};

/// Most enrichments of an exchange.
pub const ENRICHMENTS_MAX: usize = 16;
/// Most bytes that an enrichment adds to a request.
pub const ENRICHMENT_BYTES_MAX: usize = 4096;

/// Where the data of all enrichments is in the request, by their names.
const EXT: &[&str] = &["ext", "enrichment"];

/// Data about one value of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrichment {
    /// Unique among the enrichments.
    pub name: Box<str>,
    /// The value that the data is about.
    pub value: RequestValue,
    /// The key under which that value is looked up.
    pub key: Box<str>,
    /// The fields of the records that are added.
    pub fields: Vec<Box<str>>,
    /// Where they are added.
    pub place: EnrichmentPlace,
    /// Whether an auction without the data is not held.
    pub is_required: bool,
    /// How long expired data is still added while it is looked up again.
    pub stale: Duration,
    /// None: values are looked up one by one.
    pub load: Option<EnrichmentLoad>,
}

/// A look-up of the data about all values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnrichmentLoad {
    /// The query.
    pub query: Box<str>,
    /// How often it is asked.
    pub every: Duration,
}

/// A value of a request that data can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum RequestValue {
    /// `user.id`.
    #[strum(serialize = "user.id")]
    UserId,
    /// `site.page`.
    Page,
    /// `domain` of `site`, `app` or `dooh`.
    Domain,
    /// `app.bundle`.
    Bundle,
    /// The network of `device.ip` or `device.ipv6`: /24 or /48, without its length.
    IpPrefix,
    /// `device.geo.country`.
    Country,
    /// `device.geo`: country, region and city, with slashes between them. The region may be empty.
    City,
}

units::labelled!(RequestValue);

/// Where an enrichment adds its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum EnrichmentPlace {
    /// `user.data`.
    #[strum(serialize = "user.data")]
    UserData,
    /// `content.data` of `site`, `app` or `dooh`.
    #[strum(serialize = "content.data")]
    ContentData,
    /// `ext.enrichment`.
    Ext,
}

units::labelled!(EnrichmentPlace);

impl EnrichmentPlace {
    pub(crate) const fn in_request(self) -> DataPlace {
        match self {
            Self::UserData => DataPlace::UserData,
            Self::ContentData => DataPlace::ContentData,
            Self::Ext => DataPlace::Ext(EXT),
        }
    }
}

impl Enrichment {
    /// Whether privacy signals forbid it: it is about the user, or is added to the user.
    pub fn is_personal(&self) -> bool {
        self.value == RequestValue::UserId || self.place == EnrichmentPlace::UserData
    }

    /// What is added to the request: a `Data` object (section 3.2.21) or a member of
    /// `ext.enrichment`. `values` are JSON scalars, by field. Returns None without values.
    ///
    /// In a `Data` object each value of a single field is the id of a segment; of several fields, each
    /// is the value of a segment whose name is that of the attribute.
    pub fn text(&self, values: &[Vec<String>]) -> Option<String> {
        let attribute = |field: &str| {
            let attribute = field.split_once('.').map_or(field, |(_, attribute)| attribute);
            openrtb::escaped(attribute).into_owned()
        };
        let fields = self.fields.iter().zip(values).filter(|(_, values)| !values.is_empty());
        let mut parts: Vec<String> = Vec::new();
        for (field, values) in fields {
            let attribute = attribute(field);
            match self.place {
                EnrichmentPlace::Ext => parts.push(match &values[..] {
                    [value] => format!("\"{attribute}\":{value}"),
                    _ => format!("\"{attribute}\":[{}]", values.join(",")),
                }),
                _ if self.fields.len() == 1 => {
                    parts.extend(
                        values.iter().map(|value| format!("{{\"id\":{}}}", text_of(value))),
                    );
                }
                _ => parts.extend(values.iter().map(|value| {
                    format!("{{\"name\":\"{attribute}\",\"value\":{}}}", text_of(value))
                })),
            }
        }
        if parts.is_empty() {
            return None;
        }
        let (name, parts) = (openrtb::escaped(&self.name), parts.join(","));
        Some(match self.place {
            EnrichmentPlace::Ext => format!("\"{name}\":{{{parts}}}"),
            _ => format!("{{\"name\":\"{name}\",\"segment\":[{parts}]}}"),
        })
    }
}

/// A JSON scalar as a JSON string.
fn text_of(scalar: &str) -> String {
    if scalar.starts_with('"') { scalar.to_owned() } else { format!("\"{scalar}\"") }
}

#[cfg(test)]
mod tests;
