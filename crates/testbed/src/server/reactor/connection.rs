//! One connection to one server, whatever its version of HTTP; finds out which version that is.
//! Knows neither poll nor clock: the reactor reports that the socket is ready or an alarm is due.

use std::io;

use super::context::{Buffers, ConnectionStep, ThreadContext};
use super::multiplexed::MultiplexedConnection;
use super::sequential::SequentialConnection;
use super::socket::{ServedSocket, SocketInput};
use super::wire::Wire;
use crate::server::options::ServedVersions;
use crate::server::responder::SimulatedService;
use crate::server::version::{VersionChoice, choose};

#[derive(Debug)]
pub(super) enum ServedConnection {
    /// Its version is unknown. None only while it becomes known.
    Opening(Option<OpeningConnection>),
    /// HTTP/1.1
    Sequential(SequentialConnection),
    /// HTTP/2
    Multiplexed(Box<MultiplexedConnection>),
}

/// A connection whose first bytes do not tell its version yet.
#[derive(Debug)]
pub(super) struct OpeningConnection {
    socket: ServedSocket,
    first: Vec<u8>,
}

impl ServedConnection {
    pub(super) const fn new(wire: Wire) -> Self {
        let socket = ServedSocket::new(wire);
        Self::Opening(Some(OpeningConnection { socket, first: Vec::new() }))
    }

    /// The socket has something to read, room to write, or both.
    pub(super) fn ready(
        &mut self,
        event: &mio::event::Event,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> ConnectionStep {
        let socket = match self {
            Self::Opening(Some(opening)) => &mut opening.socket,
            Self::Opening(None) => return ConnectionStep::Close,
            Self::Sequential(connection) => connection.socket_mut(),
            Self::Multiplexed(connection) => connection.socket_mut(),
        };
        if !socket.note(event) {
            return ConnectionStep::Close;
        }
        match self {
            Self::Multiplexed(connection) => connection.gather(),
            Self::Opening(_) | Self::Sequential(_) => self.advance(context),
        }
    }

    /// An alarm of `stream` is due; 0 is the connection itself.
    pub(super) fn ring(
        &mut self,
        stream: u32,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> ConnectionStep {
        match self {
            Self::Opening(_) => ConnectionStep::Idle,
            Self::Sequential(connection) => connection.ring(context),
            Self::Multiplexed(connection) => connection.ring(stream, context),
        }
    }

    /// Does everything that needs no waiting.
    pub(super) fn advance(
        &mut self,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> ConnectionStep {
        if let Self::Opening(opening) = self {
            let Ok(choice) = opening.as_mut().map_or(Ok(VersionChoice::Neither), |opening| {
                opening.choose(context.versions, context.buffers)
            }) else {
                return ConnectionStep::Close;
            };
            let Some(OpeningConnection { socket, first }) = opening.take() else {
                return ConnectionStep::Close;
            };
            *self = match choice {
                VersionChoice::Undecided => {
                    Self::Opening(Some(OpeningConnection { socket, first }))
                }
                VersionChoice::Http1 => Self::Sequential(SequentialConnection::new(socket, first)),
                VersionChoice::Http2 => {
                    let body_bytes_max = context.body_bytes_max;
                    let connection = MultiplexedConnection::new(socket, first, body_bytes_max);
                    Self::Multiplexed(Box::new(connection))
                }
                VersionChoice::Neither => return ConnectionStep::Close,
            };
        }
        match self {
            Self::Opening(_) => ConnectionStep::Idle,
            Self::Sequential(connection) => connection.advance(context),
            Self::Multiplexed(connection) => connection.advance(context),
        }
    }
}

impl OpeningConnection {
    fn choose(
        &mut self,
        versions: ServedVersions,
        buffers: &mut Buffers,
    ) -> io::Result<VersionChoice> {
        while self.socket.is_readable() {
            match self.socket.read(&mut buffers.input)? {
                SocketInput::Bytes(count) => self.first.extend_from_slice(&buffers.input[..count]),
                SocketInput::Dry => break,
                SocketInput::End => return Ok(VersionChoice::Neither),
            }
            match choose(versions, self.socket.protocol(), &self.first) {
                VersionChoice::Undecided => (),
                choice => return Ok(choice),
            }
        }
        Ok(VersionChoice::Undecided)
    }
}
