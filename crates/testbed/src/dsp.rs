//! Simulated DSPs: any number of them in one process, on as few threads as asked for, lean enough
//! that what is tested against them is the bottleneck. Owns their sockets and their behaviour;
//! knows nothing of the exchange but OpenRTB 2.6 over HTTP/1.1.
//!
//! Each DSP answers `POST` on any path of its own address with a bid or 204, and counts the
//! notices its bids ask for.

mod answer;
mod connection;
mod counters;
mod http;
mod markup;
mod profile;
mod reactor;
mod spread;
mod wheel;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use mio::net::TcpListener;
use mio::{Poll, Waker};

pub use counters::{DspStats, FleetStats};
pub use profile::{BID_BYTES_MAX, BIDS_MAX, DspProfile, LATENCY_MAX};
pub use spread::{LatencySpread, PriceSpread};

use answer::Bidder;
use counters::Counters;
use reactor::{Desk, Limits, Reactor, WAKER};

use runtime::process;

/// What to simulate, and where.
#[derive(Clone, Debug)]
pub struct FleetOptions {
    /// One DSP each, in the order of [`Fleet::addresses`].
    pub dsps: Vec<DspProfile>,
    /// Address that all of them listen on.
    pub listen: IpAddr,
    /// DSP `i` listens on this port plus `i`; `None` lets the system choose.
    pub base_port: Option<u16>,
    /// Threads that share the DSPs, at least 1.
    pub threads: usize,
    /// Core of the first thread, the others following; `None` leaves them to the scheduler.
    pub core: Option<usize>,
    /// Largest request body, in bytes; larger is answered 413.
    pub body_bytes_max: usize,
    /// Most connections of one thread; more are closed at once.
    pub connections_max: usize,
}

impl Default for FleetOptions {
    /// No DSP yet; loopback, ports chosen by the system, one thread, 256 KiB bodies.
    fn default() -> Self {
        Self {
            dsps: Vec::new(),
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            base_port: None,
            threads: 1,
            core: None,
            body_bytes_max: 256 * 1024,
            connections_max: 65_536,
        }
    }
}

