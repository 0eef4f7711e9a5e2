//! A DSP's port: listening, or refusing while it stays the DSP's own. Knows no connection.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Connections that wait to be accepted, as mio's own listeners have it.
const BACKLOG: i32 = 1024;

/// One port.
#[derive(Debug)]
pub(super) struct Port {
    address: SocketAddr,
    state: State,
}

#[derive(Debug)]
enum State {
    Open(TcpListener),
    /// Bound and not listening, so that nobody else is given the port; `None` where that failed.
    Refusing(Option<OwnedFd>),
}

impl Port {
    /// Listens; port 0 lets the system choose.
    pub(super) fn open(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        Ok(Self { address: listener.local_addr()?, state: State::Open(listener) })
    }

    /// Where it is, whether it listens or not.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match &mut self.state {
            State::Open(listener) => registry.register(listener, token, Interest::READABLE),
            State::Refusing(_) => Ok(()),
        }
    }

    /// The next connection; a refusing port has none.
    pub(super) fn accept(&self) -> io::Result<TcpStream> {
        match &self.state {
            State::Open(listener) => listener.accept().map(|(stream, _)| stream),
            State::Refusing(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Refuses connections from now on, those that wait included.
    pub(super) fn refuse(&mut self) {
        if matches!(self.state, State::Open(_)) {
            // The port can be bound again only once its listener is gone.
            self.state = State::Refusing(None);
            self.state = State::Refusing(bound(self.address).ok());
        }
    }

    /// Listens again, if it does not. An error leaves it refusing.
    pub(super) fn reopen(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let State::Refusing(held) = &mut self.state else { return Ok(()) };
        let socket = match held.take() {
            Some(socket) => socket,
            None => bound(self.address)?,
        };
        rustix::net::listen(&socket, BACKLOG)?;
        let mut listener = TcpListener::from_std(socket.into());
        registry.register(&mut listener, token, Interest::READABLE)?;
        self.state = State::Open(listener);
        Ok(())
    }
}

fn bound(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Connections of the listener before may still linger on the port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}
