//! The API document's schemas of accounts and campaigns agree with the reader: both accept the same
//! definitions.

use std::collections::BTreeSet;

use exchange_core::campaigns::Interner;
use exchange_serve::DirectRules;
use jsonschema::Validator;
use pacer_core::store::StoredKind;
use pacer_serve::api::unconfigured;
use pacer_serve::registry::testing::check_body;
use pacer_serve::registry::{AccountFacts, CampaignRules};
use runtime::admin::openapi;
use runtime::config::Section;
use serde_json::{Value, json};
use units::Cpm;

/// The exchange's part of a campaign, as in the binary.
#[derive(Clone)]
pub struct DirectPart(Option<DirectRules>);

impl CampaignRules for DirectPart {
    const TABLES: &'static [&'static str] = DirectRules::TABLES;

    type Shared = Interner;

    fn read(s: &mut Section<'_>, account: &AccountFacts) -> Self {
        Self(DirectRules::read(s, account.currency))
    }

    fn share(&mut self, shared: &mut Interner) {
        if let Some(rules) = &mut self.0 {
            rules.intern(shared);
        }
    }

    fn is_fixed_price(&self) -> bool {
        self.0.as_ref().is_some_and(DirectRules::is_fixed_price)
    }

    fn amount(&self) -> Option<Cpm> {
        self.0.as_ref().map(|rules| rules.0.price.amount())
    }
}

fn document() -> Value {
    openapi(&[unconfigured::<DirectPart>()])
}

/// A schema of the document, with the definitions that it references.
fn validator(document: &Value, schema: &Value) -> Validator {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let options = jsonschema::draft202012::options().should_validate_formats(true);
    options.build(&schema).expect("the document's schemas are schemas")
}

/// Checks definitions that differ from a valid one in one place.
struct Checker {
    kind: StoredKind,
    good: Value,
    schema: Validator,
}

impl Checker {
    fn new(kind: StoredKind, schema: &str, good: Value) -> Self {
        let document = document();
        let schema = validator(&document, &document["components"]["schemas"][schema]);
        let new = Self { kind, good, schema };
        new.judge("the good one", &new.good, true);
        new
    }

    #[track_caller]
    fn judge(&self, what: &str, body: &Value, want: bool) {
        let read = check_body::<DirectPart>(self.kind, body.as_object().unwrap());
        let by_schema = self.schema.is_valid(body);
        assert_eq!((by_schema, read.is_ok()), (want, want), "{what}: {read:?}");
    }

    /// Puts each value at the pointer `at`; `want` is whether it is accepted.
    #[track_caller]
    fn check(&self, at: &str, want: bool, values: &[Value]) {
        for value in values {
            let mut body = self.good.clone();
            let (parent, name) = at.rsplit_once('/').unwrap();
            body.pointer_mut(parent).unwrap()[name] = value.clone();
            self.judge(&format!("{at} = {value}"), &body, want);
        }
    }

    #[track_caller]
    fn takes(&self, at: &str, texts: &[&str]) {
        let values: Vec<_> = texts.iter().map(|text| json!(text)).collect();
        self.check(at, true, &values);
    }

    /// Puts each text into a list of its own.
    #[track_caller]
    fn takes_items(&self, at: &str, texts: &[&str]) {
        let values: Vec<_> = texts.iter().map(|text| json!([text])).collect();
        self.check(at, true, &values);
    }

    fn limits(&self) {
        self.takes("/late_holdback", &["0%", "0.0001%", "100%", "2.50", "2.50 USD"]);
        for limit in ["/budget", "/daily_budget", "/hourly_budget"] {
            self.takes(limit, &["0", "1000.00", "17999999999.999999999", "1 USD"]);
            self.check(limit, false, &[json!(5), json!(0.5), json!(null), json!(["1"])]);
        }
        self.check("/paused", true, &[json!(true)]);
        self.check("/paused", false, &[json!("yes"), json!(1)]);
        self.takes("/id", &["a", "A.b_c-9", "...", &"x".repeat(64)]);
        self.check("/id", false, &[json!(1)]);
        self.check("/colour", false, &[json!("red")]);
    }
}

#[test]
fn accounts() {
    let good = json!({ "id": "acme", "currency": "USD" });
    let of = Checker::new(StoredKind::Account, "AccountDefinition", good);
    of.limits();
    of.takes("/currency", &["EUR", "ZZZ"]);
    of.check("/currency", false, &[json!("usd"), json!("$")]);
    of.takes("/time_zone", &["UTC", "America/Argentina/Buenos_Aires", "Etc/GMT+5"]);
    let many = (0..1_000).map(|n| format!("d/{n}")).collect::<Value>();
    of.check("/seats", true, &[json!([]), many, json!(["d/s/t", "a b/c d"])]);
    of.check("/seats", false, &[json!("d/s"), json!([1])]);
}

fn campaign() -> Value {
    json!({
        "id": "summer", "account": "acme", "start": "2026-11-01", "end": "2026-12-01",
        "bid": { "value": "2.50" }, "targeting": {}, "strategy": {},
        "creative": [{ "id": "a", "format": "banner", "markup": "<p>" }],
    })
}

