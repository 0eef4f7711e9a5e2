//! A live floor, and a client of it from another library.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{HandshakeError, Message, WebSocket};

use crate::operations::fixtures::{Answer, Server, answer};
use crate::program::{PATIENCE, check, vickrey};

/// A server without an exchange.
pub const TABLES: &str = r#"[runtime]
shards = 2
[record]
directory = "record"
[live]
listen = "127.0.0.1:0"
trust_loopback = true
topics = ["news", "prices"]
heartbeat = "100ms"
[live.limits]
commands_per_s = 100000
"#;

/// A running live floor.
pub struct Floor {
    pub server: Server,
}

impl Floor {
    pub fn start() -> Self {
        Self::with(TABLES)
    }

    pub fn with(tables: &str) -> Self {
        Self { server: Server::start_without_exchange(tables) }
    }

    pub fn address(&self) -> String {
        self.server.logged("the live floor is at ")
    }

    /// A client, after its welcome.
    pub fn client(&self) -> Client {
        Client::connect(&self.address(), "")
    }

    /// A client that has not taken its welcome.
    pub fn client_before_welcome(&self) -> Client {
        Client::open(&self.address(), "")
    }

    /// The same, whose kernel takes little that it does not read.
    pub fn client_with_little_room(&self) -> Client {
        let stream = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        stream.set_recv_buffer_size(16 << 10).unwrap();
        stream.connect(&self.address().parse::<SocketAddr>().unwrap().into()).unwrap();
        let mut client = Client::over(stream.into(), &self.address(), "");
        assert_eq!(client.next()["type"], "welcome");
        client
    }

    /// A token with these claims.
    pub fn token(&self, claims: &[&str]) -> String {
        let mut sign = vickrey(&["live", "token", "--config"]);
        sign.arg(self.server.config_file()).args(claims);
        check(&mut sign, 0, &[], &[]).0.trim().to_owned()
    }

    /// A number of `GET /v1/live`.
    pub fn count(&self, name: &str) -> i64 {
        let shown = self.server.get("/v1/live");
        shown[name].as_i64().unwrap_or_else(|| panic!("no {name} in {shown}"))
    }

    /// Sends a request to the listener.
    pub fn ask(&self, line: &str, headers: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-length: {length}\r\n{headers}\r\n{body}"
        )
        .unwrap();
        answer(&mut stream)
    }

    /// Publishes over HTTP.
    pub fn publish(&self, topic: &str, body: &Value) {
        let answer = self.ask(&format!("POST /publish?topic={topic}"), "", &body.to_string());
        assert_eq!(answer.status, 202, "{answer:?}");
    }
}

/// A client over WebSocket.
pub struct Client(WebSocket<TcpStream>);

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Closed {
    pub code: Option<u16>,
    pub reason: String,
}

impl Client {
    /// Connects, with a token unless it is empty, and takes the welcome.
    pub fn connect(address: &str, token: &str) -> Self {
        let mut client = Self::open(address, token);
        assert_eq!(client.next()["type"], "welcome");
        client
    }

    fn open(address: &str, token: &str) -> Self {
        Self::over(TcpStream::connect(address).unwrap(), address, token)
    }

    fn over(stream: TcpStream, address: &str, token: &str) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut request = format!("ws://{address}/feed").into_client_request().unwrap();
        if !token.is_empty() {
            let bearer = format!("Bearer {token}").parse().unwrap();
            request.headers_mut().insert("authorization", bearer);
        }
        let (socket, response) = tungstenite::client(request, stream)
            .unwrap_or_else(|error| panic!("no WebSocket: {}", shown(&error)));
        assert_eq!(response.status(), 101);
        Self(socket)
    }

    pub fn say(&mut self, command: &Value) {
        self.send(Message::text(command.to_string()));
    }

    pub fn send(&mut self, message: Message) {
        self.0.send(message).unwrap();
    }

    /// As [`Self::send`], but the server may not take it.
    pub fn try_send(&mut self, message: Message) -> tungstenite::Result<()> {
        self.0.send(message)
    }

    /// The next message that is text.
    #[track_caller]
    pub fn next(&mut self) -> Value {
        match self.heard() {
            Ok(message) => message,
            Err(closed) => panic!("the connection ended: {closed:?}"),
        }
    }

    /// The next message, or how the connection ended.
    pub fn heard(&mut self) -> Result<Value, Closed> {
        loop {
            match self.0.read() {
                Ok(Message::Text(text)) => return Ok(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(frame)) => {
                    let code = frame.as_ref().map(|frame| code(frame.code));
                    let reason = frame.map_or(String::new(), |frame| frame.reason.to_string());
                    return Err(Closed { code, reason });
                }
                Ok(_) => (),
                Err(_) => return Err(Closed { code: None, reason: String::new() }),
            }
        }
    }

    /// The next message of this type.
    #[track_caller]
    pub fn next_of(&mut self, kind: &str) -> Value {
        loop {
            let message = self.next();
            if message["type"] == kind {
                return message;
            }
            assert_eq!(message["type"], "heartbeat", "{message}");
        }
    }

    /// Subscribes, and returns the confirmation.
    #[track_caller]
    pub fn subscribe(&mut self, topic: &str, more: &Value) -> Value {
        let mut command = json!({ "op": "subscribe", "topic": topic });
        command.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.say(&command);
        self.next_of("subscribed")
    }

    /// Publishes and waits for the confirmation.
    #[track_caller]
    pub fn publish(&mut self, topic: &str, body: &Value) {
        self.say(&json!({ "op": "publish", "topic": topic, "body": body }));
        self.next_of("published");
    }

    pub fn stream(&mut self) -> &mut TcpStream {
        self.0.get_mut()
    }

    /// How the connection ends, after whatever it still says.
    pub fn ended(&mut self) -> Closed {
        loop {
            if let Err(closed) = self.heard() {
                return closed;
            }
        }
    }
}

fn code(code: CloseCode) -> u16 {
    code.into()
}

fn shown<R: tungstenite::handshake::HandshakeRole>(error: &HandshakeError<R>) -> String
where
    R::FinalResult: std::fmt::Debug,
{
    match error {
        HandshakeError::Failure(error) => error.to_string(),
        HandshakeError::Interrupted(_) => "interrupted".to_owned(),
    }
}

/// The position of a message.
pub fn position(message: &Value) -> Value {
    let [epoch, sequence, part] = ["epoch", "sequence", "part"].map(|name| &message[name]);
    json!({ "epoch": epoch, "sequence": sequence, "part": part })
}

/// Reads a response that does not end, for as long as `holds`.
pub fn read_while(stream: &mut TcpStream, mut holds: impl FnMut(&str) -> bool) -> String {
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    while holds(&text) {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the stream ended: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    text
}
