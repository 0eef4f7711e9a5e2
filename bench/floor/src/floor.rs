//! The event loop: one edge-triggered epoll instance, from accepted request to written answer.
//!
//! Every connection is registered once, for everything, and never touched again: an auction in
//! the steady state costs one `read` and one `write` for the client, one `send` and one `recv`
//! for each DSP, and its share of `epoll_wait`. With one HTTP/2 connection to each DSP, what a turn
//! of the loop adds to a connection is one `write`, and what has come is one `read`.

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, sockopt};

use crate::client::{Client, Turn};
use crate::dsp::Dsp;
use crate::link::{Link, Progress, Room};
use crate::pipe::Pipe;
use crate::slots::Slots;

/// Most client connections; further ones are closed at once.
const CLIENTS_MAX: u16 = 4096;
/// Events read from the kernel at once.
const EVENTS_MAX: usize = 1024;

const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
/// Set in the event data of a link, clear in that of a client; the rest is the slot.
const LINK: u64 = 1 << 32;
/// Set in the event data of a pipe; the rest is the number of its DSP.
const PIPE: u64 = 1 << 33;
/// Buffer for the answers of a pipe.
const PIPE_BYTES: usize = 64 << 10;

/// Counts since the start.
#[derive(Default)]
pub(crate) struct Tally {
    /// Auctions that every DSP answered.
    pub(crate) auctions: u64,
    /// Calls begun, one for each DSP and auction.
    pub(crate) calls: u64,
    /// Calls without an answer: refused, cut off, malformed.
    pub(crate) failed: u64,
    /// Calls repeated because a reused connection turned out closed.
    pub(crate) retried: u64,
    /// Connections opened to DSPs.
    pub(crate) opened: u64,
}

pub(crate) struct Floor {
    epoll: OwnedFd,
    listener: TcpListener,
    /// Readable when the floor must stop; owned so that it stays registered.
    _stop: UnixStream,
    dsps: Vec<Dsp>,
    clients: Slots<Client>,
    links: Slots<Link>,
    /// One for each DSP. Empty if each call has a link.
    pipes: Vec<Pipe>,
    /// DSPs whose pipes have something to be written at the end of this turn.
    dirty: Vec<usize>,
    pipe_room: Vec<u8>,
    /// Answers of one read: clients and bodies' ends in `bodies`.
    answers: Vec<(usize, usize)>,
    bodies: Vec<u8>,
    /// Clients with more work than their last event reported.
    ready: Vec<usize>,
    room: Room,
    tally: Tally,
}