#[test]
fn campaigns() {
    let of = Checker::new(StoredKind::Campaign, "CampaignDefinition", campaign());
    of.limits();
    for (at, day) in [("/start", "2026-10-31"), ("/end", "2027-02-28")] {
        let times = ["", "T08:00:00.5", "T08:00:00Z", "T08:00:00+05:45", "T08:00", " 08:00:00"];
        of.takes(at, &times.map(|time| format!("{day}{time}")).each_ref().map(|it| &**it));
        of.check(at, false, &[json!(20_261_101), json!(null)]);
    }
    of.takes_items("/hours", &["Mon-FRI 08-20", "mon", "sat-sun", "fri 00-24", "22-02"]);
    of.check("/hours", false, &[json!("mon"), json!([8])]);
    let without = |keys: &[&str], want: bool| {
        let mut body = campaign();
        keys.iter().for_each(|key| drop(body.as_object_mut().unwrap().remove(*key)));
        of.judge(&format!("without {keys:?}"), &body, want);
    };
    for key in ["id", "account", "start", "end", "bid", "creative"] {
        without(&[key], false);
    }
    without(&["bid", "creative"], true);
    bids_and_targeting(&of);
    creatives(&of);
    strategies(&of);
}

fn bids_and_targeting(of: &Checker) {
    of.takes("/bid/value", &["0.000001", "2.50", "1000000000", "999999999.999999"]);
    of.check("/bid", true, &[json!({ "price": "2" })]);
    of.check("/bid", false, &[json!({ "price": 2 }), json!({ "bid": "1" })]);
    for (key, text) in [
        ("formats", "banner"),
        ("sizes", "300x250"),
        ("countries", "USA"),
        ("regions_blocked", "FRA/75C"),
        ("publishers", "a b"),
        ("domains", "News.example"),
        ("pages", "https://news.example/sport/?u=http://b#c"),
        ("key_values", "k=v=w"),
        ("device_types", "set_top_box"),
        ("deals", "d1"),
    ] {
        of.takes_items(&format!("/targeting/{key}"), &[text]);
        of.check(&format!("/targeting/{key}"), false, &[json!(text), json!([1])]);
    }
    of.check("/targeting/country", false, &[json!(["USA"])]);
}

fn creatives(of: &Checker) {
    let at = |key: &str| format!("/creative/0/{key}");
    of.check("/creative", false, &[json!({}), json!(["a"]), json!([{ "id": "a" }])]);
    of.takes(&at("size"), &["300x250"]);
    of.takes_items(&at("domains"), &["acme.example"]);
    of.check(&at("category_taxonomy"), true, &[json!(1), json!(u32::MAX)]);
    of.check(&at("category_taxonomy"), false, &[json!(0), json!(1_u64 << 32), json!("1")]);
    of.check(&at("attributes"), true, &[json!([1, 18])]);
    of.check(&at("attributes"), false, &[json!([1.5])]);
    of.takes(&at("language"), &["de", "zh-Hant-TW"]);
    of.check(&at("width"), false, &[json!(300)]);
}

fn strategies(of: &Checker) {
    for (name, gain, value) in [
        ("throttle", "up", "1.01"),
        ("pid", "multiplier_max", "148"),
        ("adaptive", "step", "99.9"),
        ("slot_dual", "follow", "0.3"),
    ] {
        of.check("/strategy", true, &[json!({ "name": name, gain: value })]);
        of.check("/strategy", false, &[json!({ "name": name, gain: 0.3 })]);
    }
    of.takes("/strategy/name", &["asap", "even", "throttle", "pid", "adaptive", "slot_dual"]);
    of.takes("/strategy/pricing", &["first_price"]);
    of.check("/strategy/forecast_weights", true, &[json!(vec![1; 168])]);
    of.check("/strategy/forecast_weights", false, &[json!(vec![-1; 168])]);
}

/// Bodies of partial changes: what each accepts and refuses.
#[test]
fn parts() {
    let document = document();
    let check = |name: &str, want: bool, body: &Value| {
        let schema = validator(&document, &document["components"]["schemas"][name]);
        assert_eq!(schema.is_valid(body), want, "{name} {body}");
    };
    check("Budgets", true, &json!({ "budget": "1", "daily_budget": null, "version": 3 }));
    for bad in [json!({}), json!({ "budget": 1 }), json!({ "paused": true })] {
        check("Budgets", false, &bad);
    }
    check("AccountPatch", true, &json!({ "budget": null, "paused": true }));
    check("AccountPatch", false, &json!({ "currency": null }));
    let patch = json!({ "bid": { "value": null, "price": "1" }, "strategy": null });
    check("CampaignPatch", true, &patch);
    check("CampaignPatch", true, &json!({ "bid": null, "creative": null }));
    for bad in [
        json!({ "end": null }),
        json!({ "strategy": { "up": 1.5 } }),
        json!({ "creative": {} }),
        json!({ "colour": "red" }),
    ] {
        check("CampaignPatch", false, &bad);
    }
}

/// Every reference leads to a schema, and programs can name every operation.
#[test]
fn the_document_is_whole() {
    let document = document();
    assert_eq!(document["security"], json!([{}, { "token": [] }]));
    for schema in document["components"]["schemas"].as_object().unwrap().values() {
        validator(&document, schema);
    }
    let mut ids = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{method} {path}");
            let body = &operation["requestBody"]["content"];
            let responses = operation["responses"].as_object().unwrap().values();
            let contents = responses.map(|response| &response["content"]).chain([body]);
            for content in contents.flat_map(Value::as_object).flat_map(|it| it.values()) {
                validator(&document, &content["schema"]);
            }
        }
    }
    assert!(ids.contains("listCampaigns"), "{ids:?}");
}
