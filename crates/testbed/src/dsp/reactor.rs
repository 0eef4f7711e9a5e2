//! One thread of the fleet: its listeners, its connections, its timers, one poll for all of them.
//! Decides only who runs next; what a connection does is in `connection`.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use rustls::ServerConfig;

use super::answer::Bidder;
use super::behaviour::Behaviour;
use super::connection::{Buffers, Connection, Step, Surroundings};
use super::counters::{Counters, FleetStats};
use super::notices::{NoticeDesk, NoticeOptions};
use super::port::Port;
use super::schedule::Schedule;
use super::wheel::Wheel;
use super::wire::Wire;

/// The token of the waker that brings commands, or ends the thread.
pub(super) const WAKER: Token = Token(usize::MAX);

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 1024;

/// What one tick of the wheel lasts; also the resolution of epoll's timeout.
const TICK: Duration = Duration::from_millis(1);

/// One DSP as its thread holds it.
pub(super) struct Desk {
    pub(super) port: Port,
    pub(super) bidder: Bidder,
    pub(super) notices: NoticeDesk,
    pub(super) schedule: Schedule,
    pub(super) index: usize,
}

/// What a thread is told while it runs. It answers once the change holds.
#[derive(Debug)]
pub(super) struct Command {
    /// Place of the DSP among those of the thread.
    pub(super) desk: usize,
    pub(super) change: Change,
    pub(super) done: mpsc::SyncSender<()>,
}

/// A change of one DSP.
#[derive(Debug)]
pub(super) enum Change {
    /// Behaves so from now on; its schedule is over.
    Behaviour(Behaviour),
    Notices(NoticeOptions),
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

/// What all threads have alike.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) body_bytes_max: usize,
    pub(super) connections_max: usize,
    pub(super) tls: Option<Arc<ServerConfig>>,
    /// What schedules count from.
    pub(super) started: Instant,
    pub(super) counters: Arc<[Counters]>,
}

/// One thread's share of the fleet.
pub(super) struct Reactor {
    poll: Poll,
    desks: Vec<Desk>,
    terms: Terms,
    commands: mpsc::Receiver<Command>,
    places: Vec<Place>,
    free: Vec<usize>,
    /// Places emptied since the last poll: events already taken may still name them.
    emptied: Vec<usize>,
    serial: u64,
    buffers: Buffers,
    wheel: Wheel<Alarm>,
    /// Ports that could not accept or listen for want of descriptors, to be tried again.
    stalled: Vec<usize>,
    /// When the next phase of any schedule begins, since the start.
    next_phase: Option<Duration>,
}

impl Reactor {
    /// Registers the ports of `desks` and begins their schedules.
    pub(super) fn new(
        poll: Poll,
        mut desks: Vec<Desk>,
        commands: mpsc::Receiver<Command>,
        terms: Terms,
    ) -> io::Result<Self> {
        for (index, desk) in desks.iter_mut().enumerate() {
            desk.port.register(poll.registry(), Token(index))?;
        }
        let mut reactor = Self {
            poll,
            desks,
            terms,
            commands,
            places: Vec::new(),
            free: Vec::new(),
            emptied: Vec::new(),
            serial: 0,
            buffers: Buffers::new(),
            wheel: Wheel::new(),
            stalled: Vec::new(),
            next_phase: None,
        };
        reactor.follow_schedules(None);
        Ok(reactor)
    }

    /// Serves until `stop` is set and the waker has rung.
    pub(super) fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut due = Vec::new();
        while !stop.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, self.patience()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            for event in &events {
                match event.token() {
                    WAKER => self.obey(),
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
            if let Some(next) = self.next_phase
                && next <= self.terms.started.elapsed()
            {
                self.follow_schedules(Some(next));
            }
            for desk in std::mem::take(&mut self.stalled) {
                self.reopen(desk);
                self.accept(desk);
            }
        }
        Ok(())
    }

    /// How long to wait for events; `None` is for ever.
    fn patience(&self) -> Option<Duration> {
        if !self.wheel.is_empty() || !self.stalled.is_empty() {
            return Some(TICK);
        }
        let next = self.next_phase?;
        Some(next.saturating_sub(self.terms.started.elapsed()))
    }

    /// Takes up the phases that have begun. `due` is the time that has come, `None` at the start.
    fn follow_schedules(&mut self, due: Option<Duration>) {
        let elapsed = due.map_or(Duration::ZERO, |due| due.max(self.terms.started.elapsed()));
        let mut next_phase: Option<Duration> = None;
        for desk in 0..self.desks.len() {
            let schedule = &self.desks[desk].schedule;
            if schedule.phases.is_empty() {
                continue;
            }
            let (behaviour, next) = schedule.at(elapsed);
            let behaviour = behaviour.clone();
            next_phase = next_phase.into_iter().chain(next).min();
            self.behave(desk, &behaviour);
        }
        self.next_phase = next_phase;
    }

    /// Does what it is told. Who told it may have gone.
    fn obey(&mut self) {
        while let Ok(Command { desk, change, done }) = self.commands.try_recv() {
            match change {
                Change::Behaviour(behaviour) => {
                    self.desks[desk].schedule = Schedule::default();
                    self.behave(desk, &behaviour);
                }
                Change::Notices(options) => self.desks[desk].notices.set(options),
            }
            let _ = done.try_send(());
        }
    }

    fn behave(&mut self, desk: usize, behaviour: &Behaviour) {
        if !self.desks[desk].bidder.behave(behaviour) {
            self.reopen(desk);
            return;
        }
        self.desks[desk].port.refuse();
        for (index, place) in self.places.iter_mut().enumerate() {
            if place.desk == desk && place.connection.take().is_some() {
                self.terms.counters[self.desks[desk].index].connections_open.subtract(1);
                self.emptied.push(index);
            }
        }
    }

    /// Listens again, unless the DSP is to refuse.
    fn reopen(&mut self, desk: usize) {
        let Desk { bidder, port, .. } = &mut self.desks[desk];
        if !bidder.is_refusing() && port.reopen(self.poll.registry(), Token(desk)).is_err() {
            self.stalled.push(desk);
        }
    }

    /// The last whole tick that has passed `after` from now.
    fn ticks(&self, after: Duration) -> u64 {
        let passed = (self.terms.started.elapsed() + after).as_millis();
        u64::try_from(passed).expect("a process runs for less than 500 million years")
    }

    /// Accepts until the backlog is empty: an edge tells of it once.
    fn accept(&mut self, desk: usize) {
        loop {
            let stream = match self.desks[desk].port.accept() {
                Ok(stream) => stream,
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
            let refused = in_use >= self.terms.connections_max || self.admit(desk, stream).is_err();
            let counters = &self.terms.counters[self.desks[desk].index];
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
        let wire = Wire::new(stream, self.terms.tls.as_ref())?;
        let filled = Place { connection: Some(Connection::new(wire)), desk, serial };
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
            notices: &mut desk.notices,
            counters: &self.terms.counters[desk.index],
            buffers: &mut self.buffers,
            body_bytes_max: self.terms.body_bytes_max,
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