impl Floor {
    pub(crate) fn new(
        listener: TcpListener,
        stop: UnixStream,
        dsps: Vec<Dsp>,
        http2: bool,
    ) -> Result<Self> {
        listener.set_nonblocking(true)?;
        // Listens again, with a backlog for a burst of all clients.
        rustix::net::listen(&listener, i32::from(CLIENTS_MAX))?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (source, data) in [(listener.as_fd(), LISTENER), (stop.as_fd(), STOP)] {
            epoll::add(&epoll, source, EventData::new_u64(data), EventFlags::IN | EventFlags::ET)?;
        }
        let pipes: Vec<_> = dsps.iter().filter(|_| http2).map(Pipe::open).collect::<Result<_>>()?;
        for (dsp, pipe) in pipes.iter().enumerate() {
            watch(&epoll, &pipe.socket, PIPE | dsp as u64)?;
        }
        Ok(Self {
            epoll,
            listener,
            _stop: stop,
            dsps,
            clients: Slots::new(),
            links: Slots::new(),
            dirty: (0..pipes.len()).collect(),
            pipes,
            pipe_room: vec![0; PIPE_BYTES],
            answers: Vec::new(),
            bodies: Vec::new(),
            ready: Vec::new(),
            room: Room::new(),
            tally: Tally::default(),
        })
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Runs auctions until stopped; those in flight then are dropped.
    pub(crate) fn run(&mut self) -> Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => (),
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    STOP => return Ok(()),
                    LISTENER => self.accept(),
                    data if data & PIPE != 0 => self.on_pipe(slot(data))?,
                    data if data & LINK == 0 => self.on_client(slot(data), event.flags),
                    data => self.on_link(slot(data), event.flags),
                }
                while let Some(client) = self.ready.pop() {
                    self.advance(client);
                }
            }
            for dsp in std::mem::take(&mut self.dirty) {
                self.pipes[dsp].is_dirty = false;
                self.pipes[dsp].flush()?;
            }
            self.clients.free_removed();
            self.links.free_removed();
        }
    }

    fn accept(&mut self) {
        loop {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = match accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                // Also for lack of descriptors: the rest of the backlog is accepted with the next
                // event.
                Err(_) => return,
            };
            let data = self.clients.next() as u64;
            if self.clients.len() < usize::from(CLIENTS_MAX)
                && sockopt::set_tcp_nodelay(&socket, true).is_ok()
                && watch(&self.epoll, &socket, data).is_ok()
            {
                self.clients.insert(Client::new(socket));
            }
        }
    }

    fn on_client(&mut self, id: usize, flags: EventFlags) {
        let Some(client) = self.clients.at(id) else { return };
        client.hung_up |= hung_up(flags);
        if client.waiting > 0 {
            client.stirred = true;
        } else {
            self.advance(id);
        }
    }

    fn advance(&mut self, id: usize) {
        let Some(client) = self.clients.at(id) else { return };
        match client.advance() {
            Turn::Request => self.fan_out(id),
            Turn::Blocked => (),
            Turn::Gone => drop(self.clients.remove(id)),
        }
    }

    /// Calls every DSP, on its warmest idle link, or else on the next free or new one.
    fn fan_out(&mut self, client_id: usize) {
        let client = self.clients.at(client_id).expect("its request was just read");
        client.waiting = self.dsps.len();
        if !self.pipes.is_empty() {
            let [length, body] = client.call();
            for (dsp, pipe) in self.pipes.iter_mut().enumerate() {
                self.tally.calls += 1;
                pipe.call(client_id, length, body);
                if !std::mem::replace(&mut pipe.is_dirty, true) {
                    self.dirty.push(dsp);
                }
            }
            return;
        }
        for dsp in 0..self.dsps.len() {
            self.tally.calls += 1;
            match self.dsps[dsp].idle.pop() {
                Some(link) => self.call_on(link, client_id),
                None => self.wait_for_link(dsp, client_id),
            }
        }
    }

    fn call_on(&mut self, link: usize, client: usize) {
        self.links.at(link).expect("links that wait for work are open").begin(client);
        self.drive(link, None);
    }

    fn wait_for_link(&mut self, dsp: usize, client: usize) {
        self.dsps[dsp].waiting.push_back(client);
        self.open(dsp);
    }

    /// Opens a link for waiting calls, one at a time. With one per call, handshakes would delay
    /// answers, so more calls would find no link and start more handshakes.
    fn open(&mut self, dsp: usize) {
        while !self.dsps[dsp].is_opening && !self.dsps[dsp].waiting.is_empty() {
            let data = LINK | self.links.next() as u64;
            let begun = Link::open(dsp, &self.dsps[dsp])
                .and_then(|link| watch(&self.epoll, &link.socket, data).map(|()| link));
            match begun {
                Ok(link) => {
                    self.dsps[dsp].is_opening = true;
                    self.tally.opened += 1;
                    self.links.insert(link);
                }
                Err(_) => self.fail_first(dsp),
            }
        }
    }

    fn on_opening(&mut self, id: usize, flags: EventFlags) {
        let link = self.links.at(id).expect("the caller saw the link");
        let dsp = link.dsp;
        let is_open = match link.go_on_opening(&mut self.room) {
            Err(Errno::AGAIN) => return,
            // No event reports an end that came before the call.
            done => done.is_ok() && !hung_up(flags),
        };
        self.dsps[dsp].is_opening = false;
        if is_open {
            self.release(id);
        } else {
            self.links.remove(id);
            self.fail_first(dsp);
        }
        self.open(dsp);
    }

    /// Gives a free link to the call that has waited longest, if any.
    fn release(&mut self, id: usize) {
        let dsp = self.links.at(id).expect("the caller saw the link").dsp;
        match self.dsps[dsp].waiting.pop_front() {
            Some(client) => self.call_on(id, client),
            None => self.dsps[dsp].idle.push(id),
        }
    }

    /// Gives up the call that has waited longest.
    fn fail_first(&mut self, dsp: usize) {
        if let Some(client) = self.dsps[dsp].waiting.pop_front() {
            self.fail(client);
        }
    }

    /// Writes what the socket did not take before, and reads until it is dry.
    fn on_pipe(&mut self, dsp: usize) -> Result<()> {
        self.pipes[dsp].flush()?;
        let mut has_more = true;
        while has_more {
            let Self { pipes, pipe_room, answers, bodies, .. } = self;
            has_more = pipes[dsp].receive(pipe_room, &mut |client, body| {
                bodies.extend_from_slice(body);
                answers.push((client, bodies.len()));
            })?;
            let (answers, bodies) = (std::mem::take(answers), std::mem::take(bodies));
            let mut start = 0;
            for &(client, end) in &answers {
                let winner =
                    &mut self.clients.at(client).context("it outlives its auction")?.winner;
                if winner.len() < end - start {
                    winner.clear();
                    winner.extend_from_slice(&bodies[start..end]);
                }
                start = end;
                self.answered(client);
            }
            (self.answers, self.bodies) = (answers, bodies);
            self.answers.clear();
            self.bodies.clear();
        }
        if self.pipes[dsp].has_output() && !std::mem::replace(&mut self.pipes[dsp].is_dirty, true) {
            self.dirty.push(dsp);
        }
        Ok(())
    }

    fn on_link(&mut self, id: usize, flags: EventFlags) {
        let Some(link) = self.links.at(id) else { return };
        if !link.is_open {
            self.on_opening(id, flags);
        } else if link.call.is_some() {
            self.drive(id, Some(flags));
        } else if hung_up(flags) || flags.contains(EventFlags::IN) {
            // Closed while idle, or sent bytes out of turn.
            let idle = &mut self.dsps[link.dsp].idle;
            idle.retain(|&other| other != id);
            self.links.remove(id);
        }
    }

    /// Advances a call as far as possible; without an event it only sends.
    fn drive(&mut self, id: usize, event: Option<EventFlags>) {
        let link = self.links.at(id).expect("the caller saw the link");
        let client_id = link.call.as_ref().expect("the caller saw the call").client;
        let client = self.clients.at(client_id).expect("a client outlives its auction");
        let dsp = &self.dsps[link.dsp];
        let [length, body] = client.call();
        let sent = link.send([&dsp.head, length, body], &mut self.room);
        let progress = match (sent, event) {
            // An answer before the end of the call does not count: the link may be broken, and is
            // read only after the call is sent.
            (Err(Errno::AGAIN), Some(flags)) if hung_up(flags) => Progress::Failed,
            (Err(Errno::AGAIN), _) | (Ok(()), None) => Progress::Blocked,
            (Ok(()), Some(flags)) => {
                link.receive(&mut self.room, hung_up(flags), &mut client.winner)
            }
            (Err(_), _) => Progress::Failed,
        };
        match progress {
            Progress::Blocked => (),
            Progress::Answered { reusable: true } => {
                self.release(id);
                self.answered(client_id);
            }
            Progress::Answered { reusable: false } => {
                self.links.remove(id);
                self.answered(client_id);
            }
            Progress::Failed => self.give_up(id, client_id),
        }
    }

    /// Closes a broken link; its call is repeated if the link was merely stale.
    fn give_up(&mut self, id: usize, client: usize) {
        let link = self.links.remove(id).expect("the caller saw the link");
        if link.is_stale() {
            self.tally.retried += 1;
            self.wait_for_link(link.dsp, client);
        } else {
            self.fail(client);
        }
    }

    fn fail(&mut self, client: usize) {
        self.tally.failed += 1;
        self.answered(client);
    }

    /// Counts one DSP's answer; the last one ends the auction.
    fn answered(&mut self, client_id: usize) {
        let client = self.clients.at(client_id).expect("a client outlives its auction");
        client.waiting -= 1;
        if client.waiting == 0 {
            self.tally.auctions += 1;
            if client.finish() {
                self.ready.push(client_id);
            }
        }
    }
}

/// Registers a connection for all events, once.
fn watch(epoll: &OwnedFd, source: &impl AsFd, data: u64) -> Result<(), Errno> {
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(epoll, source, EventData::new_u64(data), flags)
}

fn hung_up(flags: EventFlags) -> bool {
    flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
}

fn slot(data: u64) -> usize {
    usize::try_from(data & (LINK - 1)).expect("slots are numbered from a usize")
}
