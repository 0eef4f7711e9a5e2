//! A relay between an exchange and a DSP that speak HTTP/2: passes their frames on, and disturbs one
//! connection at a chosen place. It serves one connection after the other, and passes requests and
//! answers on in turns, so that a place is the same each time. Knows no outcome.

use std::io::{self, Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use http2::Http2ErrorCode;
use http2::frame::{
    END_STREAM, FRAME_HEADER_BYTES, FrameHeader, FrameType, PREFACE, write_go_away, write_reset,
};

use crate::fixtures::PATIENCE;

/// Requests on a disturbed connection that wait together before the first answer is passed on.
const TOGETHER: usize = 2;

/// What happens to a connection, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayFault {
    None,
    /// It is lost; the frame that the DSP sends at this place, if any, lacks its last `missing` bytes.
    LostAtFrame {
        place: FramePlace,
        missing: usize,
    },
    /// It is lost after this many bytes of the exchange. The relay has read the rest of the request,
    /// too.
    LostAfterBytes(usize),
    /// The relay sends a frame of its own to the exchange.
    Sent(FramePlace, SentFrame),
}

/// Between two frames of the DSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePlace {
    /// Frames before it.
    pub frames: usize,
    /// Whether it is before the next request instead of after it.
    pub is_idle: bool,
}

/// What the relay sends in the DSP's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentFrame {
    Reset {
        stream: u32,
        code: Http2ErrorCode,
    },
    /// `is_lost` if the connection is lost then.
    GoAway {
        last_stream: u32,
        is_lost: bool,
    },
}

/// What a connection has carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// The DSP's frames.
    pub frames: Vec<FrameHeader>,
    /// Bytes of the exchange up to the end of each request.
    pub request_ends: Vec<usize>,
}

/// A request of which the DSP gets every byte.
#[derive(Clone, Debug)]
pub struct SeenRequest {
    pub id: String,
    /// `site.id`
    pub site: String,
}

#[derive(Debug, Default)]
struct RelayState {
    /// For the next connection.
    armed: Option<RelayFault>,
    /// Whether nothing is to be passed on before the exchange sends or connects.
    is_idle: bool,
    is_stopped: bool,
    /// The exchange's side and the DSP's, while connected.
    sockets: Vec<TcpStream>,
    /// Of the connection that was armed.
    conversation: Conversation,
    seen: Vec<SeenRequest>,
}

#[derive(Debug, Default)]
struct RelayShared {
    state: Mutex<RelayState>,
    changed: Condvar,
}

