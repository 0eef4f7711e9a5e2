//! Simulated DSPs: servers that answer bid requests, well or badly. Know only OpenRTB 2.6 over
//! HTTP/1.1, not the exchange.
//!
//! Each DSP answers `POST` on any path of its own address with a bid or 204, and counts the notices
//! of its bids. In a faulty phase of its schedule it misbehaves instead.

mod answer;
mod bid_fault;
mod counters;
mod faulty_answer;
mod markup;
mod notice_kind;
mod notice_urls;
mod notices;
mod profile;
mod profile_file;
mod responder;
mod spread;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};

pub use bid_fault::{BidFault, DspAct, DspBehaviour, DspPhase, DspSchedule, Garble, LEVELS_MAX};
pub use counters::{DspStats, FleetStats, NoticeStats};
pub use notice_kind::{NoticeAnswer, NoticeOptions};
pub use notices::RECENT_MAX;
pub use profile::{BID_BYTES_MAX, BIDS_MAX, DspProfile};
pub use profile_file::{ACTS, ActDoc, load_profiles, parse_profiles, profiles_reference};
pub use spread::{LatencySpread, PriceSpread};

use crate::server::{self, ServerError, ServerOptions, Servers};
use counters::DspCounters;
use notices::Recent;
use responder::DspResponder;

/// The URLs for bid requests to each of `dsps` once they run.
///
/// # Errors
///
/// If the options make no sense, or if they let the system choose the ports.
pub fn urls(dsps: &[DspProfile], options: &ServerOptions) -> Result<Vec<String>, FleetError> {
    check(dsps)?;
    let origins = options.origins(dsps.len())?;
    Ok(origins.iter().map(|origin| url(origin)).collect())
}

fn url(origin: &str) -> String {
    format!("{origin}/bid")
}

/// Why a fleet did not start, or a running one does not change.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A profile makes no sense.
    #[error("dsp {index}: {problem}")]
    Profile {
        /// Place of the profile.
        index: usize,
        /// The problem and the valid limits.
        problem: &'static str,
    },
    /// The server of a DSP.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// A running fleet. Dropping it stops it.
#[derive(Debug)]
pub struct Fleet {
    servers: Servers<DspResponder>,
    counters: Vec<Arc<DspCounters>>,
    recent: Vec<Recent>,
}

/// Starts a server for each of `dsps`: on return, every one listens.
///
/// # Errors
///
/// If the options make no sense, or the system refuses a port, a thread or a core.
pub fn start(mut dsps: Vec<DspProfile>, options: &ServerOptions) -> Result<Fleet, FleetError> {
    check(&dsps)?;
    let count = dsps.len();
    let counters: Vec<_> = (0..count).map(|_| Arc::new(DspCounters::default())).collect();
    let recent: Vec<_> = (0..count).map(|_| Recent::default()).collect();
    let schedules = dsps.iter_mut().map(|dsp| std::mem::take(&mut dsp.schedule)).collect();
    let mut dsps = dsps.into_iter();
    let servers = server::start(options, schedules, |index, origin| {
        let profile = dsps.next().expect("there is a profile for each schedule");
        let (counters, recent) = (Arc::clone(&counters[index]), Arc::clone(&recent[index]));
        DspResponder::new(profile, index, origin.to_owned(), counters, recent)
    })?;
    Ok(Fleet { servers, counters, recent })
}

fn check(dsps: &[DspProfile]) -> Result<(), FleetError> {
    let problem = |(index, dsp): (usize, &DspProfile)| Some((index, dsp.problem()?));
    match dsps.iter().enumerate().find_map(problem) {
        Some((index, problem)) => Err(FleetError::Profile { index, problem }),
        None => Ok(()),
    }
}

impl Fleet {
    /// The DSPs' addresses, in the order of the profiles.
    pub fn addresses(&self) -> &[SocketAddr] {
        self.servers.addresses()
    }

    /// The URL for bid requests to a DSP: `http://<address>/bid`, or `https://` under TLS.
    ///
    /// # Panics
    ///
    /// If there is no such DSP.
    pub fn url(&self, dsp: usize) -> String {
        url(&self.servers.origins()[dsp])
    }

    /// As [`Servers::behave`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_behaviour(
        &self,
        dsp: usize,
        behaviour: impl Into<DspBehaviour>,
    ) -> Result<(), FleetError> {
        Ok(self.servers.behave(dsp, behaviour.into())?)
    }

    /// Sets how a DSP answers notices from now on, and restarts its count of calls. In effect on
    /// return.
    ///
    /// # Errors
    ///
    /// If there is no such DSP, the options make no sense, or the DSP's thread has failed.
    pub fn set_notices(&self, dsp: usize, options: NoticeOptions) -> Result<(), FleetError> {
        match options.problem() {
            Some(problem) => Err(FleetError::Profile { index: dsp, problem }),
            None => Ok(self.servers.change(dsp, options)?),
        }
    }

    /// The last notices that a DSP received, newest last, at most [`RECENT_MAX`]: path and query as
    /// received.
    ///
    /// # Panics
    ///
    /// If there is no such DSP.
    pub fn recent_notices(&self, dsp: usize) -> Vec<String> {
        let recent = self.recent[dsp].lock().unwrap_or_else(PoisonError::into_inner);
        recent.iter().cloned().collect()
    }

    /// The counts of each DSP, and the CPU time of each thread.
    pub fn stats(&self) -> FleetStats {
        FleetStats {
            dsps: self.counters.iter().map(|counters| counters.read()).collect(),
            cpu: self.servers.cpu_times(),
        }
    }

    /// Closes every socket and joins the threads. An error means that a thread failed earlier; its
    /// DSPs have been silent since.
    pub fn stop(self) -> io::Result<()> {
        self.servers.stop()
    }
}
