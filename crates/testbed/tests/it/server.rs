//! A simulated server other than a DSP: it answers with the path of the request, or with the
//! reversed path. In a module: HTTP/2.

mod http2;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use testbed::server::{
    self, ConnectionCounters, ContentFault, Misbehaviour, Script, ServerAct, ServerBehaviour,
    ServerOptions, ServerRequest, ServerSchedule, ServiceReply, SimulatedService, Spoilable,
};

#[derive(Clone, Debug, PartialEq)]
struct Backwards;

impl ContentFault for Backwards {
    fn problem(&self) -> Option<&'static str> {
        None
    }
}

#[derive(Debug)]
struct EchoResponder {
    misbehaviour: Option<Misbehaviour<Backwards>>,
    counters: Arc<ConnectionCounters>,
}

/// The answer to one request.
struct PathAnswer<'a>(&'a ServerRequest<'a>);

impl Spoilable for PathAnswer<'_> {
    fn healthy(&mut self) -> Script {
        Script::whole(server::whole_answer(self.0.target.as_bytes()), Duration::ZERO)
    }

    fn content(&mut self) -> Option<Vec<u8>> {
        Some(self.0.target.as_bytes().to_vec())
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn accepts_gzip(&self) -> bool {
        self.0.accepts_gzip
    }

    fn delay(&self) -> Duration {
        Duration::ZERO
    }

    fn origin(&self) -> &str {
        "http://echo.example"
    }
}

impl SimulatedService for EchoResponder {
    type Fault = Backwards;
    type Change = ();

    fn respond(&mut self, request: &ServerRequest<'_>, out: &mut Vec<u8>) -> ServiceReply {
        let key = request.target.as_bytes();
        let mut answer = PathAnswer(request);
        let performed = self.misbehaviour.as_ref().and_then(|misbehaviour| {
            misbehaviour.befall(1, key, &mut answer, |answer, _, Backwards| {
                let mut path = answer.content()?;
                path.reverse();
                Some(server::spoilt(answer, server::whole_answer(&path)))
            })
        });
        match performed {
            Some((script, _)) => ServiceReply::Script(Box::new(script)),
            None => {
                out.extend(server::whole_answer(key));
                ServiceReply::AT_ONCE
            }
        }
    }

    fn behave(&mut self, behaviour: &ServerBehaviour<Backwards>) {
        self.misbehaviour = Misbehaviour::of(behaviour);
    }

    fn change(&mut self, (): ()) {}

    fn connections(&self) -> &ConnectionCounters {
        &self.counters
    }
}

#[test]
fn a_server_need_not_be_a_dsp() {
    let counters = Arc::new(ConnectionCounters::default());
    let servers =
        server::start(&ServerOptions::default(), vec![ServerSchedule::default()], |_, _| {
            EchoResponder { misbehaviour: None, counters: Arc::clone(&counters) }
        })
        .expect("a server");
    let mut stream = TcpStream::connect(servers.addresses()[0]).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket option");
    let mut ask = |want: &str| {
        stream.write_all(b"GET /path HTTP/1.1\r\n\r\n").expect("sent");
        let (mut answer, mut buffer) = (Vec::new(), [0; 1024]);
        while !answer.ends_with(want.as_bytes()) {
            let count = stream.read(&mut buffer).expect("an answer");
            answer.extend_from_slice(&buffer[..count]);
            assert!(count > 0 && answer.len() < 1024, "{answer:?}");
        }
        String::from_utf8(answer).expect("ASCII")
    };
    assert!(ask("/path").starts_with("HTTP/1.1 200 OK\r\n"));
    servers.behave(0, ServerAct::Content(Backwards).into()).expect("it runs");
    ask("htap/");
    servers
        .behave(0, ServerAct::Status { code: 503, body: "sorry".to_owned() }.into())
        .expect("it runs");
    assert!(ask("sorry").starts_with("HTTP/1.1 503 "));
    servers.behave(0, ServerAct::Late { by: Duration::from_millis(2) }.into()).expect("it runs");
    ask("/path");
    servers.behave(0, ServerBehaviour::HEALTHY).expect("it runs");
    ask("/path");
    assert_eq!((counters.open.read(), counters.malformed.read()), (1, 0));
    servers.stop().expect("an orderly end");
}
