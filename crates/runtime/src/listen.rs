//! Opens listening sockets, and says which address failed and why. It must not know what is served.

use std::io;
use std::net::{SocketAddr, TcpListener};

use nix::sys::socket::sockopt::ReceiveTimestampns;
use socket2::{Domain, Protocol, Socket, Type};

/// Connections that the kernel queues between two accepts; `net.core.somaxconn` caps it.
const BACKLOG: i32 = 4096;

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {}", remedy(.address, .cause))]
pub struct ListenError {
    /// The address as configured.
    pub address: SocketAddr,
    /// The kernel's error.
    pub cause: io::Error,
}

fn remedy(address: &SocketAddr, error: &io::Error) -> String {
    let port = address.port();
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("port {port} is in use; stop the process that holds it, or choose another port")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("no interface of this machine has the address {}", address.ip())
        }
        io::ErrorKind::PermissionDenied => {
            format!("port {port} needs CAP_NET_BIND_SERVICE; grant it, or choose a port from 1024")
        }
        _ => error.to_string(),
    }
}

/// Opens a non-blocking listener; for port 0 the kernel chooses one.
///
/// # Errors
/// If the address is taken, not ours, or not allowed.
pub fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    open(address).map_err(|cause| ListenError { address, cause })
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must not wait until the kernel forgets the previous connections.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    // Accepted sockets inherit this option: the kernel timestamps received bytes. Without it, the
    // waits of requests are unknown, which does no other harm.
    let _ = nix::sys::socket::setsockopt(&socket, ReceiveTimestampns, &true);
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_address_and_remedy() {
        let taken = listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = taken.local_addr().unwrap();
        let port = address.port();
        assert_eq!(
            listen(address).unwrap_err().to_string(),
            format!(
                "cannot listen on 127.0.0.1:{port}: port {port} is in use; stop the process that \
                 holds it, or choose another port"
            )
        );
        assert_eq!(
            listen(SocketAddr::from(([192, 0, 2, 1], 0))).unwrap_err().to_string(),
            "cannot listen on 192.0.2.1:0: no interface of this machine has the address 192.0.2.1"
        );
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(
            remedy(&SocketAddr::from(([127, 0, 0, 1], 80)), &denied),
            "port 80 needs CAP_NET_BIND_SERVICE; grant it, or choose a port from 1024"
        );
    }
}
