//! The configuration in force, and its replacement at SIGHUP, when its files change, or when an
//! operator asks. A configuration with problems changes nothing.

use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::{error, info, warn};

use super::ServiceReload;
use super::kind::ServiceInstance;
use super::shell_config::{ShellConfig, ShellFile};
use crate::admin::{Configuration, ConfigurationInForce, ReloadError, ReloadSummary, rfc3339};
use crate::builder::Builder;
use crate::config::reload::{Hangup, Reload, ReloadHandle, Trigger, WatchedFiles, load};
use crate::config::{Effective, Loaded, Section, SettingDifference, Sources};
use crate::logging::Logging;
use crate::metrics::Exposition;
use crate::shutdown::Shutdown;
use crate::traces::Tracer;

/// Longest that an operator waits for a reload.
const RELOAD_WAIT_MAX: Duration = Duration::from_secs(30);

/// Differences logged one by one; the rest are counted.
const DIFFERENCES_LOGGED: usize = 20;

/// Tables of the shell that are read only at startup, and their keys that a reload still applies.
const FIXED_TABLES: [&str; 4] = ["runtime", "admin", "log", "tracing"];
const RELOADABLE_KEYS: [&str; 3] = ["runtime.watch", "log.filter", "tracing.sample"];

/// Waits for the result of a reload.
type ReloadWaiter = SyncSender<Result<ReloadSummary, ReloadError>>;

/// The configuration in force. Clones share it.
#[derive(Clone)]
pub(super) struct LiveConfiguration(Arc<LiveState>);

struct LiveState {
    file: PathBuf,
    /// The startup configuration.
    first: Effective,
    now: Mutex<ConfigurationNow>,
    waiters: Mutex<Vec<ReloadWaiter>>,
    handle: OnceLock<ReloadHandle>,
    read: fn(&mut Section<'_>) -> ShellConfig,
    logging: Logging,
    tracer: Tracer,
    services: Vec<ServiceInstance>,
    fixed: Vec<&'static str>,
}

struct ConfigurationNow {
    generation: u64,
    loaded_at: SystemTime,
    effective: Effective,
    /// Digest of the files' contents.
    digest: u64,
    needs_restart: Vec<String>,
    is_reload_failed: bool,
}

pub(super) struct ReloadTargets {
    pub(super) services: Vec<ServiceInstance>,
    pub(super) fixed: Vec<&'static str>,
    pub(super) tracer: Tracer,
}

impl Configuration for LiveConfiguration {
    fn in_force(&self) -> ConfigurationInForce {
        let now = self.now();
        ConfigurationInForce {
            generation: now.generation,
            loaded_at: rfc3339(now.loaded_at),
            file: self.0.file.display().to_string(),
            needs_restart: now.needs_restart.clone(),
            configuration: now.effective.to_json(),
        }
    }

    /// Also rereads the files of services.
    fn reload(&self) -> Result<ReloadSummary, ReloadError> {
        let (waiter, answer) = sync_channel(1);
        self.waiters().push(waiter);
        if let Some(handle) = self.0.handle.get() {
            handle.request();
        }
        let late = |_| {
            let why = "the configuration was not read in time, or the process comes to its end";
            Err(ReloadError::Unavailable(why.to_owned()))
        };
        let summary = answer.recv_timeout(RELOAD_WAIT_MAX).unwrap_or_else(late)?;
        let files = self.0.services.iter().filter_map(|of| of.service.reload_files()).collect();
        Ok(ReloadSummary { files, ..summary })
    }
}

impl LiveConfiguration {
    pub(super) fn new(
        file: ShellFile<'_>,
        effective: Effective,
        generation: u64,
        by: ReloadTargets,
    ) -> Self {
        let now = ConfigurationNow {
            generation,
            loaded_at: SystemTime::now(),
            effective: effective.clone(),
            digest: file.digest,
            needs_restart: Vec::new(),
            is_reload_failed: false,
        };
        let ReloadTargets { services, fixed, tracer } = by;
        Self(Arc::new(LiveState {
            file: file.path.to_owned(),
            first: effective,
            now: Mutex::new(now),
            waiters: Mutex::default(),
            handle: OnceLock::new(),
            read: file.read,
            logging: file.logging,
            tracer,
            services,
            fixed,
        }))
    }

    /// Exposes the outcome of reloads under the names that Prometheus uses for its own.
    pub(super) fn expose(&self, exposition: &mut Exposition) {
        let live = self.clone();
        exposition.add(move |page| {
            let now = live.now();
            let help = "Whether the last attempt to read the configuration succeeded.";
            page.gauges("config_last_reload_successful", help)?
                .value(&[], i64::from(!now.is_reload_failed))?;
            let help = "When the configuration was last read with success, since 1970.";
            page.gauges("config_last_reload_success_timestamp_seconds", help)?
                .seconds(&[], now.loaded_at.duration_since(UNIX_EPOCH).unwrap_or_default())
        });
    }

