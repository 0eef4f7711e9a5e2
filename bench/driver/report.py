"""Results as Markdown, from the same entries that are written as JSON."""

from collections.abc import Callable, Iterable


def markdown(results: dict) -> str:
    """The whole page."""
    machine = results["machine"]
    parts = [f"# Benchmark, {results['started_at']}\n"]
    parts.append(
        "Auctions per CPU-second of the server process, all its threads on one core, the testbed on "
        "another. How it is made and read: [bench/README.md](../README.md).\n"
    )
    parts.append(table(["machine", ""], [[name.replace("_", " "), value] for name, value in machine.items()]))
    write: dict[str, Callable[[dict], str]] = {
        "throughput": throughput,
        "latency": latency,
        "memory": memory,
        "calls": calls,
    }
    parts += [write[entry["kind"]](entry) for entry in results["scenarios"]]
    notes = [f"- {entry['name']}: {text}" for entry in results["scenarios"] for text in entry["problems"]]
    notes += [f"- skipped: {text}" for text in results["skipped"]]
    if notes:
        parts.append("## Problems and gaps\n\n" + "\n".join(notes) + "\n")
    return "\n".join(parts)


def table(head: list[str], rows: Iterable[Iterable[object]]) -> str:
    """A table, its first column to the left and the others to the right."""
    rule = ["---"] + ["--:"] * (len(head) - 1)
    lines = [head, rule, *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def quantiles_ms(quantiles: dict | None) -> list[str]:
    """p50, p99, p99.9 and the largest, in milliseconds."""
    if quantiles is None:
        return ["–"] * 4
    return [f"{quantiles[name] / 1000:.3f}" for name in ("p50", "p99", "p999", "max")]


def void(entry: dict) -> str:
    """What stands behind the title of an entry that says nothing."""
    return " (VOID: the testbed's core was too busy)" if entry["void"] else ""


def throughput(entry: dict) -> str:
    """Medians and ratios, then every round."""
    rows = []
    for program, figure in entry["auctions_per_cpu_s"].items():
        target = ""
        if program == "vickrey":
            target = f"≥ {entry['target']:.2f}: " + ("met" if figure["of_floor"] >= entry["target"] else "missed")
        cost_us = 1e6 / figure["median"] if figure["median"] else 0.0
        rows.append(
            [program, f"{figure['median']:.0f}", f"{figure['min']:.0f}–{figure['max']:.0f}"]
            + [percent(figure["spread"]), f"{cost_us:.0f}", f"{figure['of_floor']:.3f}", target]
        )
    head = ["program", "auctions/CPU-s, median", "range", "spread", "µs of CPU", "of the floor", "target"]
    load = (
        f"{entry['dsps']} DSPs, {entry['bid_percent']} % bid, each after {entry['latency_ms']} ms; "
        f"closed loop, {entry['in_flight']} in flight.\n"
    )
    title = f"## {entry['name']}: {entry['title']}{void(entry)}\n"
    return "\n".join([title, load, table(head, rows), rounds(entry["rounds"])])


def rounds(measured: list[dict]) -> str:
    """One line a round: the figure, and who used the cores."""
    head = ["round", "program", "auctions/CPU-s", "answers/s", "p50 ms", "p99 ms", "in the kernel", "server core"]
    head += ["of it others", "testbed core", "fleet", "hammer", "others", "errors", "void"]
    rows = []
    for each in measured:
        p50, p99, _, _ = quantiles_ms(each["latency_us"])
        shares = ("system_share", "server_core_busy", "server_core_others", "testbed_core_busy")
        shares += ("fleet_busy", "hammer_busy", "testbed_core_others")
        rows.append(
            [each["round"], each["program"], f"{each['auctions_per_cpu_s']:.0f}", f"{each['answers_per_s']:.0f}"]
            + [p50, p99, *(percent(each[share]) for share in shares)]
            + [each["errors"], "VOID" if each["void"] else ""]
        )
    return table(head, rows)


def latency(entry: dict) -> str:
    """Latency, what was past the deadline, and the books of bids."""
    closed = entry["closed_loop"]
    text = (
        f"Closed-loop maximum {closed['answers_per_s']:.0f}/s (testbed core {percent(closed['testbed_core_busy'])}); "
        f"open loop at {entry['rate_per_s']}/s, latency from the intended send time.\n"
    )
    times, books = [], []
    for run in entry["runs"]:
        name, late = run["name"], f"{run['late_ppm'] / 10_000:.1f} %"
        times.append([name, late, "latency", *quantiles_ms(run["latency_us"])])
        times.append([name, late, "past tmax, by the hammer", *quantiles_ms(run["overshoot_hammer_us"])])
        times.append([name, late, "past tmax, by the exchange", *quantiles_ms(run["overshoot_exchange_us"])])
        bids = run["bids"]
        dsps, seen = bids["dsps"], bids["exchange_calls"]
        books.append(
            [name, dsps["bids"], dsps["no_bids"], dsps["late"], bids["prompt"], seen["answered"], seen["no_bid"]]
            + [seen["late"], bids["counted"], bids["not_counted"]]
        )
    head = ["DSPs: bids", "no bids", "of these late", "prompt", "exchange: bids", "no bids", "late", "counted"]
    return "\n".join(
        [
            f"## {entry['name']}: {entry['title']}{void(entry)}\n",
            text,
            table(["run", "late answers", "ms", "p50", "p99", "p99.9", "max"], times),
            "Answers, since the start of both sides: every prompt one must have been counted.\n",
            table(["run", *head, "prompt, not counted"], books),
        ]
    )


def memory(entry: dict) -> str:
    """The resident set, first to last."""
    mib = [f"{entry[name] / 1024:.1f}" for name in ("first_kib", "last_kib", "max_kib")]
    met = "met" if entry["max_kib"] <= 1024 * entry["target_mib"] else "missed"
    row = [*mib, f"{entry['slope_kib_per_minute']:.1f}", f"≤ {entry['target_mib']} MiB: {met}"]
    head = ["first, MiB", "last", "largest", "growth, KiB a minute", "target"]
    samples = ", ".join(f"{each['kib'] / 1024:.1f} at {each['at_s']:.0f} s" for each in entry["samples"])
    return f"## {entry['name']}: {entry['title']}\n\n" + table(head, [row]) + f"\nSamples, MiB: {samples}.\n"


def calls(entry: dict) -> str:
    """Counts per auction, by name, of the programs beside each other."""
    parts = [f"## {entry['name']}: {entry['title']}\n"]
    programs = entry["programs"]
    for tool in ("perf", "strace"):
        found = {program: tools[tool] for program, tools in programs.items() if tool in tools}
        if not found:
            continue
        names = dict.fromkeys(name for each in found.values() for name in each["per_auction"])
        rows = [[name, *(f"{each['per_auction'].get(name, 0):.2f}" for each in found.values())] for name in names]
        if tool == "strace":
            sums = [f"{sum(each['per_auction'].values()):.2f}" for each in found.values()]
            rows.append(["all", *sums])
        rows.append(["answers/s meanwhile", *(f"{each['answers_per_s']:.0f}" for each in found.values())])
        parts.append(table([tool, *found], rows))
    parts += [f"Skipped: {text}.\n" for text in entry["skipped"]]
    return "\n".join(parts)
