"""Results as Markdown, from the same entries that are written as JSON."""

from collections.abc import Callable, Iterable


def markdown(results: dict) -> str:
    """The whole page."""
    machine = results["machine"]
    parts = [f"# Benchmark, {results['started_at']}\n"]
    parts.append(
        "Auctions per CPU-second of the server process, all its threads on one core, the testbed "
        "on another. How it is made and read: [bench/README.md](../README.md).\n"
    )
    parts.append(
        table(["machine", ""], [[name.replace("_", " "), value] for name, value in machine.items()])
    )
    write: dict[str, Callable[[dict], str]] = {
        "throughput": throughput,
        "latency": latency,
        "memory": memory,
        "calls": calls,
    }
    parts += [write[entry["kind"]](entry) for entry in results["scenarios"]]
    notes = [
        f"- {entry['name']}: {text}" for entry in results["scenarios"] for text in entry["problems"]
    ]
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
    return " (VOID: the core of the testbed was over 80 % busy)" if entry["void"] else ""


def throughput(entry: dict) -> str:
    """Medians and ratios, then every round."""
    rows = [medians(entry, program) for program in entry["auctions_per_cpu_s"]]
    load = (
        f"{entry['dsps']} DSPs, {entry['bid_percent']} % bid, each after {entry['latency_ms']} ms; "
        f"closed loop, {entry['in_flight']} in flight.\n"
    )
    title = f"## {entry['name']}: {entry['title']}{void(entry)}\n"
    notes = "".join(f"- {note}\n" for note in entry["notes"])
    return "\n".join([title, load, table(list(rows[0]), rows_of(rows)), notes, rounds(entry)])


def rows_of(records: list[dict[str, object]]) -> list[list[object]]:
    """The cells of records that all have the same columns."""
    return [list(record.values()) for record in records]


def medians(entry: dict, program: str) -> dict[str, object]:
    """One line a program, by column."""
    figure, target = entry["auctions_per_cpu_s"][program], ""
    if program == "vickrey":
        met = "met" if figure["of_floor"] >= entry["target"] else "missed"
        target = f"≥ {entry['target']:.2f}: {'void' if entry['void'] else met}"
    return {
        "program": program,
        "auctions/CPU-s, median": f"{figure['median']:.0f}",
        "range": f"{figure['min']:.0f}–{figure['max']:.0f}",
        "spread": percent(figure["spread"]),
        "µs of CPU": f"{1e6 / figure['median']:.0f}",
        "of the floor": f"{figure['of_floor']:.3f}",
        "target": target,
    }


def rounds(entry: dict) -> str:
    """One line a round: the figure, and who used the cores."""
    rows: list[dict[str, object]] = []
    for each in entry["rounds"]:
        p50, p99, _, _ = quantiles_ms(each["latency_us"])
        rows.append(
            {
                "round": each["round"],
                "program": each["program"],
                "auctions/CPU-s": f"{each['auctions_per_cpu_s']:.0f}",
                "answers/s": f"{each['answers_per_s']:.0f}",
                "p50 ms": p50,
                "p99 ms": p99,
                "in the kernel": percent(each["system_share"]),
                "server core": percent(each["server_core_busy"]),
                "of it others": percent(each["server_core_others"]),
                "testbed core": percent(each["testbed_core_busy"]),
                "fleet": percent(each["fleet_busy"]),
                "hammer": percent(each["hammer_busy"]),
                "others": percent(each["testbed_core_others"]),
                "errors": each["errors"],
                "calls lost": sum(each["calls_lost"].values()),
                "void": "VOID" if each["void"] else "",
            }
        )
    return table(list(rows[0]), rows_of(rows))


def latency(entry: dict) -> str:
    """Latency, what was past the deadline, and the books of bids."""
    closed = entry["closed_loop"]
    text = (
        f"Closed-loop maximum {closed['answers_per_s']:.0f}/s (testbed core "
        f"{percent(closed['testbed_core_busy'])}); open loop at {entry['rate_per_s']}/s, latency "
        f"from the intended time. Target: p99.9 past tmax ≤ {entry['overshoot_target_ms']} ms.\n"
    )
    times = []
    for run in entry["runs"]:
        head = [run["name"], f"{run['late_ppm'] / 10_000:.1f} %"]
        for name, quantiles in (
            ("latency", run["latency_us"]),
            ("past tmax, by the hammer", run["overshoot_hammer_us"]),
            ("past tmax, by the exchange", run["overshoot_exchange_us"]),
        ):
            times.append([*head, name, *quantiles_ms(quantiles)])
    books = [books_of(run) for run in entry["runs"]]
    return "\n".join(
        [
            f"## {entry['name']}: {entry['title']}{void(entry)}\n",
            text,
            table(["run", "late answers", "ms", "p50", "p99", "p99.9", "max"], times),
            "Answers, since the start of both sides: every prompt one must have been counted.\n",
            table(list(books[0]), rows_of(books)),
        ]
    )


def books_of(run: dict) -> dict[str, object]:
    """What DSPs sent beside what the exchange counted, by column."""
    bids, dsps, seen = run["bids"], run["bids"]["dsps"], run["bids"]["exchange_calls"]
    return {
        "run": run["name"],
        "DSPs: bids": dsps["bids"],
        "no bids": dsps["no_bids"],
        "late": dsps["late"],
        "prompt": bids["prompt"],
        "exchange: bids": seen["answered"],
        "no bids ": seen["no_bid"],
        "late ": seen["late"],
        "counted": bids["counted"],
        "prompt, not counted": bids["not_counted"],
    }


def memory(entry: dict) -> str:
    """The resident set, first to last."""
    mib = [f"{entry[name] / 1024:.1f}" for name in ("first_kib", "last_kib", "max_kib")]
    met = "met" if entry["max_kib"] <= 1024 * entry["target_mib"] else "missed"
    row = [*mib, f"{entry['slope_kib_per_minute']:.1f}", f"≤ {entry['target_mib']} MiB: {met}"]
    head = ["first, MiB", "last", "largest", "growth, KiB a minute", "target"]
    samples = ", ".join(
        f"{each['kib'] / 1024:.1f} at {each['at_s']:.0f} s" for each in entry["samples"]
    )
    return (
        f"## {entry['name']}: {entry['title']}\n\n"
        + table(head, [row])
        + f"\nSamples, MiB: {samples}.\n"
    )


def calls(entry: dict) -> str:
    """Counts per auction, by name, of the programs beside each other."""
    parts = [f"## {entry['name']}: {entry['title']}\n"]
    programs = entry["programs"]
    for tool in ("perf", "strace"):
        found = {program: tools[tool] for program, tools in programs.items() if tool in tools}
        if not found:
            continue
        names = dict.fromkeys(name for each in found.values() for name in each["per_auction"])
        rows = [
            [name, *(f"{each['per_auction'].get(name, 0):.2f}" for each in found.values())]
            for name in names
        ]
        if tool == "strace":
            sums = [f"{sum(each['per_auction'].values()):.2f}" for each in found.values()]
            rows.append(["all", *sums])
        rows.append(
            ["answers/s meanwhile", *(f"{each['answers_per_s']:.0f}" for each in found.values())]
        )
        parts.append(table([tool, *found], rows))
    parts += [f"Skipped: {text}.\n" for text in entry["skipped"]]
    return "\n".join(parts)
