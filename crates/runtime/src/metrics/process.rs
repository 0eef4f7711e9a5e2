//! Process metrics, named as in Prometheus' client libraries. Unreadable ones are left out.

use std::fmt;
use std::fs;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::MetricsPage;

/// The unit of times in `/proc`: `sysconf(_SC_CLK_TCK)` on every Linux.
const TICKS_PER_SECOND: u64 = 100;

/// Writes the metrics; the page must add no prefix.
pub(super) fn expose(page: &mut MetricsPage<'_>) -> fmt::Result {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    if let Ok(used) = Duration::try_from(used) {
        page.counters("process_cpu_seconds", "CPU time, user and system.")?.seconds(&[], used)?;
    }
    if let Some(since_1970) = start_time() {
        page.gauges("process_start_time_seconds", "Start of the process, in seconds since 1970.")?
            .seconds(&[], since_1970)?;
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (name, key, help) in [
        ("process_resident_memory_bytes", "VmRSS:", "Resident memory."),
        ("process_virtual_memory_bytes", "VmSize:", "Mapped memory."),
    ] {
        if let Some(bytes) = memory_bytes(&status, key) {
            page.gauges(name, help)?.value(&[], bytes)?;
        }
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        let open = i64::try_from(open.count()).unwrap_or(i64::MAX);
        page.gauges("process_open_fds", "Open descriptors.")?.value(&[], open)?;
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        page.gauges("process_max_fds", "Limit on open descriptors.")?.value(&[], most)?;
    }
    Ok(())
}

/// When the process began, since 1970.
fn start_time() -> Option<Duration> {
    let boot = fs::read_to_string("/proc/stat").ok()?;
    let boot = boot.lines().find_map(|line| line.strip_prefix("btime "))?;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // Field 3 follows the name, which may contain parentheses; field 22 is the start since boot.
    let ticks: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let since_boot = Duration::from_millis(ticks.checked_mul(1000 / TICKS_PER_SECOND)?);
    Duration::from_secs(boot.trim().parse().ok()?).checked_add(since_boot)
}

/// Reads a line of `/proc/self/status`, which is in KiB.
fn memory_bytes(status: &str, key: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<i64>().ok()?.checked_mul(1024)
}
