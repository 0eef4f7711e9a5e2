//! Simulated DSPs: any number of them in one process, on as few threads as asked for, lean enough
//! that what is tested against them is the bottleneck. Owns their sockets and their behaviour;
//! knows nothing of the exchange but OpenRTB 2.6 over HTTP/1.1.
//!
//! Each DSP answers `POST` on any path of its own address with a bid or 204, and counts the
//! notices its bids ask for. In a sick phase of its schedule it does something else instead.

mod answer;
mod behaviour;
mod connection;
mod counters;
mod gzip;
mod http;
mod markup;
mod notices;
mod port;
mod profile;
mod profile_file;
mod reactor;
mod schedule;
mod script;
mod sickness;
mod spread;
mod tls;
mod wheel;
mod wire;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use mio::{Poll, Waker};

pub use behaviour::{Act, Behaviour, Cut, DripFrom, Garble};
pub use behaviour::{BOMB_BYTES_MAX, INTERIM_MAX, LEVELS_MAX, STATUS_BODY_MAX};
pub use counters::{DspStats, FleetStats, NoticeStats};
pub use notices::{NoticeAnswer, NoticeOptions, RECENT_MAX};
pub use profile::{BID_BYTES_MAX, BIDS_MAX, DspProfile, LATENCY_MAX};
pub use profile_file::{ACTS, ActDoc, load_profiles, parse_profiles, profiles_reference};
pub use schedule::{PHASES_MAX, Phase, Schedule};
pub use spread::{LatencySpread, PriceSpread};
pub use tls::{Tls, TlsError};

use answer::Bidder;
use counters::Counters;
use notices::{NoticeDesk, Recent};
use port::Port;
use reactor::{Change, Command, Desk, Reactor, Terms, WAKER};

use runtime::listen::ListenError;
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
    /// Serves TLS alone; `None` is in the clear.
    pub tls: Option<Tls>,
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
            tls: None,
        }
    }
}

impl FleetOptions {
    /// Where bid requests to each DSP go once the fleet runs, in the order of the profiles.
    ///
    /// # Errors
    ///
    /// If the options make no sense, or the system is to choose the ports.
    pub fn urls(&self) -> Result<Vec<String>, Error> {
        check(self)?;
        let base = self.base_port.ok_or(Error::Options("a base port"))?;
        let address = |index| SocketAddr::new(self.listen, port(base, index));
        let urls = (0..self.dsps.len()).map(|index| url(self.tls.is_some(), address(index)));
        Ok(urls.collect())
    }
}

/// The port of a DSP, by options that were checked.
fn port(base: u16, index: usize) -> u16 {
    u16::try_from(usize::from(base) + index).expect("every port was checked to fit")
}

fn origin(tls: bool, address: SocketAddr) -> String {
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{address}")
}

fn url(tls: bool, address: SocketAddr) -> String {
    format!("{}/bid", origin(tls, address))
}

