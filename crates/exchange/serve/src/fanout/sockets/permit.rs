//! Limits the sockets that a shard has open to DSPs.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use rustix::io::Errno;

/// Sockets that may still be opened.
#[derive(Debug)]
pub(super) struct SocketAllowance(Rc<Cell<usize>>);

/// Permits one open socket until dropped.
#[derive(Debug)]
pub(crate) struct SocketPermit(Rc<Cell<usize>>);

impl SocketAllowance {
    pub(super) fn new(sockets_max: usize) -> Self {
        Self(Rc::new(Cell::new(sockets_max)))
    }

    pub(super) fn left(&self) -> usize {
        self.0.get()
    }

    /// # Errors
    /// `EMFILE` if the shard's share of descriptors is used up.
    pub(super) fn permit(&self) -> io::Result<SocketPermit> {
        let left = self.0.get().checked_sub(1).ok_or(Errno::MFILE)?;
        self.0.set(left);
        Ok(SocketPermit(Rc::clone(&self.0)))
    }
}

impl Drop for SocketPermit {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}
