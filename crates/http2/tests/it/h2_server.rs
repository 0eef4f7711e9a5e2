//! Our client and the server of the `h2` crate: whatever is asked and answered, both sides agree.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Request, Response};
use http2::{Http2Client, Http2ClientOptions, RequestHead, StreamCall, StreamEnd, StreamRefusal};
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

const BODY_MAX: usize = 60_000;

/// What a request asks of the server, as its body.
#[derive(Clone, Debug)]
struct Answer {
    status: u16,
    fields: Vec<(String, String)>,
    /// Bytes of each DATA frame.
    pieces: Vec<usize>,
    /// Bytes of the request's body.
    body: usize,
    /// Bytes of a field of the request's own.
    own: usize,
    ending: Ending,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Whole,
    Trailers,
    Refused,
    Cancelled,
}

#[derive(Debug, Default)]
struct Asked {
    index: usize,
    fields: Vec<(String, String)>,
}

impl StreamCall for Asked {
    fn on_field(&mut self, name: &[u8], value: &[u8]) {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("the server sends text");
        self.fields.push((text(name), text(value)));
    }
}

fn answers() -> impl Strategy<Value = Vec<Answer>> {
    // Names that the static table has, and others; repeated values are indexed.
    let name = prop_oneof!["x-[a-f]{1,3}", Just("server".to_owned()), Just("vary".to_owned())];
    let value = prop_oneof!["[ -~]{0,40}", "[a-c]{1,2}", "[a-z]{600}"];
    let value = value.prop_map(|text| text.trim().to_owned());
    let ending = prop_oneof![
        6 => Just(Ending::Whole),
        1 => Just(Ending::Trailers),
        1 => Just(Ending::Refused),
        1 => Just(Ending::Cancelled),
    ];
    let body = prop_oneof![1 => Just(0), 3 => 1..9_000usize];
    // The longest does not fit one frame.
    let own = prop_oneof![12 => 0..300usize, 1 => Just(30_000)];
    let response = (200..600u16, vec((name, value), 0..6), vec(0..20_000usize, 0..3), ending);
    let answer = (response, body, own).prop_map(|((status, fields, pieces, ending), body, own)| {
        let pieces = if matches!(status, 204 | 304) { Vec::new() } else { pieces };
        Answer { status, fields, pieces, body, own, ending }
    });
    vec(answer, 1..40)
}

async fn serve(socket: DuplexStream, answers: Vec<Answer>, streams_max: u32, table: u32) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(streams_max).header_table_size(table);
    builder.max_header_list_size(64 * 1024);
    let mut connection = builder.handshake::<_, Bytes>(socket).await.expect("a handshake");
    while let Some(accepted) = connection.accept().await {
        let (request, respond) = accepted.expect("the client is right");
        tokio::spawn(respond_to(request, respond, answers.clone()));
    }
}

async fn respond_to(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    answers: Vec<Answer>,
) {
    assert_eq!(request.uri().path(), "/bid");
    assert_eq!(request.headers()["x-api-key"], "secret");
    let number = |name: &str| {
        let value = request.headers().get(name)?.to_str().expect("it is text");
        Some(value.parse::<usize>().expect("it is a number"))
    };
    let length = number("content-length");
    let answer = &answers[number("x-index").expect("it has an index")];
    assert_eq!(request.headers()["x-own"].len(), answer.own);
    let mut body = request.into_body();
    let mut read = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.expect("the body arrives");
        body.flow_control().release_capacity(data.len()).expect("it was taken");
        read.extend_from_slice(&data);
    }
    assert_eq!(read.len(), answer.body);
    assert_eq!(length, (answer.body > 0).then_some(answer.body));
    match answer.ending {
        Ending::Refused => return respond.send_reset(h2::Reason::REFUSED_STREAM),
        Ending::Cancelled => return respond.send_reset(h2::Reason::CANCEL),
        Ending::Whole | Ending::Trailers => (),
    }
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.fields {
        response = response.header(name, value);
    }
    let response = response.body(()).expect("a response");
    let is_bare = answer.pieces.is_empty() && answer.ending == Ending::Whole;
    let mut stream = respond.send_response(response, is_bare).expect("it is sent");
    if is_bare {
        return;
    }
    let trailers = answer.ending == Ending::Trailers;
    for (place, piece) in answer.pieces.iter().enumerate() {
        let is_last = place + 1 == answer.pieces.len() && !trailers;
        stream.send_data(vec![b'x'; *piece].into(), is_last).expect("it is sent");
    }
    if trailers {
        let mut fields = http::HeaderMap::new();
        fields.insert("x-sum", "1".parse().expect("it is valid"));
        stream.send_trailers(fields).expect("they are sent");
    }
}

