//! Simultaneous misses share one fetch, and get its body as it comes.

use std::io::Write as _;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use super::fixtures::Proxy;

const FRESH: &str = "200 OK\r\ncache-control: max-age=600\r\n";

#[test]
fn a_thousand_misses_are_one_fetch_and_see_the_first_byte_before_the_last() {
    let proxy = Proxy::start("");
    let (release, released) = channel();
    proxy.origin.script(move |_, stream| {
        let head =
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 10\r\n\r\n01234";
        stream.write_all(head.as_bytes()).unwrap();
        released.recv().unwrap();
        stream.write_all(b"56789").is_ok()
    });
    let mut clients: Vec<_> = (0..1_000).map(|_| proxy.client()).collect();
    for client in &mut clients {
        client.write("GET / HTTP/1.1\r\nhost: cdn.example\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.head().status, 200);
        assert_eq!(client.bytes(5), b"01234");
    }
    release.send(()).unwrap();
    for client in &mut clients {
        assert_eq!(client.bytes(5), b"56789");
    }
    assert_eq!(proxy.origin.received().len(), 1);
    assert_eq!(proxy.get("/", &[]).cache(), "hit");
}

#[test]
fn those_whom_the_answer_does_not_fit_fetch_for_themselves() {
    let proxy = Proxy::start("");
    let varies =
        "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nvary: x-team\r\ncontent-length: 1\r\n\r\n";
    let (release, released) = channel();
    proxy.origin.script(move |_, stream| {
        stream.write_all(varies.as_bytes()).unwrap();
        released.recv().unwrap();
        stream.write_all(b"a").is_ok()
    });
    let ask = |team: &str| {
        let mut client = proxy.client();
        client.write(&format!("GET / HTTP/1.1\r\nhost: cdn.example\r\nx-team: {team}\r\n\r\n"));
        client
    };
    let (mut first, mut same) = (ask("a"), ask("a"));
    let heads = [first.head(), same.head()];
    proxy.origin.raw(format!("{varies}b"));
    assert_eq!(ask("b").answer("GET").text(), "b");
    release.send(()).unwrap();
    assert_eq!((first.bytes(1), same.bytes(1)), (b"a".to_vec(), b"a".to_vec()));
    let mut handled = heads.map(|head| head.cache());
    handled.sort();
    let miss = "fwd=uri-miss; fwd-status=200; stored";
    assert_eq!(handled, [miss.to_owned(), format!("{miss}; collapsed")]);
    assert_eq!(proxy.origin.received().len(), 2);
}

#[test]
fn a_key_that_is_not_shared_makes_the_next_ones_not_wait() {
    let proxy = Proxy::start("");
    let own = "200 OK\r\ncache-control: private\r\n";
    proxy.origin.answer(own, "one");
    assert_eq!(proxy.get("/", &[]).text(), "one");
    // The origin holds both answers back until it has both requests.
    let mut clients = [proxy.client(), proxy.client()];
    for client in &mut clients {
        client.write("GET / HTTP/1.1\r\nhost: cdn.example\r\n\r\n");
    }
    proxy.origin.until_received(3);
    proxy.origin.answer(own, "two").answer(own, "two");
    for client in &mut clients {
        assert_eq!(client.answer("GET").text(), "two");
    }
}

#[test]
fn what_a_client_sends_keeps_nobody_from_the_store() {
    let proxy = Proxy::start("");
    let fresh = "200 OK\r\ncache-control: max-age=60\r\n";
    for (path, line) in [("/a", "authorization: Basic x"), ("/b", "cache-control: no-store")] {
        proxy.origin.answer(fresh, "own").answer(fresh, "all");
        assert_eq!(proxy.get(path, &[line]).text(), "own");
        let (name, value) = line.split_once(": ").unwrap();
        let received = proxy.origin.received();
        assert_eq!(received.last().unwrap().field(name).unwrap(), value);
        let answer = proxy.get(path, &[]);
        assert_eq!(
            (answer.text(), &*answer.cache()),
            ("all", "fwd=uri-miss; fwd-status=200; stored")
        );
        assert_eq!(proxy.get(path, &[line]).cache(), "hit");
    }
}

#[test]
fn fields_of_one_client_are_not_for_those_who_wait() {
    let proxy = Proxy::start("");
    let (release, released) = channel();
    let own = "HTTP/1.1 200 OK\r\ncache-control: max-age=60, private=\"x-own\"\r\nx-own: 1\r\n\
               content-length: 1\r\n\r\n";
    proxy.origin.script(move |_, stream| {
        stream.write_all(own.as_bytes()).unwrap();
        released.recv().unwrap();
        stream.write_all(b"a").is_ok()
    });
    let heads = [(), ()].map(|()| {
        let mut client = proxy.client();
        client.write("GET / HTTP/1.1\r\nhost: cdn.example\r\n\r\n");
        (client.head(), client)
    });
    release.send(()).unwrap();
    let own = heads.map(|(head, mut client)| {
        assert_eq!(client.bytes(1), b"a");
        head.field("x-own").is_some()
    });
    assert_eq!(own, [true, false]);
    assert_eq!(proxy.get("/", &[]).field("x-own"), None);
}

#[test]
fn a_fetch_goes_on_without_its_client() {
    let proxy = Proxy::start("");
    let mut client = proxy.client();
    client.write("GET / HTTP/1.1\r\nhost: cdn.example\r\n\r\n");
    proxy.origin.until_received(1);
    let mut waiting = proxy.client();
    waiting.write("GET / HTTP/1.1\r\nhost: cdn.example\r\n\r\n");
    drop(client);
    proxy.origin.answer("200 OK\r\ncache-control: max-age=60\r\n", "hello");
    assert_eq!(waiting.answer("GET").text(), "hello");
    assert_eq!(proxy.get("/", &[]).cache(), "hit");
    assert_eq!(proxy.origin.received().len(), 1);
}

#[test]
fn a_body_beyond_the_limit_is_passed_on_and_not_stored() {
    let proxy = Proxy::with("object_max = \"64KiB\"", "");
    let large = "x".repeat(1 << 20);
    // With a length and without one.
    proxy.origin.answer("200 OK\r\ncache-control: max-age=60\r\n", &large);
    let answer = proxy.get("/a", &[]);
    assert!(answer.is_complete && answer.body.len() == 1 << 20);
    let chunk = format!("{:x}\r\n{}\r\n", large.len() / 8, &large[..large.len() / 8]);
    let head = "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntransfer-encoding: chunked\r\n\r\n";
    proxy.origin.raw(format!("{head}{}0\r\n\r\n", chunk.repeat(8)));
    let answer = proxy.get("/b", &[]);
    assert!(answer.is_complete && answer.body.len() == 1 << 20);
    proxy.origin.answer("200 OK\r\n", "again");
    assert_eq!(proxy.get("/b", &[]).text(), "again");
}

#[test]
fn a_body_that_is_passed_on_leaves_room_for_others() {
    let proxy = Proxy::with("object_max = \"64KiB\"\nfetching_max = \"2MiB\"", "");
    let (release, released) = channel();
    let chunk = format!("{:x}\r\n{}\r\n", 64 << 10, "x".repeat(64 << 10));
    proxy.origin.script(move |_, stream| {
        let head =
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(chunk.repeat(64).as_bytes()).unwrap();
        released.recv().unwrap();
        stream.write_all(b"0\r\n\r\n").is_ok()
    });
    let mut client = proxy.client();
    client.write("GET /large HTTP/1.1\r\nhost: cdn.example\r\n\r\n");
    assert_eq!(client.head().status, 200);
    // Nearly all, with the sizes of chunks.
    client.bytes(4 << 20);
    proxy.origin.answer("200 OK\r\ncache-control: max-age=60\r\n", "small");
    assert_eq!(proxy.get("/small", &[]).cache(), "fwd=uri-miss; fwd-status=200; stored");
    release.send(()).unwrap();
}

#[test]
fn a_shard_with_too_many_misses_answers_hits_alone() {
    let proxy = Proxy::within(2);
    proxy.origin.answer(FRESH, "hot");
    assert_eq!(proxy.get("/hot", &[]).text(), "hot");
    let (go, gone) = channel::<()>();
    let gone = Arc::new(Mutex::new(gone));
    let mut waiting: Vec<_> = (0..2)
        .map(|at| {
            let gone = Arc::clone(&gone);
            proxy.origin.script(move |_, stream| {
                gone.lock().unwrap().recv().unwrap();
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{at}");
                stream.write_all(answer.as_bytes()).is_ok()
            });
            let mut client = proxy.client();
            client.write(&format!("GET /slow/{at} HTTP/1.1\r\nhost: cdn.example\r\n\r\n"));
            client
        })
        .collect();
    proxy.origin.until_received(3);
    let refused = proxy.get("/third", &[]);
    assert_eq!((refused.status, refused.field("retry-after").as_deref()), (503, Some("1")));
    assert_eq!(proxy.client().send("POST", "/third", &["content-length: 0"]).status, 503);
    assert_eq!(proxy.get("/hot", &[]).cache(), "hit");
    (0..2).for_each(|_| go.send(()).unwrap());
    for client in &mut waiting {
        assert_eq!(client.answer("GET").status, 200);
    }
    proxy.origin.answer(FRESH, "third");
    assert_eq!(proxy.get("/third", &[]).text(), "third");
}
