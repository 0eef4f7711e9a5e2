//! Two providers know the same files; each answers with JSON records of eight members, of which four
//! become fields.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use lookup_core::map::{MapKey, ProviderCall, ProviderMap, RecordForm, RecordFormat};
use lookup_core::records::{RecordLimits, RecordSchema, merge, read};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::Say;

/// Of the command.
#[derive(Args)]
pub(crate) struct Options {
    /// Records of each of the two answers.
    #[arg(long, default_value_t = 200_000)]
    records: usize,
}

/// Measures, and says how many records each way reads per second.
pub(crate) fn run(options: &Options, say: Say<'_>) -> Result<()> {
    let places = ["site", "origin"];
    let bodies = places.map(|place| body(options.records, place));
    let calls = places.map(call);
    let key = MapKey { name: "file".to_owned(), about: String::new(), primary: "name".to_owned() };
    let map = ProviderMap { keys: vec![key], providers: Vec::new() };
    let count = 2 * options.records;
    let mut tell = |kind: &str, took: Duration| {
        let per_second = count as f64 / took.as_secs_f64();
        say(&json!({ "kind": kind, "records": count, "records_per_second": per_second }))
    };
    tell(
        "skipped",
        timed(|| {
            for body in &bodies {
                black_box(serde_json::from_str::<IgnoredAny>(body)?);
            }
            Ok(())
        })?,
    )?;
    // What is parsed is freed after the time, as records are.
    let mut values = Vec::new();
    tell(
        "values",
        timed(|| {
            for body in &bodies {
                values.push(serde_json::from_str::<Value>(body)?);
            }
            Ok(())
        })?,
    )?;
    drop(values);
    let mut sets = Vec::new();
    let reading = timed(|| {
        for (call, body) in calls.iter().zip(&bodies) {
            let schema = RecordSchema::of(&map, call);
            sets.push(read(&call.form, &schema, body.as_bytes(), RecordLimits::default())?);
        }
        Ok(())
    })?;
    let mut merged = None;
    let merging = timed(|| {
        let answers = (0..).zip(std::mem::take(&mut sets)).collect();
        merged = Some(merge(answers, &["file.name".to_owned()], RecordLimits::default())?);
        Ok(())
    })?;
    let merged = merged.context("it was merged")?;
    anyhow::ensure!(merged.records.len() == options.records, "records are the same by their name");
    tell("read", reading)?;
    tell("merged", merging)?;
    tell("read and merged", reading + merging)
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed())
}

fn body(records: usize, place: &str) -> String {
    let record = |at: usize| {
        let (size, events, adler) = (at * 37, at % 5_000, at * 11);
        format!(
            "{{\"logical_file_name\":\"/store/data/Run2011A/DoubleMu/AOD/v1/{at:08}.root\",\
             \"file_size\":{size},\"event_count\":{events},\"{place}\":\"T1_US_FNAL\",\
             \"check_sum\":\"{at}\",\"adler32\":\"{adler:08x}\",\"file_type\":\"EDM\",\"is_valid\":1}}"
        )
    };
    format!("[{}]", (0..records).map(record).collect::<Vec<_>>().join(","))
}

fn call(place: &str) -> ProviderCall {
    let fields = [
        ("logical_file_name", "file.name"),
        ("file_size", "file.size"),
        ("event_count", "file.events"),
        (place, "file.place"),
    ];
    ProviderCall {
        name: "files".to_owned(),
        gives: vec!["file".to_owned()],
        path: "/files".to_owned(),
        statement: None,
        form: RecordForm {
            format: RecordFormat::Json,
            path: Vec::new(),
            fields: fields.map(|(from, to)| (from.to_owned(), to.to_owned())).to_vec(),
            keeps_others: false,
        },
        parameters: Vec::new(),
        ttl: Duration::ZERO,
        empty_ttl: Duration::ZERO,
        stale_ttl: Duration::ZERO,
        pages: None,
        records_typical: 1,
    }
}
