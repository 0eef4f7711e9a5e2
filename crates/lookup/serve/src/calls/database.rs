//! Calls to a database: one query, whose rows are records.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http_kit::dns::{Resolve as _, SystemNames};
use http_kit::query::query_values;
use lookup_core::map::{ProviderCall, SqlStatement};
use rustls::ClientConfig;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{CancelToken, Client, Config, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::warn;

use super::client::{AnswerLimits, AttemptFailure};

/// An idle connection is closed after this time: each is a process of the server.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest wait until the server is told that a query is not waited for.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// A database, and its idle connections.
pub(crate) struct Database {
    names: Arc<SystemNames>,
    config: Config,
    /// None: without TLS.
    tls: Option<MakeRustlsConnect>,
    idle: RefCell<Vec<IdleConnection>>,
    /// Whether a task closes what is idle for too long.
    is_watched: Cell<bool>,
}

struct IdleConnection {
    connection: DatabaseConnection,
    since: Instant,
}

struct DatabaseConnection {
    client: Client,
    /// Moves its bytes.
    task: AbortHandle,
}

impl Drop for DatabaseConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Database {
    pub fn new(config: &Config, tls: &Arc<ClientConfig>, names: &Arc<SystemNames>) -> Rc<Self> {
        let tls = (config.get_ssl_mode() == SslMode::Require)
            .then(|| MakeRustlsConnect::new(ClientConfig::clone(tls)));
        let mut config = config.clone();
        if config.get_application_name().is_none() {
            config.application_name("vickrey");
        }
        let (idle, is_watched) = (RefCell::default(), Cell::default());
        Rc::new(Self { names: Arc::clone(names), config, tls, idle, is_watched })
    }

    /// Asks the query of a call, with the parameters of its target. Rows are written as lines of JSON, by
    /// the server.
    pub async fn ask(
        self: &Rc<Self>,
        call: &ProviderCall,
        target: &str,
        limits: AnswerLimits,
    ) -> Result<Option<Bytes>, AttemptFailure> {
        let statement = call.statement.as_ref().expect("a call of a database has a query");
        let asking = async {
            let idle = self.idle.borrow_mut().pop();
            let idle = idle.map(|idle| idle.connection).filter(|it| !it.client.is_closed());
            let connection = match idle {
                Some(connection) => connection,
                None => self.connect(limits.timeout).await?,
            };
            let query = RunningQuery::of(self, connection);
            let rows = rows(query.client(), call, statement, target, limits.bytes_max).await;
            let has_ended = match &rows {
                Ok(_) => true,
                // The server has said how it ended.
                Err(QueryFailure::Failed(error)) => error.as_db_error().is_some(),
                Err(QueryFailure::TooLarge) => false,
            };
            if has_ended {
                self.keep(query.end());
            }
            rows.map(Some).map_err(|failure| failure.of_attempt(limits))
        };
        timeout(limits.timeout, asking).await.unwrap_or(Err(AttemptFailure::TimedOut))
    }

    /// Opens a connection on which nothing can be written, and no query takes longer than a call. A pooler
    /// that would lend it to others refuses the options.
    async fn connect(&self, timeout: Duration) -> Result<DatabaseConnection, AttemptFailure> {
        let mut config = self.config.clone();
        let given = config.get_options().unwrap_or_default();
        let milliseconds = timeout.as_millis();
        config.options(format!(
            "{given} -c default_transaction_read_only=on -c statement_timeout={milliseconds}"
        ));
        self.resolve(&mut config).await?;
        let connected = async {
            Ok(match &self.tls {
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    (client, tokio::task::spawn_local(connection).abort_handle())
                }
                Some(tls) => {
                    let (client, connection) = config.connect(tls.clone()).await?;
                    (client, tokio::task::spawn_local(connection).abort_handle())
                }
            })
        };
        let (client, task) = connected.await.map_err(|error| refused_connection(&error))?;
        Ok(DatabaseConnection { client, task })
    }

    /// Resolves a single host. Otherwise the client does it on the threads that read answers.
    async fn resolve(&self, config: &mut Config) -> Result<(), AttemptFailure> {
        let [Host::Tcp(name)] = config.get_hosts() else { return Ok(()) };
        if !config.get_hostaddrs().is_empty() || name.parse::<IpAddr>().is_ok() {
            return Ok(());
        }
        let name = name.clone();
        let failed = |reason| AttemptFailure::Failed(format!("cannot connect: {name}: {reason}"));
        let found = self.names.resolve(&name).await.map_err(failed)?;
        let address = found.first().ok_or_else(|| failed("it has no address".to_owned()))?;
        config.hostaddr(*address);
        Ok(())
    }

    fn keep(self: &Rc<Self>, connection: DatabaseConnection) {
        self.idle.borrow_mut().push(IdleConnection { connection, since: Instant::now() });
        if !self.is_watched.replace(true) {
            tokio::task::spawn_local(Rc::clone(self).close_idle());
        }
    }

    async fn close_idle(self: Rc<Self>) {
        loop {
            sleep(IDLE_TIMEOUT).await;
            let mut idle = self.idle.borrow_mut();
            idle.retain(|idle| idle.since.elapsed() < IDLE_TIMEOUT);
            if idle.is_empty() {
                self.is_watched.set(false);
                return;
            }
        }
    }
}