/// The running relay; ends its connection when dropped.
#[derive(Debug)]
pub struct Relay {
    pub address: SocketAddr,
    shared: Arc<RelayShared>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub fn start(dsp: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::<RelayShared>::default();
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept(&listener, dsp)
        });
        Self { address, shared, thread: Some(thread) }
    }

    /// Disturbs the next connection, but no later one. Forgets what was seen.
    pub fn arm(&self, fault: RelayFault) {
        let mut state = self.shared.lock();
        assert!(state.sockets.is_empty(), "a conversation begins on a new connection");
        state.armed = Some(fault);
        state.conversation = Conversation::default();
        state.seen.clear();
    }

    /// Waits until a request was passed on, or was lost with its connection.
    pub fn until_asked(&self) {
        drop(self.shared.wait("a request", |state| !state.conversation.request_ends.is_empty()));
    }

    /// Waits until nothing is to be passed on. A connection that was lost is closed by then.
    pub fn until_idle(&self) {
        drop(self.shared.wait("its rest", |state| state.is_idle));
    }

    /// What the last armed connection has carried.
    pub fn conversation(&self) -> Conversation {
        self.shared.lock().conversation.clone()
    }

    /// Since it was last armed.
    pub fn seen(&self) -> Vec<SeenRequest> {
        self.shared.lock().seen.clone()
    }

    /// Ends the open connection, if there is one; the exchange has closed it then.
    pub fn end_connection(&self) {
        let state = self.shared.lock();
        if let Some(exchange) = state.sockets.first() {
            let _ = exchange.shutdown(Shutdown::Write);
        }
        drop(state);
        drop(self.shared.wait("the connection's end", |state| state.sockets.is_empty()));
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_stopped = true;
        for socket in &state.sockets {
            let _ = socket.shutdown(Shutdown::Both);
        }
        drop(state);
        let _ = TcpStream::connect(self.address); // Wakes the thread.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl RelayShared {
    fn lock(&self) -> MutexGuard<'_, RelayState> {
        self.state.lock().expect("nothing panics while it holds the state")
    }

    #[track_caller]
    fn wait(&self, what: &str, holds: impl Fn(&RelayState) -> bool) -> MutexGuard<'_, RelayState> {
        let waited = self.changed.wait_timeout_while(self.lock(), PATIENCE, |it| !holds(it));
        let (state, timeout) = waited.expect("nothing panics while it holds the state");
        if timeout.timed_out() {
            let text = format!("the relay waited in vain for {what}: {state:?}");
            drop(state);
            panic!("{text}");
        }
        state
    }

    fn change(&self, change: impl FnOnce(&mut RelayState)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn accept(&self, listener: &TcpListener, dsp: SocketAddr) {
        while let Ok((exchange, _)) = listener.accept() {
            let mut state = self.lock();
            if state.is_stopped {
                return;
            }
            let dsp = TcpStream::connect(dsp).expect("the DSP listens");
            for socket in [&exchange, &dsp] {
                socket.set_nodelay(true).expect("a socket option");
                state.sockets.push(socket.try_clone().expect("a descriptor"));
            }
            let armed = state.armed.take();
            drop(state);
            let carried = Conversation::default();
            let mut link = RelayLink { relay: self, exchange, dsp, armed, carried, read: 0 };
            let _ = link.carry(); // A side may close at any time.
            link.lose();
            self.change(|state| {
                state.sockets.clear();
                state.is_idle = true;
            });
        }
    }
}

/// Whether the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkProgress {
    Open,
    Lost,
}

/// A connection of the exchange, and the one to the DSP.
struct RelayLink<'r> {
    relay: &'r RelayShared,
    exchange: TcpStream,
    dsp: TcpStream,
    /// None if the connection is not to be disturbed.
    armed: Option<RelayFault>,
    carried: Conversation,
    /// Bytes read from the exchange.
    read: usize,
}

