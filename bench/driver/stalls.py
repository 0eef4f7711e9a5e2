"""What a thread of a server waits for, looked at every few milliseconds while a load runs.

For a stall that one run in two has, and no percentile explains: whether the thread was blocked in a
system call, and in which; whether it was ready and had no core; or whether whoever looked was held up as
well, and so the machine. Knows no server, and no load.
"""

import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

EVERY_S = 0.005
# What is shorter is no stall: a core is shared with the log's thread.
STALL_MS = 20.0

# Where a thread waits for requests, answers and its timers.
IDLE = "epoll"
# By number; any other is told by that.
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
    """What was seen of one thread."""

    looks: int = 0
    # By system call, the longest time in which every look found the thread blocked in it.
    blocked_ms: dict[str, float] = field(default_factory=dict)
    # Between two looks, the longest time that it was ready and had no core.
    ready_ms: float = 0.0
    # The longest that whoever looked came late: what the machine does to any thread.
    looker_late_ms: float = 0.0

    def as_dict(self) -> dict:
        """For the results; times in milliseconds."""
        blocked = {name: round(ms, 1) for name, ms in sorted(self.blocked_ms.items())}
        return {
            "looks": self.looks,
            "blocked_ms": blocked,
            "ready_ms": round(self.ready_ms, 1),
            "looker_late_ms": round(self.looker_late_ms, 1),
        }


@dataclass(frozen=True)
class Look:
    """A thread at one moment: the system call that it is in, None where it runs or is ready; and for how
    long it has been ready without a core, in all."""

    at_s: float
    call: str | None
    ready_s: float


def stalls_of(looks: list[Look]) -> Stalls:
    """What looks in their order come to."""
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
    """The system call that `/proc/*/syscall` names; None of a thread that is in none."""
    number = line.partition(" ")[0].strip()
    if not number.lstrip("-").isdigit() or int(number) < 0:
        return None
    return SYSCALLS.get(int(number), f"call {number}")


def look_at(task: Path) -> Look:
    """One look."""
    call = call_of((task / "syscall").read_text())
    ready_ns = int((task / "schedstat").read_text().split()[1])
    return Look(time.monotonic(), call, ready_ns / 1e9)


@contextmanager
def watched(pid: int, thread: int) -> Iterator[Stalls]:
    """Looks at a thread until the block ends; what it is given is filled in then, and stays empty where
    the machine does not let others look."""
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
