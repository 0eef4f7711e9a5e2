"""What a thread of a server waits for, sampled every few milliseconds during a load.

For a stall that occurs in one run of two, and that no percentile explains: whether the thread was
blocked in a system call, and in which; whether it was ready without a core; or whether the sampler
was delayed as well, so the machine stalled. Knows no server and no load.
"""

import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

EVERY_S = 0.005
# Shorter waits are no stall: the core is shared with the log's thread.
STALL_MS = 20.0

# The system calls in which a thread waits for requests, responses and timers.
IDLE = "epoll"
# Names by number; others are reported by number.
SYSCALLS = {
    "x86_64": {
        0: "read",
        1: "write",
        9: "mmap",
        11: "munmap",
        18: "pwrite64",
        20: "writev",
        28: "madvise",
        74: "fsync",
        75: "fdatasync",
        202: "futex",
        232: IDLE,
        281: IDLE,
    }
}.get(platform.machine(), {})


@dataclass
class Stalls:
    """The samples of one thread."""

    looks: int = 0
    # By system call, the longest time during which every sample found the thread blocked in it.
    blocked_ms: dict[str, float] = field(default_factory=dict)
    # The longest time between two samples that it was ready without a core.
    ready_ms: float = 0.0
    # The longest delay of the sampler itself: what the machine does to any thread.
    looker_late_ms: float = 0.0

    def as_dict(self) -> dict:
        """As results; times in milliseconds."""
        blocked = {name: round(ms, 1) for name, ms in sorted(self.blocked_ms.items())}
        return {
            "looks": self.looks,
            "blocked_ms": blocked,
            "ready_ms": round(self.ready_ms, 1),
            "looker_late_ms": round(self.looker_late_ms, 1),
        }


@dataclass(frozen=True)
class Look:
    """One sample of a thread: its system call, None if it runs or is ready, and its total time
    ready without a core."""

    at_s: float
    call: str | None
    ready_s: float


def stalls_of(looks: list[Look]) -> Stalls:
    """The stalls in a sequence of samples."""
    found = Stalls(looks=len(looks))
    since = None
    for before, look in zip([None, *looks], looks, strict=False):
        if before is None or look.call is None or look.call != before.call:
            since = look.at_s
        elif look.call != IDLE:
            ms = 1000 * (look.at_s - since)
            found.blocked_ms[look.call] = max(ms, found.blocked_ms.get(look.call, 0.0))
        if before is not None:
            found.ready_ms = max(found.ready_ms, 1000 * (look.ready_s - before.ready_s))
            late_ms = 1000 * (look.at_s - before.at_s - EVERY_S)
            found.looker_late_ms = max(found.looker_late_ms, late_ms)
    found.blocked_ms = {call: ms for call, ms in found.blocked_ms.items() if ms >= STALL_MS}
    return found


def call_of(line: str) -> str | None:
    """The system call in `/proc/*/syscall`. None if the thread is in none."""
    number = line.partition(" ")[0].strip()
    if not number.lstrip("-").isdigit() or int(number) < 0:
        return None
    return SYSCALLS.get(int(number), f"call {number}")


def look_at(task: Path) -> Look:
    """Takes one sample."""
    call = call_of((task / "syscall").read_text())
    ready_ns = int((task / "schedstat").read_text().split()[1])
    return Look(time.monotonic(), call, ready_ns / 1e9)


@contextmanager
def watched(pid: int, thread: int) -> Iterator[Stalls]:
    """Samples a thread until the block ends, and then fills in the result, which stays empty if the
    machine does not permit sampling."""
    task = Path(f"/proc/{pid}/task/{thread}")
    looks: list[Look] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(EVERY_S):
            try:
                looks.append(look_at(task))
            except (OSError, IndexError, ValueError):
                return

    stalls = Stalls()
    looker = threading.Thread(target=watch, name="stalls")
    looker.start()
    try:
        yield stalls
    finally:
        ended.set()
        looker.join()
        found = stalls_of(looks)
        stalls.looks, stalls.blocked_ms = found.looks, found.blocked_ms
        stalls.ready_ms, stalls.looker_late_ms = found.ready_ms, found.looker_late_ms
