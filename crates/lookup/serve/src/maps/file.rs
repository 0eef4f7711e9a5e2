//! One file of a provider map.

use std::time::Duration;

use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use lookup_core::map::{
    CallId, CallPages, CallParameter, DATABASE, FOLDER, KeyParameter, LookupProvider, MapKey,
    MapPlace, PageCount, ParameterSource, ProviderCall, ProviderMap, RecordForm, RecordFormat,
    SqlStatement,
};
use runtime::config::{Optional, Required, Secret, Section, ms, secs};
use tokio_postgres::Config as DatabaseConfig;
use url::Url;

/// What a file describes, and where.
#[derive(Debug)]
pub struct MapFile {
    pub(super) map: ProviderMap,
    /// Header fields of requests, by provider.
    pub(super) headers: Vec<HeaderMap>,
    /// How to connect to those that are databases, by provider.
    pub(super) databases: Vec<Option<DatabaseConfig>>,
    pub(super) places: Vec<TablePlace>,
}

/// Where a table is.
#[derive(Clone, Copy, Debug)]
pub(super) struct TablePlace {
    pub place: MapPlace,
    pub line: Option<usize>,
}

/// Reads a file.
pub fn read(s: &mut Section<'_>) -> MapFile {
    let mut places = Vec::new();
    let about = "A key: a kind of things that providers know, and that queries may name.";
    let keys = s.tables("key", about, |s| (read_key(s), s.line()));
    let about =
        "A provider: a service that answers calls over HTTP, a folder of files, or a database.";
    let providers = s.tables("provider", about, |s| (read_provider(s), s.line()));
    if keys.is_empty() && providers.is_empty() {
        s.problem("provider", "…", "the file describes nothing: add a [[provider]] or a [[key]]");
    }
    for (at, (_, line)) in keys.iter().enumerate() {
        places.push(TablePlace { place: MapPlace::Key(at), line: *line });
    }
    let mut map =
        ProviderMap { keys: keys.into_iter().map(|(key, _)| key).collect(), providers: Vec::new() };
    let (mut headers, mut databases) = (Vec::new(), Vec::new());
    for (provider, (read, line)) in providers.into_iter().enumerate() {
        let ReadProvider { provider: mut described, headers: of_provider, database, calls } = read;
        headers.push(of_provider);
        databases.push(database);
        places.push(TablePlace { place: MapPlace::Provider(provider), line });
        for (call, read) in calls.into_iter().enumerate() {
            let id = CallId { provider, call };
            places.push(TablePlace { place: MapPlace::Call(id), line: read.line });
            for (at, line) in read.parameter_lines.into_iter().enumerate() {
                places.push(TablePlace { place: MapPlace::Parameter(id, at), line });
            }
            described.calls.push(read.call);
        }
        map.providers.push(described);
    }
    MapFile { map, headers, databases, places }
}

fn read_key(s: &mut Section<'_>) -> MapKey {
    let about: Option<String> =
        s.text("about", Optional("A file, by its name"), "What it is, for users.");
    MapKey {
        about: about.unwrap_or_default(),
        name: s.text("name", Required("file"), "Name of the key, as queries write it."),
        primary: s.text(
            "primary",
            "name",
            "Attribute that tells one record from another. Records of several providers are merged by it.",
        ),
    }
}

struct ReadProvider {
    provider: LookupProvider,
    headers: HeaderMap,
    database: Option<DatabaseConfig>,
    calls: Vec<ReadCall>,
}

