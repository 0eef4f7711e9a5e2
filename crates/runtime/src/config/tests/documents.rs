//! The default file, the schema and the reference page; any default file loads without problems.

use proptest::prelude::*;
use serde_json::json;

use super::super::{
    Optional, Required, Section, default_toml, describe, json_schema, ms, parse,
    reference_markdown, secs,
};
use super::problems_of;

fn declared(s: &mut Section<'_>) {
    s.includes();
    s.section("log", "What is logged.", |s| {
        s.one_of("format", "human", &[("human", 0), ("json", 1)], "How a line is written.");
    });
    s.service("exchange", "The exchange.", |s| {
        s.duration("tmax", "250ms", ms(1)..=secs(10), "Longest auction.");
        s.integers("cores", Optional(&[0, 1]), ..64_usize, "Where shards run.");
        s.renamed("timeout", "tmax");
        s.tables("dsp", "A demand-side platform to ask.", |s| {
            s.text("id", Required("dsp-1"), "Its name | unique.");
            s.map("headers", &[("x-key", "1")], |_, _| Ok(()), "Sent along.");
            s.secret("token", Optional("env:DSP_TOKEN"), "Opens it.");
            let example = &[("authorization", "file:dsp-1.key")];
            s.secret_map("credentials", example, |_, _| Ok(()), "Sent along, unseen.");
        });
    });
    s.boolean("strict", true, "Root keys come first.");
}

#[test]
fn default_file() {
    let want = r#"# Files to include; paths are relative to this file. The last part of a path may contain `*`, and
# matching files are read in the order of their names. Repeated tables append, other tables merge,
# and no key may be set twice. (optional: a list of strings)
#include = ["dsps.d/*.toml", "rates.toml"]

# Root keys come first. (true or false)
strict = true

# What is logged.
[log]

# How a line is written. ("human" or "json")
format = "human"

# The exchange.
[exchange]

# Longest auction. (a duration, from 1ms to 10s)
tmax = "250ms"

# Where shards run. (optional: a list of whole numbers, each at most 63)
#cores = [0, 1]

# A demand-side platform to ask.
#[[exchange.dsp]]

# Its name | unique. (required: text)
#id = "dsp-1"

# Sent along. (optional: a table of strings)
#headers = { "x-key" = "1" }

# Opens it. (optional: a secret)
#token = "env:DSP_TOKEN"

# Sent along, unseen. (optional: a table of secrets)
#credentials = { "authorization" = "file:dsp-1.key" }
"#;
    assert_eq!(default_toml(&describe(declared)), want);
}

#[test]
fn reference() {
    let want = r#"| key | value | default | meaning |
|---|---|---|---|
| `include` | a list of strings | none; e.g. `["dsps.d/*.toml", "rates.toml"]` | Files to include; paths are relative to this file. The last part of a path may contain `*`, and matching files are read in the order of their names. Repeated tables append, other tables merge, and no key may be set twice. |
| `strict` | true or false | `true` | Root keys come first. |

## `[log]`

What is logged.

| key | value | default | meaning |
|---|---|---|---|
| `format` | "human" or "json" | `"human"` | How a line is written. |

## `[exchange]`

The exchange. Its presence switches the service on.

| key | value | default | meaning |
|---|---|---|---|
| `tmax` | a duration, from 1ms to 10s | `"250ms"` | Longest auction. |
| `cores` | a list of whole numbers, each at most 63 | none; e.g. `[0, 1]` | Where shards run. |
| `timeout` | | | Renamed: write `tmax`. |

## `[[exchange.dsp]]`

A demand-side platform to ask. Optional; may be repeated.

| key | value | default | meaning |
|---|---|---|---|
| `id` | text | **required**; e.g. `"dsp-1"` | Its name \| unique. |
| `headers` | a table of strings | none; e.g. `{ "x-key" = "1" }` | Sent along. |
| `token` | a secret | none; e.g. `"env:DSP_TOKEN"` | Opens it. |
| `credentials` | a table of secrets | none; e.g. `{ "authorization" = "file:dsp-1.key" }` | Sent along, unseen. |
"#;
    assert_eq!(reference_markdown(&describe(declared)), want);
}

