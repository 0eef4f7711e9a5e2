//! A server's port: listening, or refusing but reserved. Knows no connection.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Backlog of connections, as in mio's own listeners.
const BACKLOG: i32 = 1024;

/// One port.
#[derive(Debug)]
pub(crate) struct ServerPort {
    address: SocketAddr,
    state: PortState,
}

#[derive(Debug)]
enum PortState {
    Open(TcpListener),
    /// Bound but not listening, so that nobody else gets the port. None if binding failed.
    Refusing(Option<OwnedFd>),
}

impl ServerPort {
    /// Listens; port 0 lets the system choose.
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        Ok(Self { address: listener.local_addr()?, state: PortState::Open(listener) })
    }

    /// Its address, whether it listens or not.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match &mut self.state {
            PortState::Open(listener) => registry.register(listener, token, Interest::READABLE),
            PortState::Refusing(_) => Ok(()),
        }
    }

    /// The next connection; a refusing port has none.
    pub(crate) fn accept(&self) -> io::Result<TcpStream> {
        match &self.state {
            PortState::Open(listener) => listener.accept().map(|(stream, _)| stream),
            PortState::Refusing(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Refuses connections, including those in the backlog.
    pub(crate) fn refuse(&mut self) {
        if matches!(self.state, PortState::Open(_)) {
            // The port can be bound again only after its listener is closed.
            self.state = PortState::Refusing(None);
            self.state = PortState::Refusing(bound(self.address).ok());
        }
    }

    /// Listens again. After an error it still refuses.
    pub(crate) fn reopen(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let PortState::Refusing(held) = &mut self.state else { return Ok(()) };
        let socket = match held.take() {
            Some(socket) => socket,
            None => bound(self.address)?,
        };
        rustix::net::listen(&socket, BACKLOG)?;
        let mut listener = TcpListener::from_std(socket.into());
        registry.register(&mut listener, token, Interest::READABLE)?;
        self.state = PortState::Open(listener);
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
    // Connections of the previous listener may linger on the port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}