fn read_provider(s: &mut Section<'_>) -> ReadProvider {
    let name = s.text("name", Required("dbs"), "Name of the provider: the `system` of queries.");
    let (instances, database) = read_instances(s, &name);
    let is_required = s.boolean(
        "required",
        false,
        "Whether a query fails if this provider does. Otherwise its records are missing, and the \
         answer says so.",
    );
    let concurrency_max = s.integer(
        "concurrency",
        Optional(8),
        1..=10_000,
        "Maximum number of calls at a time, for each instance. Absent: it is found out; of a database, 8.",
    );
    let rate_max = s.integer(
        "rate",
        Optional(100),
        1..=1_000_000,
        "Maximum number of calls per second, for each instance. Absent: any.",
    );
    let timeout = s.duration(
        "timeout",
        "10s",
        ms(1)..=secs(3_600),
        "Maximum time of a call, until its answer is complete.",
    );
    let headers = s.secret_map(
        "headers",
        &[("authorization", "env:DBS_AUTHORIZATION")],
        |name, value| header(name, &value),
        "Extra header fields for every request. Their values are secrets.",
    );
    let is_database = s.has("database");
    // A limit that is found out would take the connections of others.
    let concurrency_max = concurrency_max.or_else(|| is_database.then_some(DATABASE_CONCURRENCY));
    let calls = s.tables("call", "One question that the provider answers.", |s| {
        let read = read_call(s);
        match (is_database, s.has("sql")) {
            (true, false) => s.problem("sql", "…", "is missing: the provider is a database"),
            (false, true) => s.problem("sql", "…", "is for providers with a `database`"),
            _ => (),
        }
        read
    });
    let calls_of = Vec::new();
    let provider = LookupProvider {
        name,
        instances,
        is_required,
        concurrency_max,
        rate_max,
        timeout,
        calls: calls_of,
    };
    let headers = headers.into_iter().collect();
    ReadProvider { provider, headers, database, calls }
}

/// URLs by instance, the first of them the default, and the database that it is.
fn read_instances(
    s: &mut Section<'_>,
    name: &str,
) -> (Vec<(String, String)>, Option<DatabaseConfig>) {
    let url: Option<String> = s.parsed(
        "url",
        Optional("https://dbs.example.com/api"),
        base_url,
        "URL before the paths of the calls: http, https, or `file:` and a folder of files, relative to \
         this file. A provider has either a `url` or a `database`.",
    );
    let database = read_database(s);
    if s.has("url") == s.has("database") {
        s.problem("url", "…", "a provider has either a `url` or a `database`");
    }
    let url = url.unwrap_or_else(|| format!("{DATABASE}{name}"));
    let instance =
        s.text("instance", "default", "Name of the instance at `url`, which is the default.");
    let others = s.map(
        "instances",
        &[("int/global", "https://int.example.com/api")],
        |name, url| base_url(url).map(|url| (name.to_owned(), url)),
        "URLs of other instances, by name.",
    );
    if s.has("database") && !others.is_empty() {
        s.problem("instances", "…", "a database has no other instances: describe it as a provider");
    }
    if others.iter().any(|(name, _)| *name == instance) {
        s.problem("instances", &instance, "is already the name of the instance at `url`");
    }
    ([(instance, url)].into_iter().chain(others).collect(), database)
}

/// How to connect to the database that a provider is.
fn read_database(s: &mut Section<'_>) -> Option<DatabaseConfig> {
    let text: Option<Secret> = s.secret(
        "database",
        Optional("env:CRM_DATABASE"),
        "Connection string of a PostgreSQL database, in place of `url`: \
         \"postgresql://user:password@host/name\", or \"host=… user=…\". With `sslmode=require`, by TLS with \
         a certificate that is verified; otherwise without TLS.",
    );
    let config = text?.expose().parse().ok();
    let config = config.filter(|config: &DatabaseConfig| !config.get_hosts().is_empty());
    if config.is_none() {
        // What is wrong may be a part of the secret.
        let remedy = "needs the form \"postgresql://user:password@host/name\", or \"host=… user=… dbname=…\", with \
                      a host, and sslmode=require or none";
        s.problem("database", "…", remedy);
    }
    config
}