    fn now(&self) -> MutexGuard<'_, ConfigurationNow> {
        self.0.now.lock().expect("nothing panics while it holds what is in force")
    }

    fn waiters(&self) -> MutexGuard<'_, Vec<ReloadWaiter>> {
        self.0.waiters.lock().expect("nothing panics while it holds those who wait")
    }

    /// Reloads the configuration on every trigger until `shutdown` begins. The builder does this:
    /// building a thousand DSPs takes a core 40 ms, and requests have priority.
    pub(super) fn follow(
        &self,
        builder: &Builder,
        hangup: Hangup,
        watched: WatchedFiles,
        shutdown: &Shutdown,
    ) -> Reload {
        let (live, mut interval) = (self.clone(), watched.interval);
        let reload = Reload::start(builder, hangup, watched, shutdown, move |trigger| {
            let (sources, changed) = live.read(&trigger);
            interval = changed.unwrap_or(interval);
            WatchedFiles { sources, interval, retry_after: None }
        });
        self.0.handle.get_or_init(|| reload.handle());
        reload
    }

    /// Reads and applies the files. Also returns how often to check them, if known.
    fn read(&self, trigger: &Trigger) -> (Sources, Option<Duration>) {
        // Later waiters may need newer files than the ones read now.
        let waiters = std::mem::take(&mut *self.waiters());
        let (loaded, sources) = load(trigger, &self.0.file, self.0.read);
        let interval = loaded.as_ref().ok().map(|loaded| loaded.value.watch);
        let outcome = match loaded {
            Ok(loaded) => self.apply(loaded),
            Err(problems) => Err(problems.into()),
        };
        self.now().is_reload_failed = outcome.is_err();
        for waiter in waiters {
            // The waiter may have timed out.
            let _ = waiter.send(outcome.clone());
        }
        (sources, interval)
    }

    fn apply(&self, loaded: Loaded<ShellConfig>) -> Result<ReloadSummary, ReloadError> {
        let Loaded { value: mut config, effective, digest } = loaded;
        let mut now = self.now();
        if now.digest == digest {
            info!("the files have not changed; the configuration stays as it is");
            now.loaded_at = SystemTime::now();
            let (generation, needs_restart) = (now.generation, now.needs_restart.clone());
            return Ok(ReloadSummary { generation, needs_restart, ..ReloadSummary::default() });
        }
        let former = now.generation;
        drop(now);
        let mut needs_restart = self.needs_restart(&effective);
        let mut all = ServiceReload::default();
        for instance in &self.0.services {
            let section = config.services.remove(instance.kind.name);
            let reloaded = instance.reload(section, &effective).map_err(|error| {
                error!(%error, "the configuration is not taken over");
                ReloadError::Unavailable(error.to_string())
            })?;
            all.generation = all.generation.max(reloaded.generation);
            all.added.extend(reloaded.added);
            all.removed.extend(reloaded.removed);
            needs_restart.extend(reloaded.needs_restart);
        }
        // Sections of services that do not run.
        needs_restart.extend(config.services.keys().map(|name| (*name).to_owned()));
        needs_restart.dedup();
        self.0.logging.filter(config.logging.filter);
        if let Some(tracing) = &config.tracing {
            self.0.tracer.set_sample(tracing.sample);
        }
        let generation = all.generation.unwrap_or(former + 1);
        let mut now = self.now();
        let differences = now.effective.differences(&effective);
        *now = ConfigurationNow {
            generation,
            loaded_at: SystemTime::now(),
            effective,
            digest,
            needs_restart: needs_restart.clone(),
            is_reload_failed: false,
        };
        drop(now);
        log(generation, &all, &differences, &needs_restart);
        Ok(ReloadSummary { generation, differences, needs_restart, files: Vec::new() })
    }

    /// Keys that differ from the startup configuration and need a restart.
    fn needs_restart(&self, effective: &Effective) -> Vec<String> {
        let differences = self.0.first.differences(effective);
        let keys = differences.iter().map(|difference| difference.key.as_str());
        let fixed = keys.filter(|key| {
            let table = key.split('.').next().unwrap_or_default();
            let is_fixed = FIXED_TABLES.contains(&table) || self.0.fixed.contains(&table);
            is_fixed && !RELOADABLE_KEYS.contains(key)
        });
        fixed.map(str::to_owned).collect()
    }
}

fn log(
    generation: u64,
    all: &ServiceReload,
    differences: &[SettingDifference],
    needs_restart: &[String],
) {
    let ServiceReload { added, removed, .. } = all;
    let changes = differences.len();
    info!(generation, changes, ?added, ?removed, "the configuration is taken over");
    for difference in differences.iter().take(DIFFERENCES_LOGGED) {
        info!("{difference}");
    }
    if changes > DIFFERENCES_LOGGED {
        info!("and {} more", changes - DIFFERENCES_LOGGED);
    }
    for key in needs_restart {
        warn!(key, "a changed key takes effect at the next start only");
    }
}
