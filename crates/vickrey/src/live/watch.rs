//! `vickrey watch`: follows the feed in a terminal, and resumes after a disconnection.

use std::io::{self, IsTerminal as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use rand::RngExt as _;
use serde_json::{Map, Value, json};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::{Error, Message, WebSocket};

use super::line;
use crate::command::exit::{CommandFailure, Exit};
use crate::peers::long_run::{parse_duration, progress_bar, stop_on_signal};

/// How often signals are noticed while nothing comes.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// The longest wait before another attempt.
const RETRY_MAX: Duration = Duration::from_secs(10);

/// Follow the live feed: auctions as they clear
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WatchArgs {
    /// Which messages, as for `vickrey log`: terms such as seat=acme, outcome=won, sample=10000
    filter: Vec<String>,
    /// The live floor's listener
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7200")]
    at: String,
    /// Topic to follow: auctions, wins, fates, deals, campaigns, lots, system, or a declared one;
    /// repeatable. The filter applies to those about auctions
    #[arg(long = "topic", value_name = "TOPIC", default_value = "auctions")]
    topics: Vec<String>,
    /// The token, unless the server trusts this machine
    #[arg(long, env = "VICKREY_LIVE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,
    /// Begin behind this position (epoch-sequence) instead of now; 0-0 is the beginning of the record
    #[arg(long, value_name = "POSITION")]
    after: Option<String>,
    /// Skip messages when the terminal is too slow, instead of being disconnected and resuming
    #[arg(long)]
    conflate: bool,
    /// End after this many messages
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Print each message of the server as JSON, one per line
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  vickrey watch                                      every auction
  vickrey watch outcome=filled publisher=news        those that sold something there
  vickrey watch --topic fates seat=acme              what becomes of a seat's bids
  vickrey watch --topic wins --json | jq .data.sales
  vickrey watch --after 0-0 --count 100              the first hundred of the record";

/// What was seen, and from where to resume.
struct WatchState {
    /// Position behind which each topic resumes.
    after: Map<String, Value>,
    messages: u64,
    /// Whether a server was there before.
    has_connected: bool,
    /// Messages, and when they began to be counted, for the rate.
    rated: (u64, Instant),
    progress: ProgressBar,
}

/// Why a connection ended.
enum WatchEnd {
    /// As asked.
    Done,
    /// It may be opened again.
    Lost(String),
}

pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<Exit> {
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(Arc::clone(&stop))?;
    let mut state = WatchState {
        after: Map::new(),
        messages: 0,
        has_connected: false,
        rated: (0, Instant::now()),
        progress: progress_bar(None, "{spinner} {msg}"),
    };
    if args.json || !io::stdout().is_terminal() {
        state.progress.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    if let Some(after) = &args.after {
        let position = parse_position(after).map_err(CommandFailure::usage)?;
        state.after.extend(args.topics.iter().map(|topic| (topic.clone(), position.clone())));
    }
    let ends_at = args.duration.map(|duration| Instant::now() + duration);
    let is_over =
        || stop.load(Ordering::Relaxed) || ends_at.is_some_and(|ends_at| Instant::now() >= ends_at);
    let mut wait = Duration::from_millis(200);
    loop {
        let seen = state.messages;
        match follow(args, &mut state, &is_over)? {
            WatchEnd::Done => return Ok(Exit::Done),
            WatchEnd::Lost(why) => state.progress.set_message(format!("{why}; connecting again")),
        }
        if state.messages > seen {
            wait = Duration::from_millis(200);
        }
        // Not all at once after a restart of the server.
        let pause = wait.mul_f64(rand::rng().random_range(0.5..1.0));
        let until = Instant::now() + pause;
        while Instant::now() < until {
            if is_over() {
                return Ok(Exit::Done);
            }
            std::thread::sleep(LOOK_EVERY.min(pause));
        }
        wait = (wait * 2).min(RETRY_MAX);
    }
}

/// Reads `epoch-sequence`.
fn parse_position(text: &str) -> Result<Value, String> {
    let numbers = text.split_once('-').and_then(|(epoch, sequence)| {
        Some((epoch.parse::<u64>().ok()?, sequence.parse::<u64>().ok()?))
    });
    let (epoch, sequence) = numbers
        .ok_or_else(|| format!("--after {text}: a position is `epoch-sequence`, as 3-1700"))?;
    Ok(json!({ "epoch": epoch, "sequence": sequence }))
}

fn follow(
    args: &WatchArgs,
    state: &mut WatchState,
    is_over: &dyn Fn() -> bool,
) -> anyhow::Result<WatchEnd> {
    let mut socket = match connect(args) {
        Ok(socket) => socket,
        // The first attempt says what is wrong; later ones wait for the server to come back.
        Err(error) if !state.has_connected => return Err(error),
        Err(error) => return Ok(WatchEnd::Lost(error.to_string())),
    };
    state.has_connected = true;
    for topic in &args.topics {
        let filter = if is_of_auctions(topic) { args.filter.join(" ") } else { String::new() };
        let policy = if args.conflate { "conflate" } else { "strict" };
        let mut command =
            json!({ "op": "subscribe", "topic": topic, "filter": filter, "policy": policy });
        if let Some(after) = state.after.get(topic) {
            command["after"] = after.clone();
        }
        if let Err(error) = socket.send(Message::text(command.to_string())) {
            return Ok(WatchEnd::Lost(error.to_string()));
        }
    }
    let mut is_sure = false;
    loop {
        if is_over() {
            let _left = socket.close(None);
            return Ok(WatchEnd::Done);
        }
        state.show_rate();
        let text = match socket.read() {
            Ok(Message::Text(text)) => text,
            Ok(Message::Close(frame)) => {
                let reason = frame.map_or_else(String::new, |frame| frame.reason.to_string());
                return Ok(WatchEnd::Lost(format!("the server closed the connection: {reason}")));
            }
            Ok(_) => continue,
            Err(Error::Io(error)) if is_timeout(&error) => continue,
            Err(error) => return Ok(WatchEnd::Lost(error.to_string())),
        };
        let message: Value = serde_json::from_str(&text)?;
        if message["type"] == "error" && !is_sure {
            let words = message["message"].as_str().unwrap_or_default();
            return Err(CommandFailure::usage(format!("the server refuses: {words}")));
        }
        is_sure |= message["type"] == "message";
        if !state.take(args, &text, &message)? {
            let _left = socket.close(None);
            return Ok(WatchEnd::Done);
        }
    }
}

fn is_of_auctions(topic: &str) -> bool {
    ["auctions", "wins", "fates", "deals", "campaigns"].contains(&topic)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn connect(args: &WatchArgs) -> anyhow::Result<WebSocket<TcpStream>> {
    let at = &args.at;
    let unreachable = |error: &dyn std::fmt::Display| {
        CommandFailure::unavailable(format!(
            "no live floor at {at}: {error}; see `live.listen` in its configuration"
        ))
    };
    let address = std::net::ToSocketAddrs::to_socket_addrs(at)
        .map_err(|error| unreachable(&error))?
        .next()
        .ok_or_else(|| unreachable(&"the name has no address"))?;
    let stream = TcpStream::connect_timeout(&address, CONNECT_WITHIN);
    let stream = stream.map_err(|error| unreachable(&error))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(CONNECT_WITHIN))?;
    let mut request = format!("ws://{at}/feed").into_client_request()?;
    if let Some(token) = &args.token {
        let bearer = format!("Bearer {}", token.trim());
        let bearer = bearer.parse().map_err(|_| CommandFailure::usage("the token is not ASCII"))?;
        request.headers_mut().insert("authorization", bearer);
    }
    let socket = match tungstenite::client(request, stream) {
        Ok((socket, _)) => socket,
        Err(tungstenite::HandshakeError::Failure(Error::Http(response))) => {
            let body = response.body().as_deref().unwrap_or_default();
            let error: Value = serde_json::from_slice(body).unwrap_or_default();
            let words = error["message"].as_str().unwrap_or("it speaks another protocol");
            let status = response.status();
            return Err(CommandFailure::unavailable(format!("{at} answers {status}: {words}")));
        }
        Err(error) => return Err(unreachable(&error)),
    };
    socket.get_ref().set_read_timeout(Some(LOOK_EVERY))?;
    Ok(socket)
}

impl WatchState {
    /// Prints a message and remembers its position; returns whether to go on.
    fn take(&mut self, args: &WatchArgs, text: &str, message: &Value) -> anyhow::Result<bool> {
        if let Some(topic) = message["topic"].as_str() {
            let position = match message["type"].as_str() {
                Some("message" | "gap") => {
                    let [epoch, sequence, part] =
                        ["epoch", "sequence", "part"].map(|name| &message[name]);
                    json!({ "epoch": epoch, "sequence": sequence, "part": part })
                }
                Some("heartbeat") => message["covered"].clone(),
                Some("subscribed") => message["after"].clone(),
                _ => Value::Null,
            };
            if !position.is_null() {
                self.after.insert(topic.to_owned(), position);
            }
        }
        let line = if args.json { Some(text.to_owned()) } else { line::message(message) };
        if let Some(line) = line {
            self.progress.suspend(|| writeln!(io::stdout(), "{line}"))?;
        }
        self.messages += u64::from(message["type"] == "message");
        Ok(args.count.is_none_or(|count| self.messages < count))
    }

    /// Once a second.
    fn show_rate(&mut self) {
        let (counted, since) = self.rated;
        let passed = since.elapsed();
        if passed >= Duration::from_secs(1) {
            let ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
            let rate = (self.messages - counted) * 1000 / ms;
            let total = self.messages;
            self.progress.set_message(format!("{rate} messages/s, {total} in total; Ctrl-C ends"));
            self.rated = (total, Instant::now());
        }
        self.progress.tick();
    }
}
