//! The schemas of accounts and campaigns in `docs/openapi.json` beside the reader that judges them:
//! what the one refuses, the other does.

use std::collections::BTreeSet;

use exchange_core::house::Interner;
use exchange_serve::HouseRules;
use jsonschema::Validator;
use pacer_core::store::Kind;
use pacer_serve::registry::{Account, AccountFacts, Campaign, Rules, check_body};
use runtime::config::{Section, describe, json_schema};
use serde_json::{Value, json};
use units::{Cpm, Currency};

/// The exchange's part of a campaign, as the binary joins it to the ledger's.
#[derive(Clone)]
pub struct HousePart(HouseRules);

impl Rules for HousePart {
    type Shared = Interner;

    fn read(s: &mut Section<'_>, account: &AccountFacts) -> Self {
        Self(HouseRules::read(s, account.currency))
    }

    fn share(&mut self, shared: &mut Interner) {
        self.0.intern(shared);
    }

    fn is_fixed_price(&self) -> bool {
        self.0.is_fixed_price()
    }

    fn amount(&self) -> Cpm {
        self.0.0.price.amount()
    }
}

fn document() -> Value {
    serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap()
}

/// A schema of the document with what it refers to beside it.
fn validator(document: &Value, schema: &Value) -> Validator {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let options = jsonschema::draft202012::options().should_validate_formats(true);
    options.build(&schema).expect("the document's schemas are schemas")
}

/// Checks definitions that differ in one place from one that is good.
struct Checker {
    kind: Kind,
    good: Value,
    schema: Validator,
    /// Places that had a refused value.
    refused: BTreeSet<String>,
    problems: Vec<String>,
}

impl Checker {
    fn new(kind: Kind, schema: &str, good: Value) -> Self {
        let document = document();
        let schema = validator(&document, &document["components"]["schemas"][schema]);
        let mut new = Self { kind, good, schema, refused: BTreeSet::new(), problems: Vec::new() };
        new.judge("the good one", &new.good.clone(), true);
        new
    }

    fn judge(&mut self, what: &str, body: &Value, want: bool) {
        let read = check_body::<HousePart>(self.kind, body.as_object().unwrap());
        let by_schema = self.schema.is_valid(body);
        if (by_schema, read.is_ok()) != (want, want) {
            let read = read.err();
            self.problems.push(format!("{what}: want {want}, schema {by_schema}, reader {read:?}"));
        }
    }

    /// Puts each value at the pointer `at`, and wants it to be taken, or not.
    fn check(&mut self, at: &str, want: bool, values: &[Value]) {
        for value in values {
            let mut body = self.good.clone();
            let (parent, name) = at.rsplit_once('/').unwrap();
            body.pointer_mut(parent).unwrap()[name] = value.clone();
            self.judge(&format!("{at} = {value}"), &body, want);
        }
        if !want {
            self.refused.insert(at.to_owned());
        }
    }

    fn texts(&mut self, at: &str, want: bool, texts: &[&str]) {
        let values: Vec<_> = texts.iter().map(|text| json!(text)).collect();
        self.check(at, want, &values);
    }

    /// Puts each text into a list of its own.
    fn items(&mut self, at: &str, want: bool, texts: &[&str]) {
        let values: Vec<_> = texts.iter().map(|text| json!([text])).collect();
        self.check(at, want, &values);
    }

    fn holdback(&mut self) {
        let good = ["0%", "1%", "0.0001%", "100%", "2.50", "2.50 USD"];
        self.texts("/late_holdback", true, &good);
        let bad = ["", "%", "101%", "-1%", "0.00001%", "a%", "-2", "1 %"];
        self.texts("/late_holdback", false, &bad);
    }

    fn limits(&mut self) {
        for limit in ["/budget", "/daily_budget", "/hourly_budget"] {
            let good = ["0", "1000.00", "17999999999.999999999", "1 USD", "0.5 USD"];
            self.texts(limit, true, &good);
            self.texts(
                limit,
                false,
                &["", "-1", "1,000", "01", "1.", ".5", "a lot", "1 usd", "1USD"],
            );
            self.texts(limit, false, &["0.0000000001", "18446744073.709551616", " 1"]);
            self.check(limit, false, &[json!(5), json!(0.5), json!(null), json!(["1"])]);
        }
        self.check("/paused", false, &[json!("yes"), json!(1)]);
        self.check("/paused", true, &[json!(true)]);
        self.texts("/id", true, &["a", "A.b_c-9", "...", &"x".repeat(64)]);
        self.texts("/id", false, &["", ".", "..", "a b", "a/b", "é", &"x".repeat(65)]);
        self.check("/id", false, &[json!(1)]);
        self.check("/colour", false, &[json!("red")]);
    }

