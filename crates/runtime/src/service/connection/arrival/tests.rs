//! Timestamps of the kernel, on real sockets.

use std::io::Write as _;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::listen::listen;

/// The same once the kernel stamps packets, which starts a moment after the request for it.
async fn stamped_pair() -> (std::net::TcpStream, StampedStream) {
    let (mut client, mut stream) = pair();
    let began = Instant::now();
    loop {
        client.write_all(b"x").unwrap();
        stream.stream.readable().await.unwrap();
        let control = stream.control.as_mut().unwrap();
        let read = || receive(&stream.stream, &mut [0], control);
        match stream.stream.try_io(Interest::READABLE, read) {
            Ok((1, Some(_))) => return (client, stream),
            Ok((1, None)) => assert!(began.elapsed() < Duration::from_secs(10), "no stamps"),
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
}

/// A client's end and our end, which reads through a clock.
fn pair() -> (std::net::TcpStream, StampedStream) {
    pair_with(true)
}

fn pair_with(is_dated: bool) -> (std::net::TcpStream, StampedStream) {
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    listener.set_nonblocking(false).unwrap();
    let (stream, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    (client, StampedStream::new(TcpStream::from_std(stream).unwrap(), is_dated))
}

#[tokio::test]
async fn an_arrival_is_when_the_kernel_had_the_bytes() {
    let (mut client, mut stream) = stamped_pair().await;
    let clock = stream.clock();
    let before = Instant::now();
    client.write_all(b"first").unwrap();
    let sent = Instant::now();
    // The reader is busy elsewhere for a while.
    while sent.elapsed() < Duration::from_millis(30) {
        std::hint::spin_loop();
    }
    let mut bytes = [0; 16];
    assert_eq!(stream.read(&mut bytes).await.unwrap(), 5);
    let arrival = clock.take().unwrap();
    // The two clocks may drift apart slightly.
    let slack = Duration::from_millis(5);
    assert!(before <= arrival + slack && arrival <= sent + slack, "{:?}", sent.elapsed());
}

#[tokio::test]
async fn a_request_arrives_with_the_last_bytes_of_its_head() {
    let (mut client, mut stream) = pair();
    let clock = stream.clock();
    let mut bytes = [0; 16];
    // A handshake or half a head does not date later bytes.
    client.write_all(b"half").unwrap();
    assert_eq!(stream.read(&mut bytes).await.unwrap(), 4);
    let before = Instant::now();
    while before.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
    client.write_all(b"rest").unwrap();
    assert_eq!(stream.read(&mut bytes).await.unwrap(), 4);
    assert!(before + Duration::from_millis(10) < clock.take().unwrap());

    // Bytes of a finished request do not date the next one.
    client.write_all(b"rest").unwrap();
    assert_eq!(stream.read(&mut bytes).await.unwrap(), 4);
    clock.reset();
    assert_eq!(clock.take(), None);
}

#[tokio::test]
async fn it_reads_and_writes_like_any_stream() {
    for is_dated in [true, false] {
        read_and_write(is_dated).await;
    }
}

async fn read_and_write(is_dated: bool) {
    let (client, mut stream) = pair_with(is_dated);
    let clock = stream.clock();
    client.set_nonblocking(true).unwrap();
    let mut client = TcpStream::from_std(client).unwrap();
    let sent: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let echo = async {
        let mut read = vec![0; sent.len()];
        stream.read_exact(&mut read).await.unwrap();
        stream.write_all(&read).await.unwrap();
        stream.shutdown().await.unwrap();
    };
    let (mut reader, mut writer) = client.split();
    let write = async {
        writer.write_all(&sent).await.unwrap();
    };
    let read = async {
        let mut back = Vec::new();
        reader.read_to_end(&mut back).await.unwrap();
        back
    };
    let ((), (), back) = tokio::join!(echo, write, read);
    assert!(back == sent);
    assert_eq!(clock.take().is_some(), is_dated);
    // The end of the stream is reported as usual.
    drop(client);
    assert_eq!(stream.read(&mut [0; 4]).await.unwrap(), 0);
}
