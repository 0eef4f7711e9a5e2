//! Opens TCP connections, and tells whose fault a failure is.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Whether this machine, not the DSP, lacks room for a connection.
pub(crate) fn is_local(error: &io::Error) -> bool {
    use Errno as E;
    let ours = [E::MFILE, E::NFILE, E::NOBUFS, E::NOMEM, E::NOSPC, E::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|errno| ours.contains(&errno))
}

/// Tokio waits for the connect; from then on the reactor waits for answers.
pub(crate) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

pub(crate) fn mio_socket(socket: TcpStream) -> io::Result<mio::net::TcpStream> {
    socket.into_std().map(mio::net::TcpStream::from_std)
}

pub(crate) async fn within<T>(
    limit: Duration,
    opening: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let timed_out = || io::Error::new(io::ErrorKind::TimedOut, "timed out");
    timeout(limit, opening).await.unwrap_or_else(|_| Err(timed_out()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_machine_lacks_is_no_fault_of_a_dsp() {
        let of = |errno: Errno| is_local(&io::Error::from(errno));
        assert!(of(Errno::MFILE) && of(Errno::NFILE) && of(Errno::ADDRNOTAVAIL));
        assert!(!of(Errno::CONNREFUSED) && !of(Errno::TIMEDOUT) && !of(Errno::HOSTUNREACH));
        assert!(!is_local(&io::Error::new(io::ErrorKind::TimedOut, "timed out")));
    }
}
