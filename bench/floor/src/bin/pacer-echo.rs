//! The floor of the pacer on the wire: a Tokio server that sends every frame back, and the load on
//! it. Frames have the length that their head says, and nothing else of them is read.
//!
//! What a pacer costs above this is the price of deciding.

use std::io::{Read as _, Write as _, stdout};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Parser, Subcommand};
use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

/// Bytes of a head, and where it has the length of its frame.
const HEAD_BYTES: usize = 24;
const LENGTH_AT: usize = 8;
/// Room for what is read at once.
const READ_BYTES: usize = 64 * 1024;

/// An echo of the pacer's frames, and the load on it.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Send every frame back, on one thread
    Serve {
        /// Address; port 0 lets the kernel choose
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
        /// Pin the process to this core
        #[arg(long)]
        core: Option<usize>,
    },
    /// Keep frames in flight, and print the requests per second as JSON
    Load {
        /// Address of the echo
        #[arg(long)]
        address: SocketAddr,
        /// Connections
        #[arg(long, default_value_t = 32)]
        connections: usize,
        /// Frames in flight on each
        #[arg(long, default_value_t = 4)]
        depth: usize,
        /// Requests of a frame
        #[arg(long, default_value_t = 10)]
        batch: usize,
        /// Candidates of a request
        #[arg(long, default_value_t = 1)]
        candidates: usize,
        /// Seconds to measure, after one to warm up
        #[arg(long, default_value_t = 5)]
        seconds: u64,
        /// Pin the process to this core
        #[arg(long)]
        core: Option<usize>,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Serve { listen, core } => {
            core.map_or(Ok(()), pin)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            LocalSet::new().block_on(&runtime, serve(listen))
        }
        Command::Load { address, connections, depth, batch, candidates, seconds, core } => {
            core.map_or(Ok(()), pin)?;
            ensure!(connections > 0 && depth > 0, "at least one frame on one connection");
            let frame = frame(batch, candidates)?;
            let mut load = Load::connect(address, connections, depth, &frame)?;
            load.run(Duration::from_secs(1))?;
            let begun = Instant::now();
            let frames = load.run(Duration::from_secs(seconds))?;
            let requests = frames as f64 * batch as f64 / begun.elapsed().as_secs_f64();
            Ok(writeln!(stdout(), "{{\"requests_per_s\": {requests:.0}}}")?)
        }
    }
}

fn pin(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).with_context(|| format!("cannot run on core {core}"))
}

/// A frame as long as a batch of so many requests.
fn frame(batch: usize, candidates: usize) -> Result<Vec<u8>> {
    let length = HEAD_BYTES + 8 + batch * (16 + candidates * 24);
    ensure!(length <= READ_BYTES, "a frame of {length} bytes: at most {READ_BYTES}");
    let mut frame = vec![0; length];
    let length = u32::try_from(length).expect("it is below 64 KiB");
    frame[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// Length of the whole frames at the start of `bytes`, and their number.
fn whole(bytes: &[u8]) -> Result<(usize, usize)> {
    let (mut end, mut count) = (0, 0);
    while let Some(head) = bytes[end..].first_chunk::<HEAD_BYTES>() {
        let length = head[LENGTH_AT..].first_chunk().expect("it is within the head");
        let length = usize::try_from(u32::from_le_bytes(*length))?;
        if !(HEAD_BYTES..=READ_BYTES).contains(&length) {
            bail!("a frame of {length} bytes");
        }
        if bytes.len() < end + length {
            break;
        }
        (end, count) = (end + length, count + 1);
    }
    Ok((end, count))
}

async fn serve(listen: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(listen).await.context("cannot listen")?;
    writeln!(stdout(), "listening on {}", listener.local_addr()?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::task::spawn_local(async move {
            // The load ends its connections.
            let _ended = echo(stream).await;
        });
    }
}

/// Sends back all frames that have arrived, in one write.
async fn echo(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut input = vec![0; READ_BYTES];
    let mut filled = 0;
    loop {
        match stream.read(&mut input[filled..]).await? {
            0 => return Ok(()),
            length => filled += length,
        }
        let (end, _) = whole(&input[..filled])?;
        if end > 0 {
            stream.write_all(&input[..end]).await?;
            input.copy_within(end..filled, 0);
            filled -= end;
        }
    }
}

/// Connections with frames in flight.
struct Load<'f> {
    connections: Vec<Connection>,
    poll: mio::Poll,
    frame: &'f [u8],
}

struct Connection {
    stream: mio::net::TcpStream,
    input: Vec<u8>,
    filled: usize,
    out: Vec<u8>,
}

impl<'f> Load<'f> {
    fn connect(address: SocketAddr, count: usize, depth: usize, frame: &'f [u8]) -> Result<Self> {
        let poll = mio::Poll::new()?;
        let mut connections = Vec::with_capacity(count);
        for number in 0..count {
            let stream = std::net::TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = mio::net::TcpStream::from_std(stream);
            let interest = mio::Interest::READABLE | mio::Interest::WRITABLE;
            poll.registry().register(&mut stream, mio::Token(number), interest)?;
            let input = vec![0; READ_BYTES];
            connections.push(Connection { stream, input, filled: 0, out: frame.repeat(depth) });
        }
        Ok(Self { connections, poll, frame })
    }

    /// Runs for a time; returns the number of frames that came back.
    fn run(&mut self, time: Duration) -> Result<usize> {
        let end = Instant::now() + time;
        let mut events = mio::Events::with_capacity(1024);
        let mut frames = 0;
        while Instant::now() < end {
            for connection in &mut self.connections {
                connection.write()?;
            }
            self.poll.poll(&mut events, Some(Duration::from_millis(10)))?;
            for event in &events {
                frames += self.connections[event.token().0].read(self.frame)?;
            }
        }
        Ok(frames)
    }
}

impl Connection {
    fn write(&mut self) -> Result<()> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(length) => drop(self.out.drain(..length)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads what is there, and queues a frame for each that came back.
    fn read(&mut self, frame: &[u8]) -> Result<usize> {
        let mut frames = 0;
        loop {
            match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => bail!("the echo closed a connection"),
                Ok(length) => self.filled += length,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(frames),
                Err(error) => return Err(error.into()),
            }
            let (end, count) = whole(&self.input[..self.filled])?;
            self.input.copy_within(end..self.filled, 0);
            self.filled -= end;
            (0..count).for_each(|_| self.out.extend_from_slice(frame));
            frames += count;
        }
    }
}
