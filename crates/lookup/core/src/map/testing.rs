//! A small map: files in blocks in datasets, known by two providers.

use std::time::Duration;

use super::model::{
    CallParameter, KeyParameter, LookupProvider, MapKey, ParameterSource, ProviderCall,
    ProviderMap, RecordForm, RecordFormat,
};

/// A parameter that takes one value of a key.
pub(crate) fn takes(key: &str) -> KeyParameter {
    KeyParameter {
        key: key.to_owned(),
        is_required: false,
        from: None,
        batch: 1,
        joined_by: None,
        takes_patterns: false,
        pattern: None,
        range: None,
    }
}

/// One that the call needs.
pub(crate) fn needs(key: &str) -> KeyParameter {
    KeyParameter { is_required: true, ..takes(key) }
}

/// A call; of each key it gives the name.
pub(crate) fn call(name: &str, gives: &[&str], parameters: Vec<KeyParameter>) -> ProviderCall {
    let of_key = |key: KeyParameter| CallParameter {
        name: key.key.clone(),
        source: ParameterSource::Key(key),
    };
    let fields = gives.iter().map(|key| (format!("{key}_name"), format!("{key}.name")));
    ProviderCall {
        name: name.to_owned(),
        gives: gives.iter().map(|key| (*key).to_owned()).collect(),
        path: format!("/{name}"),
        statement: None,
        form: RecordForm {
            format: RecordFormat::Json,
            path: Vec::new(),
            fields: fields.collect(),
            keeps_others: false,
        },
        parameters: parameters.into_iter().map(of_key).collect(),
        ttl: Duration::from_secs(60),
        empty_ttl: Duration::from_secs(5),
        stale_ttl: Duration::ZERO,
        pages: None,
        records_typical: 100,
    }
}

/// A provider with these calls.
pub(crate) fn provider(name: &str, calls: Vec<ProviderCall>) -> LookupProvider {
    LookupProvider {
        name: name.to_owned(),
        instances: vec![("default".to_owned(), format!("http://{name}.example"))],
        is_required: false,
        concurrency_max: None,
        rate_max: None,
        timeout: Duration::from_secs(10),
        calls,
    }
}

/// A key whose records have a name.
pub(crate) fn key(name: &str) -> MapKey {
    MapKey { name: name.to_owned(), about: String::new(), primary: "name".to_owned() }
}

/// `dbs` knows datasets, blocks, files, runs and lumis; `rucio` blocks and their files.
pub(crate) fn physics() -> ProviderMap {
    let path = |parameter| KeyParameter { pattern: Some("/*/*/*".to_owned()), ..parameter };
    let patterns = |parameter| KeyParameter { takes_patterns: true, ..path(parameter) };
    let range = Some(["run_min", "run_max"].map(str::to_owned));
    let run = KeyParameter { range, batch: 100, ..takes("run") };
    let date =
        KeyParameter { range: Some(["after", "before"].map(str::to_owned)), ..takes("date") };
    let block = |from: &str| KeyParameter { from: Some(from.to_owned()), ..needs("block") };
    let batched = KeyParameter { batch: 10, ..block("dbs.blocks") };
    let mut dbs = provider(
        "dbs",
        vec![
            call("datasets", &["dataset"], vec![patterns(takes("dataset")), date.clone()]),
            call("blocks", &["block"], vec![path(needs("dataset")), run.clone()]),
            call("files", &["file"], vec![path(needs("dataset")), run, date]),
            call("filelumis", &["file", "run", "lumi"], vec![batched]),
        ],
    );
    let int = ("int".to_owned(), "http://int.example".to_owned());
    dbs.instances.push(int);
    let rucio = provider(
        "rucio",
        vec![
            call("blocks", &["block"], vec![path(needs("dataset"))]),
            call("files", &["file"], vec![block("rucio.blocks")]),
            call("replicas", &["file", "site"], vec![needs("file")]),
        ],
    );
    let keys = ["dataset", "block", "file", "run", "lumi", "site"].map(key).to_vec();
    ProviderMap { keys, providers: vec![dbs, rucio] }
}
