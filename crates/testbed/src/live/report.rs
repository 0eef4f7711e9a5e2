//! What a load on a live floor measured, for people and for machines.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::counts::LiveLoadCounts;
use super::options::LiveLoadOptions;
use super::server_process::ProcessFigures;
use crate::load::Quantiles;

/// The report of a run.
#[derive(Clone, Debug, Serialize)]
pub struct LiveLoadReport {
    /// The live floor's address.
    pub target: String,
    /// Measured time, in seconds.
    pub duration_s: f64,
    /// Subscribers that read everything at once.
    pub subscribers: usize,
    /// Measured messages that they received.
    pub delivered: u64,
    /// Per second.
    pub delivered_per_s: u64,
    /// From the due time of a message to its receipt, in microseconds.
    pub latency_us: Quantiles,
    /// Messages that a subscriber missed, of all that were published.
    pub gaps: u64,
    /// Messages that a subscriber got twice.
    pub duplicates: u64,
    /// Messages that the server said it skipped.
    pub skipped: u64,
    /// Connections that the server closed.
    pub closed: u64,
    /// Connections that were opened again.
    pub reconnections: u64,
    /// Messages that the server accepted.
    pub published: u64,
    /// Messages that it refused.
    pub refused: u64,
    /// The first refusal, in the server's words.
    pub refusal: Option<String>,
    /// Share of its time that the generating thread was busy, in parts per million.
    pub generator_busy_ppm: u64,
    /// The server's own figures, if its process is known.
    pub server: Option<ServerFigures>,
}

/// Figures of the server's process.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ServerFigures {
    /// Processor time while measured, of all threads, in microseconds.
    pub cpu_us: u64,
    /// Measured deliveries per second of it.
    pub delivered_per_cpu_s: u64,
    /// Resident memory with everybody connected, before the first message, in KiB.
    pub resident_before_kib: u64,
    /// The most while messages flowed.
    pub resident_peak_kib: u64,
    /// The most bytes in the kernel's send queues of all connections together.
    pub send_queue_peak_bytes: u64,
}

/// What was seen of the server and of this thread.
pub(super) struct RunFigures {
    pub measured: Duration,
    /// Share of its time that this thread was busy.
    pub busy: f64,
    /// With everybody connected, before the first message.
    pub before: Option<ProcessFigures>,
    pub at_begin: Option<ProcessFigures>,
    pub at_end: Option<ProcessFigures>,
    pub peak: ProcessFigures,
}

impl LiveLoadReport {
    pub(super) fn of(
        counts: &LiveLoadCounts,
        options: &LiveLoadOptions,
        times: &RunFigures,
    ) -> Self {
        let per_s = |count: u64, micros: u64| {
            let rate = u128::from(count) * 1_000_000 / u128::from(micros.max(1));
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let micros = u64::try_from(times.measured.as_micros()).unwrap_or(u64::MAX);
        let server = times.before.zip(times.at_begin).zip(times.at_end);
        let server = server.map(|((before, begin), end)| {
            let cpu_us = end.cpu_us - begin.cpu_us;
            ServerFigures {
                cpu_us,
                delivered_per_cpu_s: per_s(counts.delivered, cpu_us),
                resident_before_kib: before.resident_kib,
                resident_peak_kib: times.peak.resident_kib.max(end.resident_kib),
                send_queue_peak_bytes: times.peak.send_queue_bytes,
            }
        });
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
        let generator_busy_ppm = (times.busy * 1_000_000.0) as u64;
        Self {
            target: options.address.to_string(),
            duration_s: times.measured.as_secs_f64(),
            subscribers: options.subscribers,
            delivered: counts.delivered,
            delivered_per_s: per_s(counts.delivered, micros),
            latency_us: Quantiles::of(&counts.latency_us),
            gaps: counts.gaps,
            duplicates: counts.duplicates,
            skipped: counts.skipped,
            closed: counts.closed,
            reconnections: counts.reconnections,
            published: counts.published,
            refused: counts.refused,
            refusal: counts.refusal.clone(),
            generator_busy_ppm,
            server,
        }
    }
}

impl fmt::Display for LiveLoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |f: &mut fmt::Formatter<'_>, name: &str, text: fmt::Arguments<'_>| {
            writeln!(f, "{name:<16} {text}")
        };
        row(f, "target", format_args!("{}", self.target))?;
        row(
            f,
            "delivered",
            format_args!(
                "{} in {:.1} s, {} per second, to {} subscribers",
                self.delivered, self.duration_s, self.delivered_per_s, self.subscribers
            ),
        )?;
        let Quantiles { p50, p99, p999, max, .. } = self.latency_us;
        row(
            f,
            "latency",
            format_args!("p50 {p50} us, p99 {p99} us, p99.9 {p999} us, max {max} us"),
        )?;
        row(f, "order", format_args!("{} gaps, {} duplicates", self.gaps, self.duplicates))?;
        row(
            f,
            "connections",
            format_args!("{} closed, {} opened again", self.closed, self.reconnections),
        )?;
        if self.published + self.refused > 0 {
            row(f, "published", format_args!("{}, {} refused", self.published, self.refused))?;
        }
        if self.skipped > 0 {
            row(f, "skipped", format_args!("{}", self.skipped))?;
        }
        if let Some(refusal) = &self.refusal {
            row(f, "refusal", format_args!("{refusal}"))?;
        }
        if let Some(server) = &self.server {
            row(
                f,
                "server",
                format_args!(
                    "{} ms of processor time, {} deliveries per second of it",
                    server.cpu_us / 1000,
                    server.delivered_per_cpu_s
                ),
            )?;
            row(
                f,
                "memory",
                format_args!(
                    "{} KiB before, {} KiB at most; send queues {} KiB at most",
                    server.resident_before_kib,
                    server.resident_peak_kib,
                    server.send_queue_peak_bytes / 1024
                ),
            )?;
        }
        row(f, "generator", format_args!("{} % busy", self.generator_busy_ppm / 10_000))
    }
}