/// A query under way, which the server is told to end if it is no longer waited for.
struct RunningQuery {
    connection: Option<DatabaseConnection>,
    cancel: CancelToken,
    tls: Option<MakeRustlsConnect>,
}

impl RunningQuery {
    fn of(database: &Database, connection: DatabaseConnection) -> Self {
        let cancel = connection.client.cancel_token();
        Self { connection: Some(connection), cancel, tls: database.tls.clone() }
    }

    fn client(&self) -> &Client {
        &self.connection.as_ref().expect("it has not ended").client
    }

    /// The connection, for others.
    fn end(mut self) -> DatabaseConnection {
        self.connection.take().expect("it ends once")
    }
}

impl Drop for RunningQuery {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        if connection.client.is_closed() {
            return;
        }
        let (cancel, tls) = (self.cancel.clone(), self.tls.take());
        tokio::task::spawn_local(async move {
            // Otherwise the server would not notice before the query's end.
            let cancelling = async {
                match tls {
                    None => cancel.cancel_query(NoTls).await,
                    Some(tls) => cancel.cancel_query(tls).await,
                }
            };
            drop(timeout(CANCEL_TIMEOUT, cancelling).await);
            drop(connection);
        });
    }
}

/// The rows of a query, as lines of JSON.
async fn rows(
    client: &Client,
    call: &ProviderCall,
    statement: &SqlStatement,
    target: &str,
    bytes_max: usize,
) -> Result<Bytes, QueryFailure> {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let arguments = statement.parameters().into_iter().map(|name| {
        let is_list = call.takes_list(name);
        let form = if is_list { Type::TEXT_ARRAY } else { Type::TEXT };
        (argument(query, name, is_list), form)
    });
    let text = statement.numbered(|name| call.takes_list(name));
    // A comment may be its last line. Of a row that is too long, enough comes to see it.
    let text = format!(
        "select left(row_to_json(vickrey_row)::text, {}) from (\n{text}\n) vickrey_row",
        bytes_max.saturating_add(1)
    );
    let rows = client.query_typed_raw(&text, arguments).await?;
    let (mut rows, mut lines) = (pin!(rows), Vec::new());
    while let Some(row) = rows.try_next().await? {
        let line: &str = row.try_get(0)?;
        if bytes_max < lines.len() + line.len() + 1 {
            return Err(QueryFailure::TooLarge);
        }
        // A `json` column comes as it was written, with the ends of its lines.
        lines.extend(line.bytes().map(|byte| if byte == b'\n' { b' ' } else { byte }));
        lines.push(b'\n');
    }
    Ok(lines.into())
}

/// The value of a parameter in a target. Null if it has none.
fn argument(query: &str, name: &str, is_list: bool) -> Box<dyn ToSql + Sync> {
    let mut values = query_values(query, name).map(|value| value.expect("it was encoded here"));
    match is_list {
        false => Box::new(values.next()),
        true => {
            let values: Vec<String> = values.collect();
            Box::new((!values.is_empty()).then_some(values))
        }
    }
}

/// Why a query has no rows.
enum QueryFailure {
    Failed(Error),
    TooLarge,
}

impl From<Error> for QueryFailure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl QueryFailure {
    /// What it says of the attempt.
    fn of_attempt(self, limits: AnswerLimits) -> AttemptFailure {
        let error = match self {
            Self::Failed(error) => error,
            Self::TooLarge => {
                let text = format!("the answer has more than {} bytes", limits.bytes_max);
                return AttemptFailure::Declined(text);
            }
        };
        let Some(of_server) = error.as_db_error() else {
            return AttemptFailure::Failed(with_cause(&error));
        };
        let (code, text) = (of_server.code(), of_server.message().to_owned());
        if *code == SqlState::QUERY_CANCELED {
            return AttemptFailure::TimedOut;
        }
        match class_of(code) {
            // Connection exception, transaction rollback, insufficient resources, operator intervention,
            // system error.
            "08" | "40" | "53" | "57" | "58" | "XX" => AttemptFailure::Failed(text),
            _ => AttemptFailure::Declined(text),
        }
    }
}

/// Why there is no connection. What the server says of it is for operators: it names users and hosts.
fn refused_connection(error: &Error) -> AttemptFailure {
    let Some(of_server) = error.as_db_error() else {
        return AttemptFailure::Failed(format!("cannot connect: {}", with_cause(error)));
    };
    let code = of_server.code();
    let text = format!("the database refuses the connection ({})", code.code());
    match class_of(code) {
        // Too many connections, among others.
        "53" => AttemptFailure::Busy(None, text),
        "57" => AttemptFailure::Failed(text),
        _ => {
            warn!(error = of_server.message(), "a database refuses the connection");
            AttemptFailure::Declined(text)
        }
    }
}

fn class_of(code: &SqlState) -> &str {
    code.code().get(..2).unwrap_or_default()
}

/// What a connection lacks is said by the cause.
fn with_cause(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
