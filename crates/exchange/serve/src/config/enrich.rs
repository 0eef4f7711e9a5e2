//! `[[exchange.enrich]]`: data that is added to requests for DSPs.

use std::cell::Cell;
use std::time::Duration;

use exchange_core::record::ENRICHMENT_NAME_MAX;
use exchange_core::{ENRICHMENTS_MAX, Enrichment, EnrichmentLoad, EnrichmentPlace, RequestValue};
use runtime::config::{Optional, Required, Section, secs};

use super::unique_ids::UniqueIds;

const ABOUT: &str = "Data about a value of the request, looked up in [lookup] and added to the request \
                     for DSPs: see docs/enrichment.md.";

pub(super) fn read_all(s: &mut Section<'_>) -> Vec<Enrichment> {
    let (names, count) = (UniqueIds::default(), Cell::new(0));
    s.tables("enrich", ABOUT, |s| {
        count.set(count.get() + 1);
        let enrichment = read(s);
        names.check(s, "name", &enrichment.name);
        if count.get() == ENRICHMENTS_MAX + 1 {
            let remedy = format!("is one too many: an exchange has at most {ENRICHMENTS_MAX}");
            s.problem("name", &enrichment.name, remedy);
        }
        enrichment
    })
}

fn read(s: &mut Section<'_>) -> Enrichment {
    let name = s.parsed(
        "name",
        Required("audience"),
        |name| {
            let is_short = !name.is_empty() && name.len() <= ENRICHMENT_NAME_MAX;
            let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            (is_short && is_plain).then(|| Box::from(name)).ok_or_else(|| {
                format!(
                    "needs 1 to {ENRICHMENT_NAME_MAX} letters, digits, dots, hyphens and underscores"
                )
            })
        },
        "Its unique name, which DSPs see beside the data.",
    );
    let value = s.one_of(
        "value",
        Required("user.id"),
        &RequestValue::ALL.map(|value| (value.label(), value)),
        "Value of the request that the data is about: `user.id`; `page`, `domain` or `bundle` of the \
         property; `ip_prefix`, the device's /24 or /48 network; its `country`; or `city`, as \
         country/region/city, where the region may be empty.",
    );
    let key = s.text("key", Required("user"), "Key under which [lookup] looks the value up.");
    let fields = read_fields(s);
    let place = s.one_of(
        "into",
        Required("user.data"),
        &EnrichmentPlace::ALL.map(|place| (place.label(), place)),
        "Where it is added: `user.data`, `content.data` of the property, or `ext`, as \
         `ext.enrichment.<name>`.",
    );
    if value == RequestValue::UserId && place != EnrichmentPlace::UserData {
        let remedy = "must be user.data for a value of user.id: DSPs that get no user get no data about \
                      the user either";
        s.problem("into", place.label(), remedy);
    }
    Enrichment {
        name,
        value,
        key: key.into(),
        fields,
        place,
        is_required: s.boolean(
            "required",
            false,
            "Whether an auction without the data is not held. The data about a new value is not \
             there at first.",
        ),
        stale: s.duration(
            "stale",
            "10m",
            Duration::ZERO..=secs(30 * 86_400),
            "How long expired data is still added while it is looked up again.",
        ),
        load: read_load(s),
    }
}

fn read_load(s: &mut Section<'_>) -> Option<EnrichmentLoad> {
    let query: Option<String> = s.text(
        "load",
        Optional("user"),
        "Query of [lookup] whose records are all kept in memory, each as the data about the value that \
         is its `key`. Absent: values are looked up one by one.",
    );
    let every = s.duration(
        "load_every",
        "1h",
        secs(1)..=secs(30 * 86_400),
        "How often the query of `load` is asked.",
    );
    Some(EnrichmentLoad { query: query?.into(), every })
}

fn read_fields(s: &mut Section<'_>) -> Vec<Box<str>> {
    let fields: Vec<Box<str>> = s.texts(
        "fields",
        Required(&["user.segments"]),
        |field| {
            let is_field = field.split_once('.').is_some_and(|(key, of)| !key.is_empty() && !of.is_empty());
            is_field
                .then(|| Box::from(field))
                .ok_or_else(|| "needs the form \"key.attribute\"".to_owned())
        },
        "Fields of the records that are added. In `data`, each value of a single field is the id of a \
         segment; with several fields, segments have names and values.",
    );
    if fields.is_empty() {
        s.problem("fields", "[]", "needs at least one field");
    }
    let mut attributes: Vec<_> =
        fields.iter().filter_map(|field| Some(field.split_once('.')?.1)).collect();
    attributes.sort_unstable();
    if attributes.windows(2).any(|pair| pair[0] == pair[1]) {
        s.problem("fields", "…", "DSPs could not tell two fields of one name apart");
    }
    fields
}
