//! A PostgreSQL server as a provider: the distribution's own.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixtures::*;

/// Where the server's programs are. None if it is not installed.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let of_debian = versions.map(|version| version.expect("a folder").path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = of_debian.chain(std::env::split_paths(&path));
    folders.find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
}

/// Whom a program runs as: not as root, which the server refuses.
fn user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().expect("`id` is a program");
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    };
    let is_root = id(&["-u"]) == Some(0);
    is_root.then(|| {
        (id(&["-u", "postgres"]).expect("a user"), id(&["-g", "postgres"]).expect("a group"))
    })
}

struct Postgres {
    server: Child,
    address: SocketAddr,
    programs: PathBuf,
    user: Option<(u32, u32)>,
    /// None while another server takes it over.
    data: Option<TempDir>,
}

impl Postgres {
    /// None if it is not installed: then the test is skipped, which stderr says.
    fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            let why = "SKIPPED: there is no PostgreSQL server here\n";
            std::io::stderr().write_all(why.as_bytes()).expect("stderr is open");
            return None;
        };
        let (data, user) = (tempfile::tempdir().expect("a folder"), user());
        if let Some((user, group)) = user {
            chown(data.path(), Some(user), Some(group)).expect("root may");
        }
        let mut initialise = command(&programs.join("initdb"), user);
        initialise.args([
            "--auth=trust",
            "--username=tester",
            "--no-sync",
            "--encoding=UTF8",
            "-D",
        ]);
        let output = initialise.arg(data.path()).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        let mut postgres = Self::serve(&programs, user, data);
        // Its port may have been taken meanwhile.
        while !postgres.is_ready() {
            let data = postgres.data.take().expect("it is there until the end");
            postgres = Self::serve(&programs, user, data);
        }
        postgres.sql(
            "create table users (id text, segment text, since timestamptz, score bigint);
             insert into users select 'u' || n, 'it''s ' || n % 3, to_timestamp(n * 60), n * 1e12::bigint
             from generate_series(1, 100) n",
        );
        Some(postgres)
    }

    fn serve(programs: &Path, user: Option<(u32, u32)>, data: TempDir) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let address = address.expect("a free port");
        let mut server = command(&programs.join("postgres"), user);
        server.arg("-D").arg(data.path()).args(["-c", "fsync=off", "-h", "127.0.0.1", "-k", ""]);
        server.args(["-c", "max_connections=12", "-p", &address.port().to_string()]);
        let server = server.stderr(Stdio::null()).spawn().expect("it runs");
        Self { server, address, programs: programs.to_owned(), user, data: Some(data) }
    }

    /// Waits until it answers. False if it has ended.
    fn is_ready(&mut self) -> bool {
        let mut has_ended = false;
        until("the server answers or has ended", || {
            has_ended = self.server.try_wait().expect("it is a child").is_some();
            has_ended || self.try_sql("select 1").is_some()
        });
        !has_ended
    }

    /// What a statement gives, by the server's own client.
    fn try_sql(&self, sql: &str) -> Option<String> {
        let mut client = command(&self.programs.join("psql"), self.user);
        if !self.programs.join("psql").is_file() {
            client = command(Path::new("psql"), self.user);
        }
        client.args(["-h", "127.0.0.1", "-U", "tester", "-d", "postgres", "-p"]);
        client.args([&self.address.port().to_string(), "-qtAc", sql]).stderr(Stdio::null());
        let output = client.output().expect("it runs");
        output.status.success().then(|| String::from_utf8(output.stdout).expect("a text"))
    }

    fn sql(&self, sql: &str) -> String {
        self.try_sql(sql).expect("it is a statement").trim().to_owned()
    }

    /// Look-ups of `user`, by a call with this query and these keys.
    fn lookups(&self, sql: &str, keys: &str, parameters: &str) -> Lookups {
        self.lookups_by("", sql, keys, parameters)
    }

    /// The same, with more in the connection string.
    fn lookups_by(&self, connection: &str, sql: &str, keys: &str, parameters: &str) -> Lookups {
        let secret = self.data.as_ref().expect("it runs").path().join("connection");
        let text = format!(
            "host=127.0.0.1 port={} user=tester dbname=postgres {connection}",
            self.address.port()
        );
        std::fs::write(&secret, text).expect("a file");
        let map = format!(
            "[[key]]\nname = \"user\"\nprimary = \"id\"\n\
             [[provider]]\nname = \"crm\"\ndatabase = \"file:{}\"\n{keys}\n[[provider.call]]\n\
             name = \"users\"\ngives = [\"user\"]\nsql = \"\"\"{sql}\"\"\"\nttl = \"0s\"\n\
             empty_ttl = \"0s\"\nfields = {{ id = \"user.id\", segment = \"user.segment\", score = \"user.score\" }}\n\
             {parameters}",
            secret.display()
        );
        Lookups::start(&map, "timeout = \"20s\"")
    }

    /// Connections of look-ups.
    fn connections(&self) -> u64 {
        let sql = "select count(*) from pg_stat_activity where application_name = 'vickrey'";
        self.sql(sql).parse().expect("a number")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.server.try_wait().expect("it is a child").is_some() {
            return;
        }
        // At once, its processes with it.
        let stopped = Command::new("kill").args(["-QUIT", &self.server.id().to_string()]).status();
        stopped.expect("`kill` is a program");
        self.server.wait().expect("it ends");
    }
}