/// Why a fleet did not start. All are the caller's to put right; none is left half started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options make no sense.
    #[error("dsp {index}: {problem}")]
    Profile {
        /// Place of the profile in [`FleetOptions::dsps`].
        index: usize,
        /// What is wrong, and within which limits it would be right.
        problem: &'static str,
    },
    /// The options make no sense.
    #[error("a fleet needs {0}")]
    Options(&'static str),
    /// A DSP cannot listen, most often because the port is in use.
    #[error("dsp {index} cannot listen on {address}: {source}; choose another base port")]
    Listen {
        /// Place of the DSP in the fleet.
        index: usize,
        /// Where it was to listen.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A thread cannot be placed on its core.
    #[error("cannot run on core {core}: {source}")]
    Core {
        /// The core asked for.
        core: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused a thread or a poll.
    #[error("cannot start a thread of the fleet: {0}")]
    System(#[from] io::Error),
}

/// A running fleet. Dropping it stops it.
#[derive(Debug)]
pub struct Fleet {
    addresses: Vec<SocketAddr>,
    counters: Arc<[Counters]>,
    stop: Arc<AtomicBool>,
    threads: Vec<Thread>,
}

#[derive(Debug)]
struct Thread {
    waker: Waker,
    tid: i32,
    join: Option<JoinHandle<io::Result<()>>>,
}

/// Starts the fleet: on return, every DSP listens.
pub fn start(options: FleetOptions) -> Result<Fleet, Error> {
    check(&options)?;
    let count = options.dsps.len();
    let limits =
        Limits { body_bytes_max: options.body_bytes_max, connections_max: options.connections_max };
    let mut fleet = Fleet {
        addresses: Vec::with_capacity(count),
        counters: (0..count).map(|_| Counters::default()).collect(),
        stop: Arc::new(AtomicBool::new(false)),
        threads: Vec::with_capacity(options.threads),
    };
    let mut shares: Vec<Vec<Desk>> = (0..options.threads).map(|_| Vec::new()).collect();
    for (index, profile) in options.dsps.into_iter().enumerate() {
        let (listener, address) = listen(options.listen, options.base_port, index)?;
        let bidder = Bidder::new(profile, index, format!("http://{address}"));
        fleet.addresses.push(address);
        shares[index % options.threads].push(Desk { listener, bidder, index });
    }
    for (number, desks) in shares.into_iter().enumerate() {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let reactor = Reactor::new(poll, desks, Arc::clone(&fleet.counters), limits)?;
        let core = options.core.map(|core| core + number);
        let thread = spawn(reactor, waker, Arc::clone(&fleet.stop), core)?;
        fleet.threads.push(thread);
    }
    Ok(fleet)
}

fn check(options: &FleetOptions) -> Result<(), Error> {
    if options.dsps.is_empty() {
        return Err(Error::Options("at least one DSP"));
    }
    if options.threads == 0 {
        return Err(Error::Options("at least one thread"));
    }
    if let Some(base) = options.base_port
        && usize::from(base) + options.dsps.len() > usize::from(u16::MAX) + 1
    {
        return Err(Error::Options("a base port that leaves room for every DSP below 65536"));
    }
    for (index, profile) in options.dsps.iter().enumerate() {
        if let Some(problem) = profile.problem() {
            return Err(Error::Profile { index, problem });
        }
    }
    Ok(())
}

fn listen(
    ip: IpAddr,
    base_port: Option<u16>,
    index: usize,
) -> Result<(TcpListener, SocketAddr), Error> {
    let port = base_port.map_or(0, |base| {
        u16::try_from(usize::from(base) + index).expect("every port was checked to fit")
    });
    let address = SocketAddr::new(ip, port);
    let bound = TcpListener::bind(address).and_then(|listener| {
        let address = listener.local_addr()?;
        Ok((listener, address))
    });
    bound.map_err(|source| Error::Listen { index, address, source })
}

fn spawn(
    mut reactor: Reactor,
    waker: Waker,
    stop: Arc<AtomicBool>,
    core: Option<usize>,
) -> Result<Thread, Error> {
    let (placed, is_placed) = mpsc::sync_channel(1);
    let run = move || {
        let pinned = core.map_or(Ok(()), process::pin_to_core);
        let failed = pinned.is_err();
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        if placed.send(pinned.map(|()| tid)).is_err() || failed {
            return Ok(());
        }
        reactor.run(&stop)
    };
    let join = std::thread::Builder::new().name("dsp-fleet".to_owned()).spawn(run)?;
    let tid = is_placed.recv().map_err(io::Error::other)?;
    let tid = tid.map_err(|source| Error::Core { core: core.unwrap_or_default(), source })?;
    Ok(Thread { waker, tid, join: Some(join) })
}

impl Fleet {
    /// Where each DSP listens, in the order of the profiles.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What each DSP has counted, and the CPU time of each thread.
    pub fn stats(&self) -> FleetStats {
        let tids: Vec<i32> = self.threads.iter().map(|thread| thread.tid).collect();
        reactor::stats(&self.counters, &tids)
    }

    /// Closes every socket and joins the threads. An error says that a thread had failed before,
    /// and why: its DSPs have been silent since.
    pub fn stop(mut self) -> io::Result<()> {
        self.join()
    }

    fn join(&mut self) -> io::Result<()> {
        self.stop.store(true, Ordering::Release);
        let mut result = Ok(());
        for thread in &mut self.threads {
            let Some(join) = thread.join.take() else { continue };
            let ended = thread.waker.wake().and_then(|()| {
                join.join().unwrap_or_else(|_| Err(io::Error::other("a fleet thread panicked")))
            });
            result = result.and(ended);
        }
        result
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // A failure can be learnt from `stop`; there is nobody to tell here.
        drop(self.join());
    }
}
