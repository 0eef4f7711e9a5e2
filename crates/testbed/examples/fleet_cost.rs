//! Measures what a simulated DSP costs: CPU time of the fleet's thread per request.
//!
//! `cargo run --release -p testbed --example fleet_cost [seconds]`, on a machine with two cores
//! to spare: the fleet runs on core 1; pin the whole to core 0 (`taskset -c 0`) to keep the client,
//! which sends on each connection as soon as it has its answer, off the fleet's core.

#![expect(clippy::print_stdout, reason = "a measurement is for reading")]

use std::error::Error;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use testbed::dsp::{self, DspProfile, FleetOptions};

const DSPS: usize = 50;
const CONNECTIONS_PER_DSP: usize = 8;
const REQUEST_BYTES: usize = 3 * 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let fleet = dsp::start(FleetOptions {
        dsps: vec![DspProfile::default(); DSPS],
        core: Some(1),
        ..FleetOptions::default()
    })?;
    let (mut poll, mut streams) = (Poll::new()?, Vec::new());
    for address in fleet.addresses() {
        for _ in 0..CONNECTIONS_PER_DSP {
            let mut stream = TcpStream::connect(*address)?;
            let token = Token(streams.len());
            poll.registry().register(
                &mut stream,
                token,
                Interest::READABLE | Interest::WRITABLE,
            )?;
            streams.push((stream, false));
        }
    }
    let (started, before) = (Instant::now(), fleet.stats());
    let (mut number, mut answer) = (0_u64, vec![0; 16 * 1024]);
    let mut events = Events::with_capacity(1024);
    while started.elapsed() < Duration::from_secs(seconds) {
        poll.poll(&mut events, Some(Duration::from_millis(100)))?;
        for event in &events {
            let (stream, asked) = &mut streams[event.token().0];
            let answered = event.is_readable() && stream.read(&mut answer)? > 0;
            if answered || (event.is_writable() && !*asked) {
                *asked = true;
                number += 1;
                stream.write_all(&request(number))?;
            }
        }
    }
    let (elapsed, after) = (started.elapsed(), fleet.stats());
    let (total, cpu) = (after.total(), after.cpu[0] - before.cpu[0]);
    let per_request = cpu.as_nanos() / u128::from(total.requests);
    println!("requests        {}", total.requests);
    println!("bid answers     {} ({} bids)", total.bid_answers, total.bids);
    println!("malformed       {}", total.malformed);
    println!("requests/s      {}", u128::from(total.requests) * 1_000 / elapsed.as_millis());
    println!("fleet CPU       {cpu:?} of {elapsed:?}");
    println!("fleet CPU/req   {per_request} ns");
    fleet.stop()?;
    Ok(())
}

/// A head like an exchange's, and a body of 3 KB with its impression in front.
fn request(number: u64) -> Vec<u8> {
    let mut body = format!(
        "{{\"id\":\"{number:032x}\",\"imp\":[{{\"id\":\"1\",\"bidfloor\":0.35,\"banner\":\
         {{\"w\":300,\"h\":250,\"format\":[{{\"w\":300,\"h\":250}}]}}}}],\"user\":{{\"keywords\":\""
    );
    body.extend(std::iter::repeat_n('k', REQUEST_BYTES - body.len() - 3));
    body.push_str("\"}}");
    let head = format!(
        "POST /bid HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         x-openrtb-version: 2.6\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}
