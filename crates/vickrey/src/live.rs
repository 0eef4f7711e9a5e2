//! The configuration in force, and what takes its place: at SIGHUP, when its files change, and when
//! an operator asks. A configuration with problems changes nothing.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use exchange_serve::{Exchange, ExchangeConfig, Reloaded};
use runtime::admin::{Configuration, InForce, ReloadError, ReloadSummary};
use runtime::config::{Difference, Effective, Loaded};
use runtime::logging::Logging;
use runtime::metrics::Exposition;
use runtime::reload::{Reload, ReloadBell};
use runtime::traces::Tracer;
use tracing::{error, info, warn};

use crate::config::Config;

/// Longest that an operator waits for files to be read.
const RELOAD_PATIENCE: Duration = Duration::from_secs(30);

/// Differences that are logged one by one; more are counted.
const DIFFERENCES_LOGGED: usize = 20;

/// Tables that are read at the start only, and keys of theirs that are taken over all the same.
const FIXED: [&str; 5] = ["runtime", "admin", "log", "tracing", "budgets"];
const TAKEN_OVER: [&str; 3] = ["runtime.watch", "log.filter", "tracing.sample"];

/// Whoever waits for the configuration to be read.
type Asker = SyncSender<Result<ReloadSummary, ReloadError>>;

/// What the process was started with.
pub(crate) struct StartedWith<'s> {
    pub(crate) file: &'s Path,
    pub(crate) effective: Effective,
    /// See [`Loaded::digest`].
    pub(crate) digest: u64,
    pub(crate) generation: u64,
}

/// The configuration in force. Clones are one.
#[derive(Clone)]
pub(crate) struct Live(Arc<Held>);

struct Held {
    file: PathBuf,
    /// What the process was started with.
    first: Effective,
    now: Mutex<Now>,
    askers: Mutex<Vec<Asker>>,
    bell: ReloadBell,
    logging: Logging,
    tracer: Tracer,
}

struct Now {
    generation: u64,
    loaded_at: SystemTime,
    effective: Effective,
    /// Of the files' contents.
    digest: u64,
    needs_restart: Vec<String>,
    /// Whether the last attempt to replace it failed.
    is_reload_failed: bool,
}

impl Configuration for Live {
    fn in_force(&self) -> InForce {
        let now = self.now();
        InForce {
            generation: now.generation,
            loaded_at: now.loaded_at,
            file: self.0.file.display().to_string(),
            effective: now.effective.to_json(),
            needs_restart: now.needs_restart.clone(),
        }
    }

    fn reload(&self) -> Result<ReloadSummary, ReloadError> {
        let (asker, answer) = sync_channel(1);
        self.askers().push(asker);
        self.0.bell.ring();
        let late = |_| {
            let why = "the configuration was not read in time, or the process comes to its end";
            Err(ReloadError::Unavailable(why.to_owned()))
        };
        answer.recv_timeout(RELOAD_PATIENCE).unwrap_or_else(late)
    }
}

impl Live {
    /// The configuration that the process was started with.
    pub(crate) fn new(
        started: StartedWith<'_>,
        bell: ReloadBell,
        (logging, tracer): (Logging, Tracer),
    ) -> Self {
        let StartedWith { file, effective, digest, generation } = started;
        let now = Now {
            generation,
            loaded_at: SystemTime::now(),
            effective: effective.clone(),
            digest,
            needs_restart: Vec::new(),
            is_reload_failed: false,
        };
        Self(Arc::new(Held {
            file: file.to_owned(),
            first: effective,
            now: Mutex::new(now),
            askers: Mutex::default(),
            bell,
            logging,
            tracer,
        }))
    }

    /// Adds the outcome of reloads to the metrics page, by the names that Prometheus has for its own.
    pub(crate) fn expose(&self, exposition: &mut Exposition) {
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

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.now.lock().expect("nothing panics while it holds what is in force")
    }

    fn askers(&self) -> MutexGuard<'_, Vec<Asker>> {
        self.0.askers.lock().expect("nothing panics while it holds those who ask")
    }

    /// Reads the configuration whenever there is a reason to, until the drain begins. The calling
    /// thread stands back for good: to build a thousand DSPs takes a core 40 ms, and auctions come
    /// first.
    pub(crate) fn follow(&self, reload: &Reload, exchange: &Exchange) {
        if let Err(error) = runtime::process::stand_back() {
            warn!(%error, "reading the configuration may hold up auctions");
        }
        while let Some(trigger) = reload.wait() {
            // Who asks from here on may ask for something newer than what is read now.
            let askers = std::mem::take(&mut *self.askers());
            let watch = |config: &Config| config.watch;
            let read = reload.load(trigger, &self.0.file, Config::read, watch).outcome;
            let outcome = match read {
                Ok(loaded) => self.take_over(loaded, exchange),
                Err(problems) => Err(problems.into()),
            };
            self.now().is_reload_failed = outcome.is_err();
            for asker in askers {
                // Its patience may have ended.
                let _ = asker.send(outcome.clone());
            }
        }
    }

    fn take_over(
        &self,
        loaded: Loaded<Config>,
        exchange: &Exchange,
    ) -> Result<ReloadSummary, ReloadError> {
        let Loaded { value: config, effective, digest } = loaded;
        let mut now = self.now();
        if now.digest == digest {
            info!("the files have not changed; the configuration stays as it is");
            now.loaded_at = SystemTime::now();
            let (generation, needs_restart) = (now.generation, now.needs_restart.clone());
            return Ok(ReloadSummary { generation, needs_restart, ..ReloadSummary::default() });
        }
        drop(now);
        let mut needs_restart = fixed(&self.0.first.differences(&effective));
        let reloaded = match config.exchange {
            Some(config) => {
                let config = ExchangeConfig { text: effective.to_toml(), ..config };
                exchange.reload(config).map_err(|error| {
                    error!(%error, "the configuration is not taken over");
                    ReloadError::Unavailable(error.to_string())
                })?
            }
            None => {
                needs_restart.push("exchange".to_owned());
                Reloaded { number: self.now().generation, ..Reloaded::default() }
            }
        };
        self.0.logging.filter(config.logging.filter);
        if let Some(tracing) = &config.tracing {
            self.0.tracer.set_sample(tracing.sample);
        }
        needs_restart.extend(reloaded.needs_restart.iter().map(|key| (*key).to_owned()));
        let mut now = self.now();
        let differences = now.effective.differences(&effective);
        *now = Now {
            generation: reloaded.number,
            loaded_at: SystemTime::now(),
            effective,
            digest,
            needs_restart: needs_restart.clone(),
            is_reload_failed: false,
        };
        drop(now);
        log(&reloaded, &differences, &needs_restart);
        let generation = reloaded.number;
        Ok(ReloadSummary { generation, differences, needs_restart, campaigns: None })
    }
}

/// The keys among differences that only a start takes over.
fn fixed(differences: &[Difference]) -> Vec<String> {
    let keys = differences.iter().map(|difference| difference.key.as_str());
    let fixed = keys.filter(|key| {
        let table = key.split('.').next().unwrap_or_default();
        FIXED.contains(&table) && !TAKEN_OVER.contains(key)
    });
    fixed.map(str::to_owned).collect()
}

fn log(reloaded: &Reloaded, differences: &[Difference], needs_restart: &[String]) {
    let Reloaded { number, added, removed, .. } = reloaded;
    let changes = differences.len();
    info!(generation = number, changes, ?added, ?removed, "the configuration is taken over");
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
