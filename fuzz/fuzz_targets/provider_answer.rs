//! Any bytes as the answer of a provider, in each format: refused, or records within the limits, which
//! merge and print.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use lookup_core::map::{MapKey, ProviderCall, ProviderMap, RecordForm, RecordFormat};
use lookup_core::records::{RecordLimits, RecordSchema, merge, read, to_json};

const LIMITS: RecordLimits = RecordLimits { records_max: 50, fields_max: 10, values_max: 200 };

fuzz_target!(|bytes: &[u8]| {
    let Some((options, body)) = bytes.split_first() else { return };
    let format = match options % 4 {
        0 => RecordFormat::Json,
        1 => RecordFormat::Ndjson,
        2 => RecordFormat::Csv,
        _ => RecordFormat::Xml,
    };
    let path: &[&str] = if options & 4 == 0 { &[] } else { &["r", "f"] };
    let fields = [("n", "file.name"), ("m.s", "file.size")];
    let call = ProviderCall {
        name: "files".to_owned(),
        gives: vec!["file".to_owned()],
        path: "/files".to_owned(),
        statement: None,
        form: RecordForm {
            format,
            path: path.iter().map(|name| (*name).to_owned()).collect(),
            fields: fields.map(|(from, to)| (from.to_owned(), to.to_owned())).to_vec(),
            keeps_others: options & 8 != 0,
        },
        parameters: Vec::new(),
        ttl: Duration::ZERO,
        empty_ttl: Duration::ZERO,
        stale_ttl: Duration::ZERO,
        pages: None,
        records_typical: 1,
    };
    let key = MapKey { name: "file".to_owned(), about: String::new(), primary: "name".to_owned() };
    let map = ProviderMap { keys: vec![key], providers: Vec::new() };
    let schema = RecordSchema::of(&map, &call);
    let Ok(set) = read(&call.form, &schema, body, LIMITS) else { return };
    assert!(set.rows.len() <= LIMITS.records_max && set.fields.len() <= LIMITS.fields_max);
    assert!(set.rows.iter().map(|row| row.len()).sum::<usize>() <= LIMITS.values_max);
    let count = set.rows.len();
    let primary = ["file.name".to_owned()];
    let twice = vec![(0, set.clone()), (1, set)];
    let merged = merge(twice, &primary, RecordLimits::default()).expect("within the limits");
    assert!(merged.records.len() <= 2 * count);
    for record in &merged.records {
        assert!(record.row.len() <= merged.fields.len());
        assert!(to_json(&merged.fields, &record.row).is_object());
    }
});
