//! What is added for which values.

use std::time::Duration;

use super::*;

#[track_caller]
fn check(place: EnrichmentPlace, fields: &[(&str, &[&str])], want: Option<&str>) {
    let enrichment = Enrichment {
        name: "a.b".into(),
        value: RequestValue::Page,
        key: "page".into(),
        fields: fields.iter().map(|(field, _)| Box::from(*field)).collect(),
        place,
        is_required: false,
        stale: Duration::ZERO,
        load: None,
    };
    let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    let values: Vec<Vec<String>> = fields.iter().map(|(_, values)| owned(values)).collect();
    let text = enrichment.text(&values);
    assert_eq!(text.as_deref(), want);
}

#[test]
fn values_become_segments_or_members() {
    let data = EnrichmentPlace::UserData;
    let one = [("page.category", &["\"news\"", "12", "true"][..])];
    let ids = r#"{"id":"news"},{"id":"12"},{"id":"true"}"#;
    check(data, &one, Some(&format!(r#"{{"name":"a.b","segment":[{ids}]}}"#)));
    let two = [("page.category", &["\"news\""][..]), ("page.safe", &["true"][..])];
    let named = r#"{"name":"category","value":"news"},{"name":"safe","value":"true"}"#;
    check(
        EnrichmentPlace::ContentData,
        &two,
        Some(&format!(r#"{{"name":"a.b","segment":[{named}]}}"#)),
    );
    check(EnrichmentPlace::Ext, &two, Some(r#""a.b":{"category":"news","safe":true}"#));
    check(EnrichmentPlace::Ext, &one, Some(r#""a.b":{"category":["news",12,true]}"#));
}

#[test]
fn fields_without_values_add_nothing() {
    check(EnrichmentPlace::Ext, &[("page.a", &[]), ("page.b", &["1"])], Some(r#""a.b":{"b":1}"#));
    check(EnrichmentPlace::UserData, &[("page.a", &[]), ("page.b", &[])], None);
}
