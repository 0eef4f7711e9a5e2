//! Gives each connection to the shard with the fewest open ones. It must not know what is served.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc;
use tracing::warn;

use super::metrics::ShardsMetrics;
use super::options::ShardsOptions;
use super::shard::Handover;
use super::start::{Ready, ShardsStartError};
use super::table::{ConnectionLimits, ConnectionTable, TableEntry};
use crate::shutdown::Shutdown;

/// Pauses after failed accepts: they double from the first to the last.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(100);

pub(super) struct Acceptor {
    lanes: Vec<mpsc::Sender<Handover>>,
    metrics: ShardsMetrics,
    table: ConnectionTable,
}

impl Acceptor {
    pub(super) fn new(
        lanes: Vec<mpsc::Sender<Handover>>,
        metrics: ShardsMetrics,
        options: &ShardsOptions,
    ) -> Self {
        let limits = ConnectionLimits {
            total: options.connections_max,
            per_address: options.connections_per_caller_max,
        };
        Self { lanes, metrics, table: ConnectionTable::new(limits) }
    }

    /// Accepts until the shutdown begins, then drops listeners and lanes: the kernel refuses
    /// clients, and shards see the end of their lanes.
    pub(super) fn run(
        self,
        listeners: Vec<std::net::TcpListener>,
        shutdown: &Shutdown,
        ready: &Ready,
    ) {
        let refused = |cause| ShardsStartError::Runtime { name: "acceptor".to_owned(), cause };
        // The starter waits for exactly one message.
        let runtime =
            match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(refused(error)))),
            };
        let acceptor = Rc::new(self);
        runtime.block_on(async move {
            for (index, listener) in listeners.into_iter().enumerate() {
                match TcpListener::from_std(listener) {
                    Ok(listener) => {
                        let acceptor = Rc::clone(&acceptor);
                        tokio::task::spawn_local(async move {
                            acceptor.accept_from(&listener, index).await;
                        });
                    }
                    Err(error) => return drop(ready.send(Err(refused(error)))),
                }
            }
            drop(ready.send(Ok(())));
            shutdown.started().await;
        });
    }

    async fn accept_from(&self, listener: &TcpListener, index: usize) {
        let mut burst = Burst::default();
        loop {
            match accept(listener).await {
                Ok((stream, peer)) => {
                    burst = Burst::default();
                    match self.enter(peer) {
                        Some(entry) => {
                            self.hand_over(Handover { stream, listener: index, peer, entry });
                        }
                        // Dropping the stream closes it.
                        None => self.metrics.acceptor.refused.increment(),
                    }
                }
                Err(error) => {
                    self.metrics.acceptor.failed.increment();
                    if !concerns_one_client(&error) {
                        burst.pause(&error).await;
                    }
                }
            }
        }
    }

    fn enter(&self, peer: SocketAddr) -> Option<TableEntry> {
        let entry = self.table.enter(peer.ip())?;
        if entry.evicted_another {
            self.metrics.acceptor.evicted.increment();
        }
        Some(entry)
    }

    fn hand_over(&self, handover: Handover) {
        let counters = self.metrics.acceptor.handed.iter().zip(self.metrics.shards.iter());
        let least =
            self.lanes.iter().zip(counters).filter(|(lane, _)| !lane.is_closed()).min_by_key(
                |(_, (handed, shard))| handed.value().saturating_sub(shard.closed.value()),
            );
        let lane = least.map(|(lane, counters)| (lane.try_reserve(), counters));
        if let Some((Ok(lane), (handed, _))) = lane {
            // Count first: otherwise the shard could close the connection before it counts as open.
            handed.increment();
            lane.send(handover);
        } else {
            self.metrics.acceptor.refused.increment();
            drop(handover); // Closes the socket.
        }
    }
}

/// Accepts a socket without Nagle's delay, not yet registered with a runtime.
async fn accept(listener: &TcpListener) -> io::Result<(std::net::TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    // If the peer is gone, this fails here and again on the shard, which handles it.
    let _ = stream.set_nodelay(true);
    Ok((stream.into_std()?, peer))
}

/// Whether the next accept may succeed at once: this client left, or a signal came.
fn concerns_one_client(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

/// Consecutive failures, most often because descriptors ran out: logged once, retried ever slower.
#[derive(Default)]
struct Burst {
    pause: Duration,
}

impl Burst {
    async fn pause(&mut self, error: &io::Error) {
        if self.pause.is_zero() {
            warn!(%error, "cannot accept connections; retrying until it passes");
        }
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        tokio::time::sleep(self.pause).await;
    }
}