#[test]
fn schema() {
    let schema = json_schema(&describe(declared));
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["properties"]["include"]["items"], json!({ "type": "string" }));
    let exchange = &schema["properties"]["exchange"];
    assert_eq!(exchange["additionalProperties"], false);
    assert_eq!(
        exchange["properties"]["tmax"],
        json!({
            "type": "string",
            "pattern": r"^[0-9]+(\.[0-9]+)? *(us|ms|s|m|h)$",
            "default": "250ms",
            "description": "Longest auction.",
        })
    );
    assert_eq!(exchange["properties"]["cores"]["items"]["maximum"], 63);
    assert_eq!(exchange["properties"]["timeout"], json!(null));
    let dsp = &exchange["properties"]["dsp"];
    assert_eq!(dsp["type"], "array");
    assert_eq!(dsp["items"]["required"], json!(["id"]));
    assert_eq!(dsp["items"]["properties"]["token"]["type"], "string");
    assert_eq!(dsp["items"]["properties"]["credentials"]["type"], "object");
    assert_eq!(
        schema["properties"]["log"]["properties"]["format"]["enum"],
        json!(["human", "json"])
    );
}

/// A random declaration: a number selects the kind of each key and the nesting.
fn declare(s: &mut Section<'_>, kinds: &[u8], depth: usize) {
    const NAMES: [&str; 16] =
        ["a", "b", "c-d", "e_f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r"];
    const DOC: &str = "Words # of \"documentation\" that go on for so long that a comment has to \
                       be broken over several lines, = and [all].";
    for (at, (kind, key)) in kinds.iter().zip(NAMES).enumerate() {
        let rest = if depth < 4 { &kinds[at + 1..] } else { &[] };
        match kind % 22 {
            0 => drop(s.text(key, "quotes \" and \\ and \n newline", DOC)),
            1 => drop(s.text(key, Required("é"), DOC)),
            2 => drop(s.boolean(key, Optional(true), DOC)),
            3 => drop(s.integer::<u16, _>(key, 7, 7..=7, DOC)),
            4 => drop(s.duration(key, "0ms", .., DOC)),
            5 => drop(s.bytes(key, Optional("1GiB"), .., DOC)),
            6 => drop(s.ppm(key, Required("0.0001%"), DOC)),
            7 => drop(s.price(key, "0 USD", DOC)),
            8 => drop(s.currency(key, Optional("EUR"), DOC)),
            9 => drop(s.socket_address(key, "[::]:0", DOC)),
            10 => drop(s.url(key, Required("http://[::1]/?a=b"), DOC)),
            11 => drop(s.one_of(key, "x", &[("x", 1)], DOC)),
            12 => drop(s.texts(key, &[], |text| Ok(text.to_owned()), DOC)),
            13 => drop(s.integers::<u8, _>(key, Required(&[1, 2]), .., DOC)),
            14 => drop(s.map(key, &[("a b", "\"")], |_, _| Ok(()), DOC)),
            15 => s.renamed(key, "elsewhere"),
            16 => s.section(key, DOC, |s| declare(s, rest, depth + 1)),
            17 => drop(s.service(key, DOC, |s| declare(s, rest, depth + 1))),
            18 => drop(s.table(key, DOC, |s| declare(s, rest, depth + 1))),
            19 => drop(s.secret(key, Optional("env:X"), DOC)),
            20 => drop(s.secret_map(key, &[("a b", "file:x")], |_, _| Ok(()), DOC)),
            _ => drop(s.tables(key, DOC, |s| declare(s, rest, depth + 1))),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn default_file_loads_clean(kinds in proptest::collection::vec(any::<u8>(), 0..16)) {
        let read = |s: &mut Section<'_>| declare(s, &kinds, 0);
        let keys = describe(read);
        let text = default_toml(&keys);
        prop_assert_eq!(problems_of(&text, read), Vec::<String>::new(), "{}", text);

        // Commented-out lines are valid too, unless they refer to files or variables.
        let reaches_out = |line: &str| {
            line.contains("env:") || line.contains("file:")
        };
        let uncommented = |line: &str| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') && !reaches_out(rest) => rest.to_owned(),
            _ => line.to_owned(),
        };
        let all = text.lines().map(uncommented).collect::<Vec<_>>().join("\n");
        prop_assert_eq!(problems_of(&all, read), Vec::<String>::new(), "{}", all);
        json_schema(&keys);
        reference_markdown(&keys);
    }

    #[test]
    fn hostile_text_is_reported(text in "[a-c\\[\\]{}=\"'#,.\n0-9 \\\\\u{0}é-]{0,80}") {
        let read = |s: &mut Section<'_>| declare(s, &[21, 17, 14, 12, 0, 1, 4, 19, 20], 0);
        if let Err(problems) = parse("hostile.toml", &text, read) {
            prop_assert!(problems.count() > 0);
            prop_assert!(problems.to_string().contains("hostile.toml"));
        }
    }
}
