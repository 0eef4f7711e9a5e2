"""The log's results as Markdown, from the same entries as the JSON."""

from collections.abc import Callable

Table = Callable[..., str]


def commit(entry: dict, table: Table, verdict: Callable[[bool, bool], str]) -> str:
    """Each load beside the raw disk, then every round."""
    rows = []
    for row in entry["rows"]:
        ratios = ", ".join(f"{pair['ratio']:.2f}" for pair in row["pairs"])
        rates = ", ".join(f"{pair['of']['records_per_s']:.0f}" for pair in row["pairs"])
        fio = f"{row['fio']['records_per_s']:.0f}" if row["fio"] else "–"
        target = ""
        if row["target"] is not None:
            is_met = row["of_set_aside"] >= row["target"]
            target = f"≥ {row['target']:.2f}: {verdict(is_met, False)}"
        rows.append(
            [
                row["name"],
                rates,
                ratios,
                f"{row['of_set_aside']:.3f}",
                f"{row['of_written']:.3f}",
                fio,
                target,
            ]
        )
    head = ["threads × records on their way", "records/s", "of raw, by pair", "of raw, median"]
    head += ["of raw, written before", "fio, records/s", "target"]
    rounds = [
        [
            row["name"],
            each["round"],
            each["who"],
            f"{each['records_per_s']:.0f}",
            f"{each['bytes'] / each['groups'] / 1024:.1f}",
            f"{1e6 * each['seconds'] / each['groups']:.0f}",
            each["groups"],
            each["syncs"],
        ]
        for row in entry["rows"]
        for each in row["rounds"]
    ]
    load = (
        "Threads hand over records through their rings, and wait for the acknowledgement of the "
        "oldest of those on their way. *Raw* is the log's own bytes, a `write` and an `fdatasync` "
        "for each of its groups, into a file whose room was set aside as that of the log's is; "
        "*written before*: into one whose blocks were written and synced once, so that a sync waits "
        "for data alone. The target is of threads that keep the log busy: with few records on their "
        "way nobody works while the disk does.\n"
    )
    columns = ["load", "round", "who", "records/s", "KiB a group", "µs a group", "groups", "syncs"]
    return "\n".join(
        [f"## {entry['name']}: {entry['title']}\n", load, table(head, rows), table(columns, rounds)]
    )


def read_back(entry: dict, table: Table, verdict: Callable[[bool, bool], str]) -> str:
    """Each reader beside its baseline, with every pair."""
    rows = []
    for row in entry["rows"]:
        target = ""
        if row["target"] is not None:
            target = f"≥ {row['target']:.2f}: {verdict(row['ratio'] >= row['target'], False)}"
        rows.append(
            [
                row["name"],
                row["cache"],
                ", ".join(f"{pair['of']['seconds']:.3f}" for pair in row["pairs"]),
                row["pairs"][0]["base"]["who"],
                ", ".join(f"{pair['base']['seconds']:.3f}" for pair in row["pairs"]),
                ", ".join(f"{pair['ratio']:.2f}" for pair in row["pairs"]),
                f"{row['ratio']:.3f}",
                target,
            ]
        )
    head = ["who", "page cache", "s", "beside", "its s", "share, by pair", "median", "target"]
    parts = [f"## {entry['name']}: {entry['title']}\n", table(head, rows)]
    return "\n".join(parts + [f"Skipped: {text}.\n" for text in entry["skipped"]])


def start(entry: dict, table: Table, verdict: Callable[[bool, bool], str]) -> str:
    """Every start."""
    rows = []
    for each in entry["starts"]:
        first = each["first_auction_s"]
        is_met = (each["open_s"] if first is None else first) < entry["target_s"]
        rows.append(
            [
                each["round"],
                each["cache"],
                f"{each['open_s']:.3f}",
                "–" if first is None else f"{first:.3f}",
                f"< {entry['target_s']:.0f} s: {verdict(is_met, False)}",
            ]
        )
    segments = ", ".join(f"{name} {count}" for name, count in entry["segments"].items())
    head = ["round", "page cache", "both lanes opened, s", "first auction, s", "target"]
    parts = [f"## {entry['name']}: {entry['title']}\n", f"Segments: {segments}.\n"]
    parts.append(table(head, rows))
    return "\n".join(parts + [f"Skipped: {text}.\n" for text in entry["skipped"]])


def record(entry: dict, table: Table, verdict: Callable[[bool, bool], str]) -> str:
    """The record's cost by pair, and the effect of a slow disk."""
    cost = verdict(entry["cost_met"], entry["void"])
    text = (
        f"Open loop at {entry['rate_per_s']}/s, {entry['share']:.0%} of the closed loop without; "
        f"off, on, on, off. CPU time by auction. Shards' cost, median "
        f"{100 * entry['shards_cost']:+.1f} % (≤ {100 * entry['target']:.0f} %: **{cost}**).\n"
    )
    rows = [
        [
            pair["round"],
            f"{pair['off_us']:.1f}",
            f"{pair['on_us']:.1f}",
            f"{100 * pair['shards_cost']:+.1f} %",
            f"{100 * pair['process_cost']:+.1f} %",
            f"{pair['log_us']:.1f}",
        ]
        for pair in entry["pairs"]
    ]
    head = ["round", "shards off, µs", "shards on, µs", "cost to shards", "to the process"]
    parts = [f"## {entry['name']}: {entry['title']}\n", text]
    parts.append(table([*head, "log thread, µs"], rows))
    if entry["runs"]:
        unchanged = verdict(bool(entry["p999_unchanged"]), entry["void"])
        parts.append(
            f"Open loop at {entry['slow_rate_per_s']}/s; *slow disk*: each `fdatasync` of the log "
            f"takes {entry['slow_ms']} ms longer. p99.9 as it was: **{unchanged}**.\n"
        )
        runs = [
            [
                run["name"],
                *(f"{run['latency_us'][name] / 1000:.3f}" for name in ("p50", "p99", "p999", "max")),
                run["syncs_held_up"],
                run["errors"],
                f"{100 * run['testbed_core_busy']:.0f} %",
                ", ".join(f"{call} {ms:.0f}" for call, ms in run["stalls"]["blocked_ms"].items())
                or "–",
                f"{run['stalls']['ready_ms']:.0f}",
                f"{run['stalls']['looker_late_ms']:.0f}",
            ]
            for run in entry["runs"]
        ]
        head = ["run", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "syncs held up", "failed"]
        head += ["testbed core", "shard blocked, ms", "without a core, ms", "looker late, ms"]
        parts.append(table(head, runs))
        parts.append(
            "The shard's thread is looked at every 5 ms: the longest that it was *blocked* in a system call "
            "other than that in which it waits for requests (20 ms or more), the longest that it was ready "
            "between two looks and had no core, and by how much whoever looked came late, on the other core. "
            "Who waits for the disk is blocked; where only the last two are long it was the machine.\n"
        )
    return "\n".join(parts + [f"Skipped: {text}.\n" for text in entry["skipped"]])
