//! The configuration file as a whole: the shell's own sections, and those of services.

use std::path::Path;
use std::time::Duration;

use super::Service;
use super::services::{ServiceConfigs, Services};
use crate::admin::AdminOptions;
use crate::config::{Section, Sources, ms, secs};
use crate::logging::{Logging, LoggingOptions};
use crate::shards::ShardsOptions;
use crate::traces::TracingOptions;

/// The whole configuration file: the shell's own sections and those of services.
pub struct ShellConfig {
    /// Shards and limits on their connections.
    pub shards: ShardsOptions,
    /// Longest drain after the first signal.
    pub drain: Duration,
    /// Interval between checks of the files for changes. Zero if they are not checked.
    pub watch: Duration,
    /// The admin listener.
    pub admin: AdminOptions,
    /// Log lines.
    pub logging: LoggingOptions,
    /// Traces. None if nothing is traced.
    pub tracing: Option<TracingOptions>,
    pub(super) services: ServiceConfigs,
}

impl ShellConfig {
    /// Declares and reads the whole file for a binary with `services`.
    pub fn read(services: &Services, s: &mut Section<'_>) -> Self {
        s.includes();
        let about = "Threads, connections, shutdown and configuration reloads.";
        let (shards, drain, watch) = s.section("runtime", about, |s| {
            let drain = s.duration(
                "drain",
                "10s",
                ms(0)..=secs(3600),
                "Maximum time to finish requests in flight after the first SIGINT or SIGTERM. A \
                 second signal ends the drain.",
            );
            let watch = s.duration(
                "watch",
                "1s",
                ms(0)..=secs(3600),
                "Interval at which configuration files and secret files are checked for changes. A \
                 change is loaded once two checks in a row agree. `0s` disables the checks; SIGHUP \
                 still reloads.",
            );
            (ShardsOptions::read(s), drain, watch)
        });
        let about = "Health checks, metrics and the admin API.";
        let admin = s.section("admin", about, AdminOptions::read);
        let logging = s.section("log", "Log output on stderr.", LoggingOptions::read);
        let about = "Traces of sampled auctions, exported to an OpenTelemetry collector.";
        let tracing = s.table("tracing", about, TracingOptions::read);
        let services = services.read(s);
        Self { shards, drain, watch, admin, logging, tracing, services }
    }

    /// The section of a service. None if the file does not have it.
    pub fn service<S: Service>(&self) -> Option<&S::Config> {
        self.services.get(S::NAME)?.downcast_ref()
    }

    /// The same, mutable, for values that follow from another section.
    pub fn service_mut<S: Service>(&mut self) -> Option<&mut S::Config> {
        self.services.get_mut(S::NAME)?.downcast_mut()
    }

    /// Takes out the section of a service, to run it alone.
    pub fn take_service<S: Service>(&mut self) -> Option<S::Config> {
        let config = self.services.remove(S::NAME)?.downcast().ok()?;
        Some(*config)
    }
}

/// The file that a process was started with and rereads.
pub struct ShellFile<'f> {
    /// Its path.
    pub path: &'f Path,
    /// Everything read, with included files and secrets.
    pub sources: Sources,
    /// See [`Loaded::digest`](crate::config::Loaded::digest).
    pub digest: u64,
    /// Reads it.
    pub read: fn(&mut Section<'_>) -> ShellConfig,
    /// Logging, whose filter a reload changes.
    pub logging: Logging,
}