fn command(program: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").stdin(Stdio::null());
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    command
}

const BY_ID: &str = "select id, segment, score from users where id = any($user)
    and ($segment is null or segment = $segment) -- or not";

const USER: &str =
    "[[provider.call.parameter]]\nname = \"user\"\nkey = \"user\"\nrequired = true\nbatch = 50\n";

const SEGMENT: &str = "[[provider.call.parameter]]\nname = \"segment\"\nkey = \"segment\"\n\
                       [[key]]\nname = \"segment\"\n";

#[test]
fn rows_of_a_database_are_records() {
    let Some(postgres) = Postgres::start() else { return };
    let lookups = postgres.lookups(BY_ID, "", &[USER, SEGMENT].concat());
    let rows = |query: &str| {
        let answer = lookups.query(query, "");
        assert_eq!(answer["status"], "done", "{answer}");
        let rows = answer["rows"].as_array().expect("a list").iter();
        rows.map(|row| row["record"]["user"].clone()).collect::<Vec<_>>()
    };
    let seven = json!({ "id": "u7", "segment": "it's 1", "score": 7_000_000_000_000_u64 });
    assert_eq!(rows("user user=u7"), std::slice::from_ref(&seven));
    assert_eq!(rows("user user in [u7, u8, nobody] segment=\"it's 1\""), [seven]);
    assert_eq!(rows("user user=nobody"), [Value::Null; 0]);
    // A value is a value, whatever is in it.
    assert_eq!(rows("user user=\"u7') or true --\""), [Value::Null; 0]);
    let many: Vec<_> = (1..=100).map(|n| format!("u{n}")).collect();
    assert_eq!(rows(&format!("user user in [{}]", many.join(", "))).len(), 100);
    assert!(postgres.connections() <= 2, "two calls at a time at most");
}

#[test]
fn a_connection_survives_errors_and_lines_survive_json() {
    let Some(postgres) = Postgres::start() else { return };
    let sql = "select id, '[1,\n2]'::json as segment, score / (id <> 'u1')::int as score, q
        from (select *, 1 as q from users) q where id = any($user)";
    let lookups = postgres.lookups(sql, "", USER);
    let backend = || {
        postgres.sql("select string_agg(pid::text, ' ') from pg_stat_activity where application_name = 'vickrey'")
    };
    let good = lookups.query("user user=u2", "");
    assert_eq!(good["rows"][0]["record"]["user"]["segment"], json!([1, 2]), "{good}");
    let before = backend();
    let bad = lookups.query("user user=u1", "");
    assert_eq!(bad["providers"][0]["reason"], "division by zero");
    lookups.query("user user=u3", "");
    assert_eq!(backend(), before, "the same connection");
}

