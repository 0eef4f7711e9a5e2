//! One thread of the fleet: its listeners, its connections, its timers, one poll for all of them.
//! Decides only who runs next; what a connection does is in `connection`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};

use super::answer::Bidder;
use super::connection::{Buffers, Connection, Step, Surroundings};
use super::counters::{Counters, FleetStats};
use super::wheel::Wheel;

/// The token of the waker that ends the thread.
pub(super) const WAKER: Token = Token(usize::MAX);

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 1024;

/// What one tick of the wheel lasts; also the resolution of epoll's timeout.
const TICK: Duration = Duration::from_millis(1);

/// One DSP as its thread holds it.
pub(super) struct Desk {
    pub(super) listener: TcpListener,
    pub(super) bidder: Bidder,
    pub(super) index: usize,
}

/// A place for a connection. The serial tells a delayed answer that its connection is gone.
struct Place {
    connection: Option<Connection>,
    desk: usize,
    serial: u64,
}

/// Names a connection across its place being used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alarm {
    place: usize,
    serial: u64,
}

/// The limits of one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) body_bytes_max: usize,
    pub(super) connections_max: usize,
}

/// One thread's share of the fleet.
pub(super) struct Reactor {
    poll: Poll,
    desks: Vec<Desk>,
    counters: Arc<[Counters]>,
    limits: Limits,
    places: Vec<Place>,
    free: Vec<usize>,
    /// Places emptied since the last poll: events already taken may still name them.
    emptied: Vec<usize>,
    serial: u64,
    buffers: Buffers,
    wheel: Wheel<Alarm>,
    started: Instant,
    /// Listeners that could not accept for want of descriptors, to be tried again.
    stalled: Vec<usize>,
}

impl Reactor {
    /// Registers the listeners of `desks`.
    pub(super) fn new(
        poll: Poll,
        mut desks: Vec<Desk>,
        counters: Arc<[Counters]>,
        limits: Limits,
    ) -> io::Result<Self> {
        for (index, desk) in desks.iter_mut().enumerate() {
            poll.registry().register(&mut desk.listener, Token(index), Interest::READABLE)?;
        }
        Ok(Self {
            poll,
            desks,
            counters,
            limits,
            places: Vec::new(),
            free: Vec::new(),
            emptied: Vec::new(),
            serial: 0,
            buffers: Buffers::new(),
            wheel: Wheel::new(),
            started: Instant::now(),
            stalled: Vec::new(),
        })
    }

    /// Serves until `stop` is set and the waker has rung.
    pub(super) fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut due = Vec::new();
        while !stop.load(Ordering::Acquire) {
            let idle = self.wheel.is_empty() && self.stalled.is_empty();
            match self.poll.poll(&mut events, (!idle).then_some(TICK)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            for event in &events {
                match event.token() {
                    WAKER => (),
                    Token(desk) if desk < self.desks.len() => self.accept(desk),
                    Token(token) => self.serve(token - self.desks.len(), |connection, around| {
                        connection.ready(event, around)
                    }),
                }
            }
            self.free.append(&mut self.emptied);
            if !self.wheel.is_empty() {
                self.wheel.advance(self.ticks(Duration::ZERO), &mut due);
                for alarm in due.drain(..) {
                    if self.places[alarm.place].serial == alarm.serial {
                        self.serve(alarm.place, Connection::ring);
                    }
                }
            }
            for desk in std::mem::take(&mut self.stalled) {
                self.accept(desk);
            }
        }
        Ok(())
    }

    /// The last whole tick that has passed `after` from now.
    fn ticks(&self, after: Duration) -> u64 {
        let passed = (self.started.elapsed() + after).as_millis();
        u64::try_from(passed).expect("a process runs for less than 500 million years")
    }

    /// Accepts until the backlog is empty: an edge tells of it once.
    fn accept(&mut self, desk: usize) {
        loop {
            let stream = match self.desks[desk].listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The peer gave up before its turn, or a signal came: the next one may be well.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                Err(_) => {
                    self.stalled.push(desk);
                    return;
                }
            };
            let in_use = self.places.len() - self.free.len() - self.emptied.len();
            let refused =
                in_use >= self.limits.connections_max || self.admit(desk, stream).is_err();
            let counters = &self.counters[self.desks[desk].index];
            if refused {
                counters.connections_refused.add(1);
            } else {
                counters.connections_open.add(1);
            }
        }
    }

    fn admit(&mut self, desk: usize, mut stream: mio::net::TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let place = self.free.last().copied().unwrap_or(self.places.len());
        let token = Token(self.desks.len() + place);
        self.poll.registry().register(
            &mut stream,
            token,
            Interest::READABLE | Interest::WRITABLE,
        )?;
        self.serial += 1;
        let serial = self.serial;
        let filled = Place { connection: Some(Connection::new(stream)), desk, serial };
        match self.free.pop() {
            Some(place) => self.places[place] = filled,
            None => self.places.push(filled),
        }
        Ok(())
    }

    /// Runs `turn` on the connection at `place`, if there is still one.
    fn serve(
        &mut self,
        place: usize,
        turn: impl FnOnce(&mut Connection, &mut Surroundings<'_>) -> Step,
    ) {
        let Place { connection, desk, serial } = &mut self.places[place];
        let Some(open) = connection else { return };
        let desk = &mut self.desks[*desk];
        let mut around = Surroundings {
            bidder: &mut desk.bidder,
            counters: &self.counters[desk.index],
            buffers: &mut self.buffers,
            body_bytes_max: self.limits.body_bytes_max,
        };
        match turn(open, &mut around) {
            Step::Idle => (),
            Step::Alarm(after) => {
                let alarm = Alarm { place, serial: *serial };
                // One more, so that what is left of this tick is not taken off the delay.
                let due = self.ticks(after) + 1;
                self.wheel.insert(due, alarm);
            }
            Step::Close => {
                around.counters.connections_open.subtract(1);
                *connection = None; // Closing the descriptor takes it out of the poll.
                self.emptied.push(place);
            }
        }
    }
}

/// CPU time that thread `tid` of this process has used; zero if the kernel does not say.
pub(super) fn cpu_time(tid: i32) -> Duration {
    let statistics = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat"));
    let nanos = statistics.ok().and_then(|text| text.split(' ').next()?.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Reads everything; `tids` are the threads of the fleet.
pub(super) fn stats(counters: &[Counters], tids: &[i32]) -> FleetStats {
    FleetStats {
        dsps: counters.iter().map(Counters::read).collect(),
        cpu: tids.iter().map(|&tid| cpu_time(tid)).collect(),
    }
}
