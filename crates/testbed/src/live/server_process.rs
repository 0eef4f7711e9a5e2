//! The measured process: its processor time, its memory, and what the kernel holds to send for it.

use std::fs;
use std::net::SocketAddr;

/// Figures of a process at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProcessFigures {
    /// Processor time of all threads, in microseconds.
    pub cpu_us: u64,
    /// Resident memory, in KiB.
    pub resident_kib: u64,
    /// Bytes in the send queues of its listener's connections.
    pub send_queue_bytes: u64,
}

/// Clock ticks per second of `/proc`: fixed on Linux.
const TICKS_PER_S: u64 = 100;

impl ProcessFigures {
    /// Of this process. None if it has ended or cannot be looked at.
    pub fn of(id: u32, listener: SocketAddr) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name may contain spaces; user and system time are the 14th and 15th field.
        let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let ticks: u64 =
            fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let resident_kib = resident.split_whitespace().next()?.parse().ok()?;
        let send_queue_bytes = send_queues(listener.port());
        Some(Self { cpu_us: ticks * 1_000_000 / TICKS_PER_S, resident_kib, send_queue_bytes })
    }
}

/// Bytes that connections of a local port have not sent, or whose receipt is not acknowledged.
fn send_queues(port: u16) -> u64 {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let lines = tables.iter().flatten().flat_map(|table| table.lines().skip(1));
    let queues = lines.filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, queues) = (fields.next()?, fields.nth(2)?);
        let local = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
        let unsent = u64::from_str_radix(queues.split_once(':')?.0, 16).ok()?;
        (local == port).then_some(unsent)
    });
    queues.sum()
}