/// A field of requests.
fn header(name: &str, value: &Secret) -> Result<(HeaderName, HeaderValue), String> {
    let name = HeaderName::from_bytes(name.as_bytes());
    let name = name.map_err(|_| "is not the name of a header field".to_owned())?;
    if [CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING].contains(&name) {
        return Err(format!("`{name}` is set by the client itself"));
    }
    let value = HeaderValue::from_str(value.expose());
    let mut value = value.map_err(|_| "has letters that no header field may have".to_owned())?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// A call, and where it is.
struct ReadCall {
    call: ProviderCall,
    line: Option<usize>,
    parameter_lines: Vec<Option<usize>>,
}

fn read_call(s: &mut Section<'_>) -> ReadCall {
    let line = s.line();
    let name = s.text("name", Required("files"), "Name of the call, unique among the provider's.");
    let gives = s.texts(
        "gives",
        Required(&["file"]),
        |name| Ok(name.to_owned()),
        "Keys of its records. It answers queries that ask for exactly these.",
    );
    let path: Option<String> = s.parsed(
        "path",
        Optional("/files?detail=1"),
        |path| match path.starts_with('/') && !path.contains('#') {
            true => Ok(path.to_owned()),
            false => Err("must begin with `/`, without `#`".to_owned()),
        },
        "Path behind the provider's URL, with a fixed query if it needs one. `{name}` stands for the \
         parameter of this name; other parameters are added to the query. A call has either a `path` or \
         `sql`.",
    );
    let statement: Option<SqlStatement> = s.parsed(
        "sql",
        Optional("select id, segment from users where id = any($user)"),
        |text| SqlStatement::parse(text).map_err(|error| error.to_string()),
        "Query of a database, whose rows are the records. `$name` stands for the parameter of this name: a \
         text, a list of texts if it has a `batch`, or null if the query has no condition on its key.",
    );
    if s.has("path") == s.has("sql") {
        s.problem("path", "…", "a call has either a `path` or `sql`");
    }
    let path = path.unwrap_or_else(|| format!("/{name}"));
    let mut form = read_form(s);
    if statement.is_some() {
        // Whatever else it says: rows are written so.
        form.format = RecordFormat::Ndjson;
    }
    let ttl = s.duration("ttl", "5m", secs(0)..=YEAR, "How long answers count.");
    let empty_ttl =
        s.duration("empty_ttl", "10s", secs(0)..=YEAR, "How long answers without records count.");
    let stale_ttl = s.duration(
        "stale_ttl",
        "0s",
        secs(0)..=YEAR,
        "How long answers are used beyond `ttl`, while new ones are fetched. Answers say so.",
    );
    let records_typical = s.integer(
        "typical",
        100,
        0..=1_000_000_000,
        "About how many records an answer has, until answers have been seen. Plans are estimated by it.",
    );
    let about = "How it gives many records, page by page. A page with fewer records than `size` is the \
                 last. Absent: all at once.";
    let pages = s.table("pages", about, read_pages);
    let about = "A parameter of the call.";
    let parameters = s.tables("parameter", about, |s| (read_parameter(s), s.line()));
    let (parameters, parameter_lines) = parameters.into_iter().unzip();
    let call = ProviderCall {
        name,
        gives,
        path,
        statement,
        form,
        parameters,
        pages,
        ttl,
        empty_ttl,
        stale_ttl,
        records_typical,
    };
    ReadCall { call, line, parameter_lines }
}

fn read_pages(s: &mut Section<'_>) -> CallPages {
    CallPages {
        parameter: s.text("parameter", Required("offset"), "Parameter that says which page."),
        counts: s.one_of(
            "counts",
            "records",
            &[("records", PageCount::Records), ("pages", PageCount::Pages)],
            "What it counts: records of the pages before, from 0, or pages, from 1.",
        ),
        size_parameter: s.text(
            "size_parameter",
            Optional("limit"),
            "Parameter that says how many records a page has. Absent: the provider decides it.",
        ),
        size: s.integer("size", 1_000, 1..=1_000_000_usize, "Number of records of a page."),
        pages_max: s.integer(
            "pages",
            100,
            1..=100_000_usize,
            "Maximum number of pages. Records beyond are missing, and the answer says so.",
        ),
    }
}

/// Calls of a database at a time, unless the file says otherwise.
const DATABASE_CONCURRENCY: u32 = 8;

/// Longest span: a year.
const YEAR: Duration = secs(366 * 86_400);

fn read_form(s: &mut Section<'_>) -> RecordForm {
    let format = s.one_of(
        "format",
        "json",
        &[
            ("json", RecordFormat::Json),
            ("ndjson", RecordFormat::Ndjson),
            ("csv", RecordFormat::Csv),
            ("xml", RecordFormat::Xml),
        ],
        "Format of its answers.",
    );
    let path: Option<String> = s.text(
        "records",
        Optional("result.files"),
        "Names that lead to the records in an answer. Absent: the whole answer is a record, or a list \
         of records.",
    );
    let fields = s.map(
        "fields",
        &[("logical_file_name", "file.name")],
        |from, to| Ok((from.to_owned(), to.to_owned())),
        "Members of a record, or paths such as \"meta.size\", and the fields of queries that they become.",
    );
    let keeps_others = s.boolean(
        "keep_others",
        false,
        "Whether members that `fields` does not name become attributes of the first key of `gives`.",
    );
    let path = path.map_or_else(Vec::new, |path| path.split('.').map(str::to_owned).collect());
    RecordForm { format, path, fields, keeps_others }
}

fn read_parameter(s: &mut Section<'_>) -> CallParameter {
    let name =
        s.text("name", Required("dataset"), "Name of the parameter, as the provider knows it.");
    let value: Option<String> =
        s.text("value", Optional("json"), "Its value, if it is always the same.");
    let key: Option<String> = s.text(
        "key",
        Optional("dataset"),
        "Key whose value it has, or `date`, in seconds since 1970. Each parameter has a `value` or a `key`.",
    );
    let of_key = read_key_parameter(s, key.clone().unwrap_or_default());
    match (value, key) {
        (Some(value), None) => CallParameter { name, source: ParameterSource::Literal(value) },
        (value, key) => {
            if value.is_some() == key.is_some() {
                s.problem("key", "…", "a parameter has either a `key` or a `value`");
            }
            CallParameter { name, source: ParameterSource::Key(of_key) }
        }
    }
}

fn read_key_parameter(s: &mut Section<'_>, key: String) -> KeyParameter {
    let is_required = s.boolean("required", false, "Whether the call needs it.");
    let from = s.text(
        "from",
        Optional("dbs.blocks"),
        "Call that finds its values if the query has no condition on the key, as `provider.call`.",
    );
    let batch = s.integer("batch", 1, 1..=10_000_usize, "Maximum number of values in one call.");
    let joined_by = s.text(
        "join",
        Optional(","),
        "Separator of several values. Absent: the parameter is repeated for each.",
    );
    let takes_patterns = s.boolean("wildcards", false, "Whether values may contain `*`.");
    let pattern = s.text(
        "pattern",
        Optional("/*/*/*"),
        "What values look like; `*` stands for any characters. Absent: anything.",
    );
    let low: Option<String> = s.text(
        "low",
        Optional("run_min"),
        "Name of the parameter for the lowest value of a range. With `high`, the call takes ranges.",
    );
    let high: Option<String> = s.text(
        "high",
        Optional("run_max"),
        "Name of the parameter for the highest value of a range.",
    );
    if low.is_some() != high.is_some() {
        s.problem("low", "…", "`low` and `high` belong together");
    }
    let range = low.zip(high).map(|(low, high)| [low, high]);
    KeyParameter { key, is_required, from, batch, joined_by, takes_patterns, pattern, range }
}

/// A URL that paths can be appended to.
fn base_url(text: &str) -> Result<String, String> {
    if let Some(folder) = text.strip_prefix(FOLDER) {
        let form = "a folder of files needs the form \"file:folder\"";
        let is_url = folder.starts_with("//");
        return if folder.is_empty() || is_url {
            Err(form.to_owned())
        } else {
            Ok(text.to_owned())
        };
    }
    let is_base = |url: &Url| {
        let is_plain = url.query().is_none() && url.fragment().is_none();
        let has_user = !url.username().is_empty() || url.password().is_some();
        matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain && !has_user
    };
    let form = "needs the form \"https://host/path\", without a user, `?` and `#`";
    let url = Url::parse(text).ok().filter(is_base).ok_or(form)?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}
