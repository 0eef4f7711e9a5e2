//! One thread of servers, with their ports, connections and timers under one poll. Decides only the
//! order of work; `connection` does it.

mod connection;
mod context;
mod multiplexed;
pub(super) mod port;
mod request;
mod sequential;
mod socket;
mod wheel;
mod wire;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use rustls::ServerConfig;

use super::behaviour::{ServerAct, ServerBehaviour};
use super::options::ServedVersions;
use super::responder::SimulatedService;
use super::schedule::ServerSchedule;
use connection::ServedConnection;
use context::{Buffers, ConnectionStep, StreamAlarm, ThreadContext};
use port::ServerPort;
use wheel::Wheel;
use wire::Wire;

/// The token of the waker that brings commands, or ends the thread.
pub(super) const WAKER: Token = Token(usize::MAX);

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 1024;

/// The length of a tick; also the resolution of epoll's timeout.
const TICK: Duration = Duration::from_millis(1);

/// One server on its thread.
pub(super) struct SimulatedServer<R: SimulatedService> {
    pub(super) port: ServerPort,
    pub(super) responder: R,
    pub(super) schedule: ServerSchedule<R::Fault>,
    /// Its port refuses connections.
    pub(super) is_refusing: bool,
}

/// A change of one server of a running thread, which replies once it is in effect.
pub(super) struct ServerCommand<R: SimulatedService> {
    /// Index of the server on the thread.
    pub(super) server: usize,
    pub(super) change: ServerChange<R>,
    pub(super) done: mpsc::SyncSender<()>,
}

/// A change of one server.
pub(super) enum ServerChange<R: SimulatedService> {
    /// Sets the behaviour and ends the schedule.
    Behaviour(ServerBehaviour<R::Fault>),
    Responder(R::Change),
}

/// A slot for a connection. The serial detects an alarm whose connection is gone.
struct ConnectionSlot {
    connection: Option<ServedConnection>,
    server: usize,
    serial: u64,
}

/// An alarm of a stream. Identifies the connection even if its slot is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotAlarm {
    place: usize,
    serial: u64,
    /// 0 is the connection itself.
    stream: u32,
}

/// Options shared by all threads.
#[derive(Clone, Debug)]
pub(super) struct ReactorOptions {
    pub(super) body_bytes_max: usize,
    pub(super) connections_max: usize,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) versions: ServedVersions,
    /// The start of all schedules.
    pub(super) started: Instant,
}

/// One thread's share of the servers.
pub(super) struct ServerReactor<R: SimulatedService> {
    poll: Poll,
    servers: Vec<SimulatedServer<R>>,
    options: ReactorOptions,
    commands: mpsc::Receiver<ServerCommand<R>>,
    places: Vec<ConnectionSlot>,
    free: Vec<usize>,
    /// Slots emptied since the last poll, which pending events may still name.
    emptied: Vec<usize>,
    serial: u64,
    buffers: Buffers,
    wheel: Wheel<SlotAlarm>,
    /// Slots whose connections are to advance at the end of the turn.
    gathering: Vec<usize>,
    /// Ports that could not accept or listen, usually for lack of descriptors; retried.
    stalled: Vec<usize>,
    /// Start of the next phase of any schedule, since the start.
    next_phase: Option<Duration>,
}

impl<R: SimulatedService> ServerReactor<R> {
    /// Registers the ports of `servers` and begins their schedules.
    pub(super) fn new(
        poll: Poll,
        mut servers: Vec<SimulatedServer<R>>,
        commands: mpsc::Receiver<ServerCommand<R>>,
        options: ReactorOptions,
    ) -> io::Result<Self> {
        for (index, server) in servers.iter_mut().enumerate() {
            server.port.register(poll.registry(), Token(index))?;
        }
        let mut reactor = Self {
            poll,
            servers,
            options,
            commands,
            places: Vec::new(),
            free: Vec::new(),
            emptied: Vec::new(),
            serial: 0,
            buffers: Buffers::new(),
            wheel: Wheel::new(),
            gathering: Vec::new(),
            stalled: Vec::new(),
            next_phase: None,
        };
        reactor.follow_schedules(None);
        Ok(reactor)
    }