    #[track_caller]
    fn finish(self) {
        assert!(self.problems.is_empty(), "\n{}", self.problems.join("\n"));
        let at =
            |path: &str| format!("/{}", path.replace('.', "/").replace("creative/", "creative/0/"));
        let schema = declared(self.kind);
        let unseen: Vec<_> = keys(&schema, &schema)
            .iter()
            .map(|key| at(key))
            .filter(|key| !self.refused.contains(key))
            .collect();
        // Tables are refused through their keys.
        let unseen: Vec<_> = unseen
            .iter()
            .filter(|key| !self.refused.iter().any(|seen| seen.starts_with(&format!("{key}/"))))
            .collect();
        assert!(unseen.is_empty(), "no refused value of {unseen:?}");
    }
}

/// The schema that the reader declares.
fn declared(kind: Kind) -> Value {
    let facts = || AccountFacts { currency: Currency::USD, zone: jiff::tz::TimeZone::UTC };
    json_schema(&match kind {
        Kind::Account => describe(|s| drop(Account::read(s))),
        Kind::Campaign => describe(|s| drop(Campaign::<HousePart>::read(s, |_| Ok(facts())))),
    })
}

/// The paths of all keys of a schema, with `!` behind those that it requires.
fn keys(whole: &Value, schema: &Value) -> BTreeSet<String> {
    let schema = match schema["$ref"].as_str() {
        Some(pointer) => whole.pointer(pointer.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    let mut found = BTreeSet::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        found.insert(name.clone());
        let below = if property["items"].is_object() { &property["items"] } else { property };
        found.extend(keys(whole, below).iter().map(|key| format!("{name}.{key}")));
    }
    found
}

#[test]
fn the_schemas_have_the_keys_that_the_reader_declares() {
    let document = document();
    for (kind, name, patch) in [
        (Kind::Account, "AccountDefinition", "AccountPatch"),
        (Kind::Campaign, "CampaignDefinition", "CampaignPatch"),
    ] {
        let schemas = &document["components"]["schemas"];
        let declared = declared(kind);
        assert_eq!(keys(&document, &schemas[name]), keys(&declared, &declared), "{name}");
        let top = |schema: &Value| -> BTreeSet<String> {
            schema["properties"].as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(top(&schemas[patch]), top(&declared), "{patch}");
    }
}

#[test]
fn accounts() {
    let good = json!({ "id": "acme", "currency": "USD" });
    let mut of = Checker::new(Kind::Account, "AccountDefinition", good);
    of.limits();
    of.texts("/currency", true, &["EUR", "ZZZ"]);
    of.texts("/currency", false, &["", "usd", "US", "USDT", "$"]);
    of.texts(
        "/time_zone",
        true,
        &["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"],
    );
    of.texts(
        "/time_zone",
        false,
        &["", "New York", "+05:00", "/", "UTC0!", "Europe/", &"x".repeat(200)],
    );
    of.holdback();
    of.items("/seats", true, &["dsp-3/acme", "d/s/t", "a b/c d"]);
    of.items("/seats", false, &["", "acme", "/acme", "dsp/"]);
    let many = |count: u32| (0..count).map(|n| format!("d/{n}")).collect::<Value>();
    of.check("/seats", true, &[json!([]), many(1_000)]);
    of.check("/seats", false, &[many(1_001), json!(["d/s", "d/s"]), json!("d/s"), json!([1])]);
    of.finish();
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
    let mut of = Checker::new(Kind::Campaign, "CampaignDefinition", campaign());
    of.limits();
    of.texts("/account", false, &["", "a b", ".."]);
    for (at, day) in [("/start", "2026-10-31"), ("/end", "2027-02-28")] {
        let times = [
            "",
            "T08:00:00",
            "T08:00:00.5",
            "T08:00:00Z",
            "T08:00:00+05:45",
            "T08:00",
            " 08:00:00",
            "T08:00Z",
            "T08:00:00z",
            "T08:00:00+05",
            "t08:00:00",
        ];
        of.texts(at, true, &times.map(|time| format!("{day}{time}")).each_ref().map(|it| &**it));
        of.texts(at, false, &["", "soon", "2026-13-01", "2026-11-31", "1969-01-01", "2026-02-30"]);
        of.texts(
            at,
            false,
            &["2026-11-01T25:00:00", "2026-11-01T00:00[UTC]", "2026-11-01T00:00:00+5"],
        );
        of.check(at, false, &[json!(20_261_101), json!(null)]);
    }
    of.holdback();
    of.items(
        "/hours",
        true,
        &["Mon-FRI 08-20", "mon", "tue 8-9", "sat-sun", "sun-mon", "fri 00-24", "22-02", "0-24"],
    );
    of.items(
        "/hours",
        false,
        &["", "someday", "mon 8", "mon 08-25", "mon 24-2", "8-8", "8-08", "mon 8-9 x", "8"],
    );
    of.check("/hours", true, &[json!([])]);
    of.check("/hours", false, &[json!("mon"), json!([8])]);
    for key in ["id", "account", "start", "end", "bid", "creative"] {
        let mut body = campaign();
        body.as_object_mut().unwrap().remove(key);
        of.judge(&format!("without {key}"), &body, false);
    }
    bids_and_targeting(&mut of);
    creatives(&mut of);
    strategies(&mut of);
    of.finish();
}

fn bids_and_targeting(of: &mut Checker) {
    let fixed = |price: &str| json!({ "price": price });
    of.texts("/bid/value", true, &["0.000001", "2.50", "1000000000", "999999999.999999"]);
    of.texts(
        "/bid/value",
        false,
        &["", "0", "0.0", "-1", "2 USD", "0.0000001", "1000000001", "1.", "01"],
    );
    of.check("/bid", true, &[fixed("2")]);
    of.check("/bid", false, &[json!({}), fixed("0"), json!({ "price": 2 })]);
    of.check("/bid", false, &[json!({ "value": "1", "price": "1" }), json!({ "bid": "1" })]);
    of.check("/bid/price", false, &[json!("1")]); // Beside `value`.
    of.items("/targeting/formats", false, &["pop", ""]);
    of.items("/targeting/formats", true, &["banner"]);
    of.items("/targeting/sizes", true, &["300x250"]);
    of.items("/targeting/sizes", false, &["300", "300 x 250", "x", ""]);
    for key in ["countries", "countries_blocked"] {
        of.items(&format!("/targeting/{key}"), true, &["USA"]);
        of.items(&format!("/targeting/{key}"), false, &["US", "usa", ""]);
    }
    for key in ["regions", "regions_blocked"] {
        of.items(&format!("/targeting/{key}"), true, &["USA/CA", "FRA/75C"]);
        of.items(
            &format!("/targeting/{key}"),
            false,
            &["CA", "US/CA", "USA/", "USA/ca", "USA/CALI"],
        );
    }
    for key in ["publishers", "publishers_blocked", "app_bundles", "app_bundles_blocked", "deals"] {
        of.items(&format!("/targeting/{key}"), true, &["a b"]);
        of.items(&format!("/targeting/{key}"), false, &[""]);
    }
    let long = format!("{}.example", "x".repeat(250));
    for key in ["domains", "domains_blocked"] {
        of.items(&format!("/targeting/{key}"), true, &["News.example", "a_b-c.d"]);
        of.items(
            &format!("/targeting/{key}"),
            false,
            &["https://a.example", ".example", "a b", "", &long],
        );
    }
    let pages =
        ["news.example", "https://news.example/sport/?u=http://b#c", "HTTP://a:80/", "[::1]/x"];
    of.items("/targeting/pages", true, &pages);
    of.items(
        "/targeting/pages",
        false,
        &["", "/sport", "ftp://a/", "https://", "a b/", "a/?u=http://b"],
    );
    of.items("/targeting/key_values", true, &["section=sport", "k=v=w"]);
    of.items("/targeting/key_values", false, &["sport", "=sport", "section=", ""]);
    of.items("/targeting/device_types", true, &["pc", "set_top_box"]);
    of.items("/targeting/device_types", false, &["fridge", "PC"]);
    of.check("/targeting/country", false, &[json!(["USA"])]);
    of.check("/targeting/deals", false, &[json!("d1"), json!([1])]);
}

fn creatives(of: &mut Checker) {
    let at = |key: &str| format!("/creative/0/{key}");
    of.check("/creative", false, &[json!([]), json!({}), json!(["a"])]);
    of.texts(&at("id"), false, &[""]);
    of.texts(&at("format"), false, &["", "pop"]);
    of.texts(&at("markup"), false, &["", " \n", &"x".repeat(65_537)]);
    of.texts(&at("size"), true, &["300x250"]);
    of.texts(&at("size"), false, &["0x250", "300", ""]);
    of.items(&at("domains"), true, &["acme.example"]);
    of.items(&at("domains"), false, &["a b", "https://a.example", ""]);
    of.items(&at("categories"), false, &[""]);
    for key in ["domains", "categories"] {
        of.check(&at(key), true, &[json!(vec!["a"; 32])]);
        of.check(&at(key), false, &[json!(vec!["a"; 33])]);
    }
    of.texts(&at("app_bundle"), false, &[""]);
    of.check(&at("category_taxonomy"), true, &[json!(1), json!(u32::MAX)]);
    of.check(&at("category_taxonomy"), false, &[json!(0), json!(1_u64 << 32), json!("1")]);
    of.check(&at("attributes"), true, &[json!([1, 18])]);
    of.check(
        &at("attributes"),
        false,
        &[json!([0]), json!([19]), json!(vec![1; 33]), json!([1.5])],
    );
    of.texts(&at("language"), true, &["de", "pt-BR", "zh-Hant-TW"]);
    of.texts(&at("language"), false, &["", "german", "d", "de_DE", "de-"]);
    of.check(&at("duration_s"), false, &[json!(15)]); // Of a banner.
    of.check(&at("width"), false, &[json!(300)]);
    let of_format = |format: &str, markup: &str, more: Value| {
        let mut creative = json!({ "id": "a", "format": format, "markup": markup });
        creative.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([creative])
    };
    let vast = |more| of_format("video", "<VAST></VAST>", more);
    let good = [
        vast(json!({})),
        vast(json!({ "duration_s": 86_400 })),
        of_format("native", " {} ", json!({})),
    ];
    of.check("/creative", true, &good);
    let bad = [
        vast(json!({ "duration_s": 0 })),
        vast(json!({ "duration_s": 86_401 })),
        vast(json!({ "size": "300x250" })),
        of_format("audio", "<p>", json!({})),
        of_format("native", "<p>", json!({})),
        of_format("native", "{}", json!({ "duration_s": 15 })),
    ];
    of.check("/creative", false, &bad);
}

fn strategies(of: &mut Checker) {
    let ranges: [(&str, &str, &[&str], &[&str]); 15] = [
        ("throttle", "up", &["1.01", "2", "2.0"], &["1", "1.009", "2.01"]),
        ("throttle", "down", &["0.5", "0.99", "0.990"], &["0.49", "0.991", "1"]),
        ("throttle", "start", &["0.0001", "1"], &["0.00009", "0", "1.1"]),
        ("pid", "proportional", &["0", "4.9", "5.0"], &["5.1", "6"]),
        ("pid", "integral", &["0.001", "2"], &["0", "0.0009", "2.1"]),
        ("pid", "derivative", &["0", "2"], &["2.1", "3"]),
        ("pid", "start", &["0.0068", "1"], &["0.0067", "1.1"]),
        (
            "pid",
            "multiplier_max",
            &["0.0068", "1", "99.5", "147.9", "148"],
            &["0.0067", "148.1", "150"],
        ),
        ("adaptive", "step", &["0.01", "99.9", "100"], &["0.009", "100.1", "101"]),
        ("adaptive", "multiplier_max", &["0.0068", "1"], &["1.1", "0"]),
        ("slot_dual", "gain", &["0.01", "1.5", "2"], &["0", "0.009", "2.1"]),
        ("slot_dual", "catch_up", &["0.01", "1"], &["0.009", "1.1"]),
        ("slot_dual", "follow", &["0", "0.3", "1.0"], &["1.1", "-1", ".3", "1e0x"]),
        ("slot_dual", "start", &["0.0068"], &["0.0067"]),
        ("slot_dual", "ahead", &["0", "1"], &["1.1"]),
    ];
    for (name, gain, good, bad) in ranges {
        let with = |value: &&str| json!({ "name": name, gain: value });
        of.check("/strategy", true, &good.iter().map(with).collect::<Vec<_>>());
        of.check("/strategy", false, &bad.iter().map(with).collect::<Vec<_>>());
        of.refused.insert(format!("/strategy/{gain}"));
        of.check("/strategy", false, &[json!({ "name": "asap", gain: "2.5" })]);
    }
    of.texts("/strategy/name", true, &["asap", "even", "throttle", "pid", "adaptive", "slot_dual"]);
    of.texts("/strategy/name", false, &["", "fast"]);
    of.texts("/strategy/pricing", true, &["first_price"]);
    of.texts("/strategy/pricing", false, &["third_price"]);
    of.check("/strategy/gain", false, &[json!(1), json!(0.3)]);
    of.texts("/strategy/gain", true, &["0.3"]); // slot_dual, without its name.
    of.texts("/strategy/up", false, &["1.5"]);
    of.texts("/strategy/forecast", false, &["weather"]);
    let weights = |count: usize, weight: i64| json!(vec![weight; count]);
    of.check("/strategy/forecast_weights", true, &[weights(168, 1)]);
    let bad = [weights(168, 0), weights(167, 1), weights(169, 1), weights(168, -1)];
    of.check("/strategy/forecast_weights", false, &bad);
    let both = json!({ "forecast": "learned", "forecast_weights": weights(168, 1) });
    of.check("/strategy", false, &[both]);
    // Where the price is fixed.
    for (name, want) in
        [("asap", true), ("even", true), ("throttle", true), ("pid", false), ("slot_dual", false)]
    {
        let mut body = campaign();
        body["bid"] = json!({ "price": "1" });
        body["strategy"] = json!({ "name": name });
        of.judge(&format!("a fixed price with {name}"), &body, want);
    }
    let mut body = campaign();
    body["bid"] = json!({ "price": "1" });
    of.judge("a fixed price", &body, true);
    body["strategy"] = json!({ "gain": "0.3" });
    of.judge("a fixed price with a gain of slot_dual", &body, false);
}

/// Bodies that change parts: what each takes and refuses.
#[test]
fn parts() {
    let document = document();
    let check = |name: &str, want: bool, body: &Value| {
        let schema = validator(&document, &document["components"]["schemas"][name]);
        assert_eq!(schema.is_valid(body), want, "{name} {body}");
    };
    check("Budgets", true, &json!({ "budget": "1", "daily_budget": null, "version": 3 }));
    for bad in
        [json!({}), json!({ "budget": "-1" }), json!({ "budget": 1 }), json!({ "paused": true })]
    {
        check("Budgets", false, &bad);
    }
    check("AccountPatch", true, &json!({ "budget": null, "paused": true }));
    check("AccountPatch", false, &json!({ "currency": null }));
    check(
        "CampaignPatch",
        true,
        &json!({ "bid": { "value": null, "price": "1" }, "strategy": null }),
    );
    for bad in [
        json!({ "bid": { "value": "0" } }),
        json!({ "end": null }),
        json!({ "creative": [] }),
        json!({ "targeting": { "countries": ["US"] } }),
        json!({ "strategy": { "up": 1.5 } }),
        json!({ "colour": "red" }),
    ] {
        check("CampaignPatch", false, &bad);
    }
}

#[test]
fn every_operation_has_a_tag_and_every_body_an_example_that_is_valid() {
    let document = document();
    let tags: BTreeSet<_> = document["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| tag["name"].as_str().unwrap())
        .collect();
    assert_eq!(document["security"], json!([{}, { "token": [] }]));
    let mut used = BTreeSet::new();
    let media = |content: &Value, what: &str| {
        for content in content.as_object().into_iter().flat_map(|content| content.values()) {
            let schema = validator(&document, &content["schema"]);
            let errors: Vec<_> =
                schema.iter_errors(&content["example"]).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{what}: {errors:?}");
        }
    };
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let tag = operation["tags"][0].as_str().unwrap_or_else(|| panic!("{method} {path}"));
            used.insert(tag);
            media(&operation["requestBody"]["content"], &format!("{method} {path}"));
        }
    }
    assert_eq!(used, tags);
    for (name, response) in document["components"]["responses"].as_object().unwrap() {
        if response["content"]["application/json"].get("example").is_some() {
            media(&response["content"], name);
        }
    }
    // What a reader would send first is a whole campaign, and the exchange takes it.
    let create = "/paths/~1v1~1campaigns/post/requestBody/content/application~1json/example";
    let example = document.pointer(create).unwrap().as_object().unwrap();
    check_body::<HousePart>(Kind::Campaign, example).unwrap();
}
