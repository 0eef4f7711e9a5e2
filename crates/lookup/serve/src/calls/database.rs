//! Calls to a database: one query, whose rows are records.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http_kit::query::query_values;
use lookup_core::map::{ProviderCall, SqlStatement};
use rustls::ClientConfig;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{CancelToken, Client, Config, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::client::{AnswerLimits, AttemptFailure};

/// An idle connection is closed after this time: each is a process of the server.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A database, and its idle connections.
pub(crate) struct Database {
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
    pub fn new(config: &Config, tls: &Arc<ClientConfig>) -> Rc<Self> {
        let tls = (config.get_ssl_mode() == SslMode::Require)
            .then(|| MakeRustlsConnect::new(ClientConfig::clone(tls)));
        let mut config = config.clone();
        if config.get_application_name().is_none() {
            config.application_name("vickrey");
        }
        let (idle, is_watched) = (RefCell::default(), Cell::default());
        Rc::new(Self { config, tls, idle, is_watched })
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
            let rows = rows(query.client(), call, statement, target, limits.bytes_max).await?;
            self.keep(query.end());
            Ok(Some(rows))
        };
        timeout(limits.timeout, asking).await.unwrap_or(Err(AttemptFailure::TimedOut))
    }

    /// Opens a connection on which nothing can be written, and no query takes longer than a call.
    async fn connect(&self, timeout: Duration) -> Result<DatabaseConnection, Error> {
        let (client, task) = match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                (client, tokio::task::spawn_local(connection).abort_handle())
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                (client, tokio::task::spawn_local(connection).abort_handle())
            }
        };
        let connection = DatabaseConnection { client, task };
        let milliseconds = timeout.as_millis();
        let options = format!(
            "set default_transaction_read_only = on; set statement_timeout = {milliseconds}"
        );
        connection.client.batch_execute(&options).await?;
        Ok(connection)
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
        let (cancel, tls) = (self.cancel.clone(), self.tls.take());
        tokio::task::spawn_local(async move {
            // Otherwise the server would not notice before the query's end.
            let cancelling = async {
                match tls {
                    None => cancel.cancel_query(NoTls).await,
                    Some(tls) => cancel.cancel_query(tls).await,
                }
            };
            drop(timeout(IDLE_TIMEOUT, cancelling).await);
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
) -> Result<Bytes, AttemptFailure> {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let arguments = statement.parameters().into_iter().map(|name| {
        let is_list = call.takes_list(name);
        let form = if is_list { Type::TEXT_ARRAY } else { Type::TEXT };
        (argument(query, name, is_list), form)
    });
    let text = statement.numbered(|name| call.takes_list(name));
    // A comment may be its last line.
    let text = format!("select row_to_json(q)::text from (\n{text}\n) q");
    let rows = client.query_typed_raw(&text, arguments).await?;
    let (mut rows, mut lines) = (pin!(rows), Vec::new());
    while let Some(row) = rows.try_next().await? {
        let line: &str = row.try_get(0)?;
        if bytes_max < lines.len() + line.len() + 1 {
            let text = format!("the answer has more than {bytes_max} bytes");
            return Err(AttemptFailure::Declined(text));
        }
        lines.extend_from_slice(line.as_bytes());
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

impl From<Error> for AttemptFailure {
    /// What an error says of the attempt.
    fn from(error: Error) -> Self {
        let Some(of_server) = error.as_db_error() else {
            // What the connection lacks is said by its cause.
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            return Self::Failed(format!("{error}{}", cause.unwrap_or_default()));
        };
        let (code, text) = (of_server.code(), of_server.message().to_owned());
        if *code == SqlState::QUERY_CANCELED {
            return Self::TimedOut;
        }
        match &code.code()[..2] {
            // Insufficient resources: too many connections, among others.
            "53" => Self::Busy(None, text),
            // Connection exception, transaction rollback, operator intervention, system error.
            "08" | "40" | "57" | "58" | "XX" => Self::Failed(text),
            _ => Self::Declined(text),
        }
    }
}