    /// Serves until `stop` is set and the waker has rung.
    pub(super) fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let (mut due, mut gathered) = (Vec::new(), Vec::new());
        while !stop.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, self.patience()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            for event in &events {
                match event.token() {
                    WAKER => self.obey(),
                    Token(server) if server < self.servers.len() => self.accept(server),
                    Token(token) => self
                        .serve(token - self.servers.len(), |connection, context| {
                            connection.ready(event, context)
                        }),
                }
            }
            self.free.append(&mut self.emptied);
            if !self.wheel.is_empty() {
                self.wheel.advance(self.ticks(Duration::ZERO), &mut due);
                for alarm in due.drain(..) {
                    if self.places[alarm.place].serial == alarm.serial {
                        self.serve(alarm.place, |connection, context| {
                            connection.ring(alarm.stream, context)
                        });
                    }
                }
            }
            std::mem::swap(&mut gathered, &mut self.gathering);
            for place in gathered.drain(..) {
                self.serve(place, ServedConnection::advance);
            }
            if let Some(next) = self.next_phase
                && next <= self.options.started.elapsed()
            {
                self.follow_schedules(Some(next));
            }
            for server in std::mem::take(&mut self.stalled) {
                self.reopen(server);
                self.accept(server);
            }
        }
        Ok(())
    }

    /// How long to wait for events. None is forever.
    fn patience(&self) -> Option<Duration> {
        if !self.gathering.is_empty() {
            return Some(Duration::ZERO);
        }
        if !self.wheel.is_empty() || !self.stalled.is_empty() {
            return Some(TICK);
        }
        let next = self.next_phase?;
        Some(next.saturating_sub(self.options.started.elapsed()))
    }

    /// Starts the phases that are due. `due` is the time reached. None at the start.
    fn follow_schedules(&mut self, due: Option<Duration>) {
        let elapsed = due.map_or(Duration::ZERO, |due| due.max(self.options.started.elapsed()));
        let mut next_phase: Option<Duration> = None;
        for server in 0..self.servers.len() {
            let schedule = &self.servers[server].schedule;
            if schedule.phases.is_empty() {
                continue;
            }
            let (behaviour, next) = schedule.at(elapsed);
            let behaviour = behaviour.clone();
            next_phase = next_phase.into_iter().chain(next).min();
            self.behave(server, &behaviour);
        }
        self.next_phase = next_phase;
    }

    /// Carries out commands. Their senders may be gone.
    fn obey(&mut self) {
        while let Ok(ServerCommand { server, change, done }) = self.commands.try_recv() {
            match change {
                ServerChange::Behaviour(behaviour) => {
                    self.servers[server].schedule = ServerSchedule::default();
                    self.behave(server, &behaviour);
                }
                ServerChange::Responder(change) => self.servers[server].responder.change(change),
            }
            let _ = done.try_send(());
        }
    }

    fn behave(&mut self, index: usize, behaviour: &ServerBehaviour<R::Fault>) {
        let server = &mut self.servers[index];
        server.responder.behave(behaviour);
        server.is_refusing = behaviour.act == ServerAct::Refused;
        if !server.is_refusing {
            self.reopen(index);
            return;
        }
        server.port.refuse();
        for (place, slot) in self.places.iter_mut().enumerate() {
            if slot.server == index && slot.connection.take().is_some() {
                server.responder.connections().open.subtract(1);
                self.emptied.push(place);
            }
        }
    }

    /// Listens again, unless the server is refusing.
    fn reopen(&mut self, index: usize) {
        let SimulatedServer { port, is_refusing, .. } = &mut self.servers[index];
        if !*is_refusing && port.reopen(self.poll.registry(), Token(index)).is_err() {
            self.stalled.push(index);
        }
    }

    /// The last whole tick that has passed `after` from now.
    fn ticks(&self, after: Duration) -> u64 {
        let passed = (self.options.started.elapsed() + after).as_millis();
        u64::try_from(passed).expect("a process runs for less than 500 million years")
    }

    /// Accepts until the backlog is empty: the poll reports each edge only once.
    fn accept(&mut self, server: usize) {
        loop {
            let stream = match self.servers[server].port.accept() {
                Ok(stream) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The peer gave up while waiting, or a signal came. The next one may succeed.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                Err(_) => {
                    self.stalled.push(server);
                    return;
                }
            };
            let in_use = self.places.len() - self.free.len() - self.emptied.len();
            let refused =
                in_use >= self.options.connections_max || self.admit(server, stream).is_err();
            let counters = self.servers[server].responder.connections();
            if refused {
                counters.refused.add(1);
            } else {
                counters.open.add(1);
            }
        }
    }

    fn admit(&mut self, server: usize, mut stream: mio::net::TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let place = self.free.last().copied().unwrap_or(self.places.len());
        let token = Token(self.servers.len() + place);
        self.poll.registry().register(
            &mut stream,
            token,
            Interest::READABLE | Interest::WRITABLE,
        )?;
        self.serial += 1;
        let serial = self.serial;
        let wire = Wire::new(stream, self.options.tls.as_ref())?;
        let filled =
            ConnectionSlot { connection: Some(ServedConnection::new(wire)), server, serial };
        match self.free.pop() {
            Some(place) => self.places[place] = filled,
            None => self.places.push(filled),
        }
        Ok(())
    }

    /// Runs `turn` on the connection at `place`, if there still is one.
    fn serve(
        &mut self,
        place: usize,
        turn: impl FnOnce(&mut ServedConnection, &mut ThreadContext<'_, R>) -> ConnectionStep,
    ) {
        let ConnectionSlot { connection, server, serial } = &mut self.places[place];
        let Some(open) = connection else { return };
        let mut context = ThreadContext {
            responder: &mut self.servers[*server].responder,
            buffers: &mut self.buffers,
            body_bytes_max: self.options.body_bytes_max,
            versions: self.options.versions,
        };
        let step = turn(open, &mut context);
        if let ConnectionStep::Alarm(after) = step {
            context.buffers.alarms.push(StreamAlarm { stream: 0, after });
        }
        match step {
            ConnectionStep::Idle | ConnectionStep::Alarm(_) => (),
            ConnectionStep::Gather => self.gathering.push(place),
            ConnectionStep::Close => {
                context.responder.connections().open.subtract(1);
                *connection = None; // Closing the descriptor removes it from the poll.
                self.emptied.push(place);
            }
        }
        let serial = *serial;
        let mut alarms = std::mem::take(&mut self.buffers.alarms);
        for StreamAlarm { stream, after } in alarms.drain(..) {
            // One more, lest the rest of this tick shorten the delay.
            self.wheel.insert(self.ticks(after) + 1, SlotAlarm { place, serial, stream });
        }
        self.buffers.alarms = alarms;
    }
}

/// CPU time of thread `tid` of this process; zero if the kernel does not report it.
pub(super) fn cpu_time(tid: i32) -> Duration {
    let statistics = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat"));
    let nanos = statistics.ok().and_then(|text| text.split(' ').next()?.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