impl RelayLink<'_> {
    /// Passes requests and answers on, until a side closes or the connection is to be lost.
    fn carry(&mut self) -> io::Result<()> {
        let mut together = if self.armed.is_some() { TOGETHER } else { 1 };
        let mut bytes = vec![0; PREFACE.len()];
        self.exchange.read_exact(&mut bytes)?;
        loop {
            let mut unanswered = Vec::new();
            while unanswered.len() < together {
                let last = read_until_end_of_stream(&mut self.exchange, &mut bytes)?;
                self.relay.change(|state| state.is_idle = false);
                let progress = self.pass_request(&bytes, last)?;
                if progress == LinkProgress::Lost {
                    self.lose();
                }
                self.carried.request_ends.push(self.read);
                self.publish();
                if progress == LinkProgress::Lost {
                    return Ok(());
                }
                unanswered.push(last.stream);
                bytes.clear();
            }
            together = 1;
            let progress = self.pass_answers(unanswered)?;
            self.publish();
            if progress == LinkProgress::Lost {
                return Ok(());
            }
            self.relay.change(|state| state.is_idle = true);
        }
    }

    fn publish(&self) {
        if self.armed.is_some() {
            self.relay.change(|state| state.conversation = self.carried.clone());
        }
    }

    /// Passes on as much as the fault lets through of a request whose last frame is `last`.
    fn pass_request(&mut self, bytes: &[u8], last: FrameHeader) -> io::Result<LinkProgress> {
        let before = self.read;
        self.read += bytes.len();
        let (passed, progress) = match self.armed {
            Some(RelayFault::LostAfterBytes(cut)) if cut <= self.read => {
                (&bytes[..cut - before], LinkProgress::Lost)
            }
            _ => (bytes, LinkProgress::Open),
        };
        if passed.len() == bytes.len() {
            let seen = SeenRequest::read(&bytes[bytes.len() - last.length..]);
            self.relay.change(|state| state.seen.push(seen));
        }
        self.dsp.write_all(passed)?;
        Ok(progress)
    }

    /// Passes the DSP's frames on until these streams are answered.
    fn pass_answers(&mut self, mut unanswered: Vec<u32>) -> io::Result<LinkProgress> {
        while !unanswered.is_empty() {
            let place = FramePlace { frames: self.carried.frames.len(), is_idle: false };
            if self.disturb(place)? == LinkProgress::Lost {
                return Ok(LinkProgress::Lost);
            }
            let mut frame = Vec::new();
            let header = read_frame(&mut self.dsp, &mut frame)?;
            if let Some(RelayFault::LostAtFrame { place: cut, missing }) = self.armed
                && cut == place
            {
                self.exchange.write_all(&frame[..frame.len().saturating_sub(missing)])?;
                return Ok(LinkProgress::Lost);
            }
            self.exchange.write_all(&frame)?;
            self.carried.frames.push(header);
            if ends_stream(header) {
                unanswered.retain(|stream| *stream != header.stream);
            }
        }
        self.disturb(FramePlace { frames: self.carried.frames.len(), is_idle: true })
    }

    /// Disturbs the connection if `here` is the place, other than by cutting a frame.
    fn disturb(&mut self, here: FramePlace) -> io::Result<LinkProgress> {
        let sent = match self.armed {
            Some(RelayFault::LostAtFrame { place, .. }) if place == here && here.is_idle => {
                return Ok(LinkProgress::Lost);
            }
            Some(RelayFault::Sent(place, sent)) if place == here => sent,
            _ => return Ok(LinkProgress::Open),
        };
        let mut bytes = Vec::new();
        match sent {
            SentFrame::Reset { stream, code } => write_reset(&mut bytes, stream, code),
            SentFrame::GoAway { last_stream, .. } => {
                write_go_away(&mut bytes, last_stream, Http2ErrorCode::NO_ERROR);
            }
        }
        self.exchange.write_all(&bytes)?;
        match sent {
            SentFrame::GoAway { is_lost: true, .. } => Ok(LinkProgress::Lost),
            SentFrame::GoAway { .. } if here.is_idle => {
                drain(&mut self.exchange); // The exchange closes it.
                Ok(LinkProgress::Lost)
            }
            _ => Ok(LinkProgress::Open),
        }
    }

    /// Closes both sides, and waits until exchange and DSP have closed theirs.
    fn lose(&mut self) {
        for socket in [&mut self.exchange, &mut self.dsp] {
            let _ = socket.shutdown(Shutdown::Write);
            drain(socket);
        }
    }
}

impl SeenRequest {
    fn read(body: &[u8]) -> Self {
        let json: serde_json::Value = serde_json::from_slice(body).expect("a JSON request");
        let text = |value: &serde_json::Value| value.as_str().expect("an id").to_owned();
        Self { id: text(&json["id"]), site: text(&json["site"]["id"]) }
    }
}

/// Reads until the peer has closed.
fn drain(socket: &mut TcpStream) {
    let mut buffer = [0; 4096];
    while socket.read(&mut buffer).is_ok_and(|read| read > 0) {}
}

/// Appends a whole frame.
fn read_frame(from: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<FrameHeader> {
    let mut header = [0; FRAME_HEADER_BYTES];
    from.read_exact(&mut header)?;
    bytes.extend_from_slice(&header);
    let header = FrameHeader::read(&header).expect("it is whole");
    let start = bytes.len();
    bytes.resize(start + header.length, 0);
    from.read_exact(&mut bytes[start..])?;
    Ok(header)
}

/// Appends frames up to the one that ends a stream.
fn read_until_end_of_stream(from: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<FrameHeader> {
    loop {
        let header = read_frame(from, bytes)?;
        if ends_stream(header) {
            return Ok(header);
        }
    }
}

/// Whether it is the last frame of a message.
pub fn ends_stream(header: FrameHeader) -> bool {
    let is_message = [FrameType::Data as u8, FrameType::Headers as u8].contains(&header.kind);
    is_message && header.flags & END_STREAM != 0
}