fn want(answer: &Answer) -> String {
    match answer.ending {
        Ending::Refused => "Unprocessed".to_owned(),
        Ending::Cancelled => "Reset(Http2ErrorCode(8))".to_owned(),
        Ending::Whole | Ending::Trailers => {
            let length: usize = answer.pieces.iter().sum();
            let mut fields = answer.fields.clone();
            fields.sort();
            format!("{} {length} {fields:?}", answer.status)
        }
    }
}

const PSEUDO: [(&str, &str); 3] =
    [(":method", "POST"), (":scheme", "http"), (":authority", "dsp.test")];
const REST: [(&str, &str); 3] =
    [(":path", "/bid"), ("content-type", "application/json"), ("x-api-key", "secret")];

/// How a client asks.
#[derive(Clone, Copy, Debug)]
struct Asking {
    /// Bytes of a read.
    piece: usize,
    /// Whether each request has a path of its own, as notices have.
    own_path: bool,
}

/// Asks for all answers, as many at a time as there is room for.
async fn ask(
    mut socket: DuplexStream,
    answers: &[Answer],
    Asking { piece, own_path }: Asking,
) -> HashMap<usize, String> {
    let (constant, own) = if own_path { (&[][..], &REST[..]) } else { (&REST[..], &[][..]) };
    let head = RequestHead::new(PSEUDO.iter().chain(constant).copied());
    let options =
        Http2ClientOptions { body_bytes_max: BODY_MAX, streams_max: 30, small_frames_max: 8 };
    let mut client = Http2Client::new(&head, options);
    let (mut waiting, mut ends) = (VecDeque::from_iter(0..answers.len()), HashMap::new());
    let mut buffer = vec![0; piece];
    while ends.len() < answers.len() {
        while let Some(&next) = waiting.front() {
            let answer = &answers[next];
            let (index, own_value) = (next.to_string(), "o".repeat(answer.own));
            let mut fields = own.to_vec();
            fields.extend([("x-index", &*index), ("x-own", &*own_value)]);
            let body = vec![b' '; answer.body];
            let call = Asked { index: next, ..Asked::default() };
            let (first, second) = body.split_at(answer.body / 3);
            match client.request(call, &fields, answer.body, [first, second].into_iter()) {
                Ok(_) => drop(waiting.pop_front()),
                Err((_, StreamRefusal::GoingAway)) => panic!("the server goes away"),
                Err(_) => break,
            }
        }
        socket.write_all(client.output()).await.expect("it is written");
        client.mark_sent();
        let read = socket.read(&mut buffer).await.expect("it is read");
        assert!(read > 0, "the server closes");
        let mut on_end = |mut call: Asked, end: StreamEnd<'_>| {
            let is_refused = answers[call.index].ending == Ending::Refused;
            if end == StreamEnd::Unprocessed && !is_refused {
                // More streams than allowed, before the server's SETTINGS came.
                return waiting.push_back(call.index);
            }
            let text = match end {
                StreamEnd::Response { status, body } => {
                    assert!(body.iter().all(|byte| *byte == b'x'));
                    call.fields.retain(|(name, _)| name != "date");
                    call.fields.sort();
                    format!("{status} {} {:?}", body.len(), call.fields)
                }
                other => format!("{other:?}"),
            };
            assert!(ends.insert(call.index, text).is_none(), "a stream ends once");
        };
        client.receive(&buffer[..read], &mut on_end).expect("the server is right");
    }
    ends
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn both_sides_agree(
        answers in answers(),
        streams_max in 1..40u32,
        table in prop_oneof![Just(0u32), Just(40), Just(200), Just(4096), Just(65_536)],
        piece in prop_oneof![1..64usize, Just(65_536)],
        own_path: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let ends = runtime.block_on(async {
            let (ours, theirs) = tokio::io::duplex(1 << 22);
            let server = tokio::spawn(serve(theirs, answers.clone(), streams_max, table));
            let ends = ask(ours, &answers, Asking { piece, own_path }).await;
            server.abort();
            ends
        });
        for (index, answer) in answers.iter().enumerate() {
            prop_assert_eq!(&ends[&index], &want(answer));
        }
    }
}