#[test]
fn a_range_and_pages_are_parameters() {
    let Some(postgres) = Postgres::start() else { return };
    let sql = "select id, segment, score from users where since between to_timestamp($low::bigint) and \
        to_timestamp($high::bigint) order by since limit $most::int offset $skip::int";
    let lookups = postgres.lookups(
        sql,
        "",
        "[provider.call.pages]\nparameter = \"skip\"\nsize_parameter = \"most\"\nsize = 7\n\
         [[provider.call.parameter]]\nname = \"when\"\nkey = \"date\"\nlow = \"low\"\nhigh = \"high\"\nrequired = true\n",
    );
    let answer =
        lookups.query("user date between [\"19700101 00:10:00\", \"19700101 00:30:00\"]", "");
    assert_eq!((&answer["status"], &answer["total"]), (&json!("done"), &json!(21)), "{answer}");
    // A single value is a range of one.
    let one = lookups.query("user date=\"19700101 00:10:00\"", "");
    assert_eq!(
        (&one["total"], &one["rows"][0]["record"]["user"]["id"]),
        (&json!(1), &json!("u10"))
    );
}

#[test]
fn a_query_that_is_not_waited_for_is_cancelled() {
    let Some(postgres) = Postgres::start() else { return };
    let sql = "select id, segment, score from users, pg_sleep(60) where id = any($user)";
    let lookups = postgres.lookups(sql, "timeout = \"60s\"", USER);
    let running = "select count(*) from pg_stat_activity where state = 'active' and query like '%pg_sleep%' \
                   and application_name = 'vickrey'";
    let id = lookups.begin("user user=u1");
    until("it runs", || postgres.sql(running) == "1");
    send(lookups.address, "DELETE", &format!("/lookup/{id}"), &[], "");
    until("it runs no more", || postgres.sql(running) == "0");
    until("its connection is closed", || postgres.connections() == 0);
}

#[test]
fn what_is_wrong_with_a_query_is_said_and_nothing_is_written() {
    let Some(postgres) = Postgres::start() else { return };
    for (sql, keys, state, reason) in [
        ("select id from nowhere where id = any($user)", "", "error", "\"nowhere\" does not exist"),
        (
            "select id, $user::bigint[] from users",
            "",
            "error",
            "invalid input syntax for type bigint: \"u1\"",
        ),
        (
            "select id, nextval('s') from users where id = any($user)",
            "",
            "error",
            "cannot execute nextval() in a read-only transaction",
        ),
        (
            "select id, pg_sleep(60) from users where id = any($user)",
            "timeout = \"200ms\"",
            "timeout",
            "no answer within 200ms",
        ),
        (
            "select id, repeat('x', 100000000) from users where id = any($user)",
            "",
            "error",
            "the answer has more than",
        ),
    ] {
        postgres.sql("create sequence if not exists s");
        let lookups = postgres.lookups(sql, keys, USER);
        let answer = lookups.query("user user=u1", "");
        assert_eq!(states(&answer), [state], "{sql}: {answer}");
        let said = answer["providers"][0]["reason"].as_str().expect("a text");
        assert!(said.contains(reason), "{sql}: {said}");
    }
    assert_eq!(postgres.sql("select is_called from s"), "f");
    // Not without TLS where that is required.
    let lookups = postgres.lookups_by("sslmode=require", BY_ID, "", &[USER, SEGMENT].concat());
    let answer = lookups.query("user user=u1", "&timeout=2s");
    let said = answer["providers"][0]["reason"].as_str().expect("a text");
    assert!(said.contains("server does not support TLS"), "{said}");
    // What the server says of a refused connection is for operators.
    let lookups = postgres.lookups_by("dbname=secrets", BY_ID, "", &[USER, SEGMENT].concat());
    let answer = lookups.query("user user=u1", "");
    assert_eq!(answer["providers"][0]["reason"], "the database refuses the connection (3D000)");
    // Without a server.
    let lookups = postgres.lookups(BY_ID, "", &[USER, SEGMENT].concat());
    drop(postgres);
    let answer = lookups.query("user user=u1", "&timeout=2s");
    let said = answer["providers"][0]["reason"].as_str().expect("a text");
    assert!(
        said.contains("cannot connect: error connecting to server: Connection refused"),
        "{said}"
    );
}
