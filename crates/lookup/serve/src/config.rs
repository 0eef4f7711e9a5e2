//! `[lookup]`: its listener, the maps of providers, and the limits on queries and calls.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cache_disk::{DiskAdmission, DiskLimits};
use runtime::config::{Required, Section, ms, secs};
use runtime::service::{ClientCertificates, ClientTimeouts, HeadLimits, read_server};
use rustls::ServerConfig;

/// The table `[lookup]`.
#[derive(Clone, Debug)]
pub struct LookupConfig {
    /// Address for clients.
    pub listen: SocketAddr,
    /// None: clients connect without TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// Pattern of the files that describe the providers.
    pub maps: String,
    /// Limits on queries.
    pub queries: LookupLimits,
    /// Limits on calls.
    pub calls: ProviderCallLimits,
    /// Most bytes of values in memory.
    pub memory_bytes: usize,
    /// Where answers survive the process. None: nowhere.
    pub disk: Option<LookupDisk>,
    /// How long clients are waited for.
    pub timeouts: ClientTimeouts,
}

/// The table `[lookup.disk]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupDisk {
    /// Directory of the files. Relative to that of the configuration file.
    pub directory: PathBuf,
    /// Bytes of all files.
    pub bytes_max: u64,
}

/// Limits on queries and their answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupLimits {
    /// The time of a query that does not say.
    pub timeout: Duration,
    /// Longest time of a query.
    pub timeout_max: Duration,
    /// Most calls of a query that somebody waits for.
    pub calls_max: u64,
    /// Most calls of a query in the background.
    pub background_calls_max: u64,
    /// Most queries that run.
    pub running_max: usize,
    /// Most bytes of answers that wait for their clients.
    pub answers_bytes: usize,
    /// How long an answer is kept after it was asked for last.
    pub keep: Duration,
}

/// Limits on calls of providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderCallLimits {
    /// Most bytes of an answer.
    pub answer_bytes: usize,
    /// Most calls at a time, each with its connection. As many may be idle.
    pub connections: usize,
    /// Most calls of each class that wait for an instance of a provider.
    pub waiting_max: usize,
    /// Most bytes of answers that are kept while they count.
    pub cache_bytes: usize,
    /// Most bytes of merged answers that are kept likewise.
    pub merged_bytes: usize,
}

impl LookupConfig {
    /// Limits on the head of a request: a query may be part of it.
    pub(crate) const HEADS: HeadLimits = HeadLimits { bytes_max: 128 << 10, fields_max: 100 };

    /// Reads the keys of `[lookup]`.
    pub fn read(s: &mut Section<'_>) -> Self {
        let listen = s.socket_address(
            "listen",
            Required("127.0.0.1:7400"),
            "Address for clients. See docs/lookup.md.",
        );
        let maps = s.text(
            "maps",
            Required("maps/*.toml"),
            "Files that describe the providers: a path, or a pattern with `*` in its last part, \
             relative to this file. See docs/lookup.md.",
        );
        let queries = LookupLimits::read(s);
        let calls = ProviderCallLimits::read(s);
        let memory_bytes = s.bytes(
            "memory",
            "64MiB",
            1 << 16..=1 << 40,
            "Maximum size of what is known about single values, for [[exchange.enrich]]. Beyond it, \
             values that are asked for least are forgotten.",
        );
        let idle = "A connection without a request for this long is closed.";
        let timeouts = ClientTimeouts::read(s, idle);
        let tls = s.table("tls", "TLS towards clients, with HTTP/2.", |s| {
            read_server(s, &["h2", "http/1.1"], ClientCertificates::Configurable)
        });
        let about =
            "Disk on which a later process finds the answers of providers again, while they count.";
        let disk = s.table("disk", about, LookupDisk::read);
        Self { listen, tls: tls.flatten(), maps, queries, calls, memory_bytes, disk, timeouts }
    }
}

impl LookupDisk {
    /// Answers that wait to be written, in bytes. Beyond it, they are not.
    const WAITING_MAX: usize = 64 << 20;
    /// Longest wait for the disk. After it, the provider is asked.
    const READ_TIMEOUT: Duration = ms(250);
    const READERS: usize = 2;

    fn read(s: &mut Section<'_>) -> Self {
        let directory = s.text(
            "directory",
            "vickrey-lookup",
            "Directory of the files, which no other process may use. Relative to the configuration \
             file.",
        );
        let size = s.bytes(
            "size",
            "1GiB",
            64 << 20..=1 << 44,
            "Maximum size of all files. Answers that take more than a sixteenth of it, or 256 MiB, are \
             not written.",
        );
        Self { directory: directory.into(), bytes_max: size as u64 }
    }

    pub(crate) const fn limits(&self) -> DiskLimits {
        DiskLimits {
            bytes_max: self.bytes_max,
            waiting_max: Self::WAITING_MAX,
            read_timeout: Self::READ_TIMEOUT,
            readers: Self::READERS,
            admission: DiskAdmission::First,
        }
    }
}

impl LookupLimits {
    fn read(s: &mut Section<'_>) -> Self {
        let timeout = s.duration(
            "timeout",
            "30s",
            ms(1)..=secs(3_600),
            "Time of a query that does not say how much it has. Then it is answered with what there is.",
        );
        let timeout_max =
            s.duration("timeout_max", "10m", ms(1)..=secs(86_400), "Maximum time of a query.");
        if timeout_max < timeout {
            s.problem("timeout", format!("{timeout:?}"), "must not be more than `timeout_max`");
        }
        let calls_max = s.integer(
            "calls",
            1_000,
            1..=1_000_000_000_u64,
            "Maximum number of calls of a query, as estimated. One that needs more is refused, unless \
             it is a background query.",
        );
        let background_calls_max = s.integer(
            "background_calls",
            100_000,
            1..=1_000_000_000_u64,
            "Likewise, of a background query.",
        );
        Self {
            timeout,
            timeout_max,
            calls_max,
            background_calls_max,
            running_max: s.integer(
                "running",
                10_000,
                1..=1_000_000_usize,
                "Maximum number of queries that run. Further ones are refused with 429.",
            ),
            answers_bytes: s.bytes(
                "answers",
                "256MiB",
                1 << 20..=1 << 40,
                "Maximum size of all answers that are kept for their clients. Beyond it, those that \
                 were asked for least recently are forgotten.",
            ),
            keep: s.duration(
                "keep",
                "10m",
                secs(1)..=secs(86_400),
                "How long an answer is kept after a client asked for it last.",
            ),
        }
    }
}

impl ProviderCallLimits {
    fn read(s: &mut Section<'_>) -> Self {
        Self {
            answer_bytes: s.bytes(
                "answer_max",
                "64MiB",
                1 << 10..=1 << 32,
                "Maximum size of a provider's answer.",
            ),
            connections: s.integer(
                "connections",
                1_024,
                1..=1_000_000_usize,
                "Maximum number of calls at a time, to all providers together. As many idle connections may \
                 be open besides.",
            ),
            waiting_max: s.integer(
                "waiting",
                10_000,
                1..=10_000_000_usize,
                "Maximum number of calls that wait for one instance of a provider, for each class of \
                 queries. Further ones are not made, and answers say so.",
            ),
            cache_bytes: s.bytes(
                "cache",
                "256MiB",
                1 << 20..=1 << 40,
                "Maximum size of providers' answers that are kept while they count.",
            ),
            merged_bytes: s.bytes(
                "merged",
                "256MiB",
                1 << 20..=1 << 40,
                "Maximum size of complete answers to queries that are kept while they count: they \
                 answer the same query again, and narrower ones.",
            ),
        }
    }
}