/// Why a fleet did not start, or a running one does not do as told. All but the last two are the
/// caller's to put right; none is left half started.
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
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A thread cannot be placed on its core.
    #[error("cannot run on core {core}: {source}")]
    Core {
        /// The core asked for.
        core: usize,
        /// What the system said.
        source: io::Error,
    },
    /// There is no such DSP.
    #[error("there is no dsp {index}, the fleet has {count}")]
    Unknown {
        /// The place asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// The DSP's thread has ended before its time; [`Fleet::stop`] tells why.
    #[error("the thread of dsp {index} has failed")]
    Gone {
        /// Place of the DSP in the fleet.
        index: usize,
    },
    /// The system refused a thread or a poll.
    #[error("cannot start a thread of the fleet: {0}")]
    System(#[from] io::Error),
}

/// A running fleet. Dropping it stops it.
#[derive(Debug)]
pub struct Fleet {
    addresses: Vec<SocketAddr>,
    tls: bool,
    counters: Arc<[Counters]>,
    recent: Vec<Recent>,
    stop: Arc<AtomicBool>,
    threads: Vec<Thread>,
}

#[derive(Debug)]
struct Thread {
    waker: Waker,
    commands: mpsc::Sender<Command>,
    tid: i32,
    join: Option<JoinHandle<io::Result<()>>>,
}

/// Starts the fleet: on return, every DSP listens.
pub fn start(options: FleetOptions) -> Result<Fleet, Error> {
    check(&options)?;
    let count = options.dsps.len();
    let terms = Terms {
        body_bytes_max: options.body_bytes_max,
        connections_max: options.connections_max,
        tls: options.tls.map(|tls| Arc::clone(tls.config())),
        started: Instant::now(),
        counters: (0..count).map(|_| Counters::default()).collect(),
    };
    let mut fleet = Fleet {
        addresses: Vec::with_capacity(count),
        tls: terms.tls.is_some(),
        counters: Arc::clone(&terms.counters),
        recent: (0..count).map(|_| Recent::default()).collect(),
        stop: Arc::new(AtomicBool::new(false)),
        threads: Vec::with_capacity(options.threads),
    };
    let mut shares: Vec<Vec<Desk>> = (0..options.threads).map(|_| Vec::new()).collect();
    for (index, mut profile) in options.dsps.into_iter().enumerate() {
        let port = listen(options.listen, options.base_port, index)?;
        fleet.addresses.push(port.address());
        let schedule = std::mem::take(&mut profile.schedule);
        let notices = NoticeDesk::new(profile.notice.clone(), Arc::clone(&fleet.recent[index]));
        let origin = origin(fleet.tls, port.address());
        let bidder = Bidder::new(profile, index, origin);
        let desk = Desk { port, bidder, notices, schedule, index };
        shares[index % options.threads].push(desk);
    }
    for (number, desks) in shares.into_iter().enumerate() {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let (commands, told) = mpsc::channel();
        let reactor = Reactor::new(poll, desks, told, terms.clone())?;
        let core = options.core.map(|core| core + number);
        let thread = spawn(reactor, (waker, commands), Arc::clone(&fleet.stop), core)?;
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

fn listen(ip: IpAddr, base_port: Option<u16>, index: usize) -> Result<Port, Error> {
    let address = SocketAddr::new(ip, base_port.map_or(0, |base| port(base, index)));
    Port::open(address).map_err(|cause| ListenError { address, cause }.into())
}

fn spawn(
    mut reactor: Reactor,
    (waker, commands): (Waker, mpsc::Sender<Command>),
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
    Ok(Thread { waker, commands, tid, join: Some(join) })
}

impl Fleet {
    /// Where each DSP listens, in the order of the profiles.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where bid requests to a DSP go: `http://<address>/bid`, or `https://` under TLS.
    ///
    /// # Panics
    ///
    /// When there is no DSP at that place.
    pub fn url(&self, dsp: usize) -> String {
        url(self.tls, self.addresses[dsp])
    }

    /// From now on a DSP behaves so, whatever its schedule had for later. It does when this
    /// returns; answers on their way before are finished as they were begun.
    ///
    /// # Errors
    ///
    /// When there is no such DSP, the behaviour makes no sense, or the DSP's thread has failed.
    pub fn set_behaviour(&self, dsp: usize, behaviour: impl Into<Behaviour>) -> Result<(), Error> {
        let behaviour = behaviour.into();
        match behaviour.problem() {
            Some(problem) => Err(Error::Profile { index: dsp, problem }),
            None => self.tell(dsp, Change::Behaviour(behaviour)),
        }
    }

    /// From now on a DSP answers notices so, its calls counted anew. It does when this returns.
    ///
    /// # Errors
    ///
    /// As [`Self::set_behaviour`].
    pub fn set_notices(&self, dsp: usize, options: NoticeOptions) -> Result<(), Error> {
        match options.problem() {
            Some(problem) => Err(Error::Profile { index: dsp, problem }),
            None => self.tell(dsp, Change::Notices(options)),
        }
    }

    fn tell(&self, index: usize, change: Change) -> Result<(), Error> {
        let count = self.addresses.len();
        if index >= count {
            return Err(Error::Unknown { index, count });
        }
        let (thread, desk) =
            (&self.threads[index % self.threads.len()], index / self.threads.len());
        let (done, is_done) = mpsc::sync_channel(1);
        let gone = || Error::Gone { index };
        thread.commands.send(Command { desk, change, done }).map_err(|_| gone())?;
        thread.waker.wake()?;
        is_done.recv().map_err(|_| gone())
    }

    /// The last notices that a DSP received: path and query as they came, newest last, at most
    /// [`RECENT_MAX`].
    ///
    /// # Panics
    ///
    /// When there is no DSP at that place.
    pub fn recent_notices(&self, dsp: usize) -> Vec<String> {
        let recent = self.recent[dsp].lock().unwrap_or_else(PoisonError::into_inner);
        recent.iter().cloned().collect()
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
