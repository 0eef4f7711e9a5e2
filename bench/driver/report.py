"""Results as Markdown, from the same entries as the JSON."""

from collections.abc import Callable, Iterable

from driver import (
    budget_auction,
    budgets,
    cache_core,
    cache_http,
    cache_shards,
    campaigns,
    figures,
    live,
    live_auctions,
    log_report,
    enrichment,
    lookup,
    lookup_soak,
    lookups,
    multiplexed,
    pacer_wire,
    pacing,
)


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
        "hostile": hostile,
        "variants": variants,
        "reload": reloaded,
        "overload": overloaded,
        "cold": cold,
        "record": lambda entry: log_report.record(entry, table, verdict),
        "log_commit": lambda entry: log_report.commit(entry, table, verdict),
        "log_read": lambda entry: log_report.read_back(entry, table, verdict),
        "log_start": lambda entry: log_report.start(entry, table, verdict),
        "budget_core": lambda entry: budgets.write_core(entry, table, verdict),
        "budget_store": lambda entry: budgets.write_store(entry, table),
        "pacing": lambda entry: pacing.write(entry, table),
        "budget_auction": lambda entry: budget_auction.write_auction(entry, table, verdict),
        "live": lambda entry: live.write(entry, table, verdict),
        "live_auctions": lambda entry: live_auctions.write(entry, table, verdict),
        "cache_core": lambda entry: cache_core.write(entry, table, verdict),
        "cache_http": lambda entry: cache_http.write(entry, table, verdict),
        "cache_shards": lambda entry: cache_shards.write(entry, table, verdict),
        "cache_storms": lambda entry: cache_http.write_storms(entry, table, verdict),
        "enrichment": lambda entry: enrichment.write(entry, table, verdict, void),
        "lookup_core": lambda entry: lookup.write(entry, table, verdict),
        "lookup_soak": lambda entry: lookup_soak.write(entry, table, verdict),
        "lookup_service": lambda entry: lookups.write(entry, table, verdict),
        "multiplexed": lambda entry: multiplexed.write(entry, table, verdict),
        "pacer_wire": lambda entry: pacer_wire.write(entry, table, verdict),
        "pacer_shards": lambda entry: pacer_wire.write_shards(entry, table, verdict),
        "budget_campaigns": lambda entry: campaigns.write_campaigns(entry, table, verdict),
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
    """A table, with the first column left-aligned and the others right-aligned."""
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
    """The suffix of the title of a void entry."""
    return " (VOID: the core of the testbed was over 80 % busy)" if entry["void"] else ""


def verdict(is_met: bool, is_void: bool) -> str:
    """Whether a target was met, in the words of all tables."""
    return "void" if is_void else "met" if is_met else "missed"


def verdict_of_rounds(entry: dict, program: str, is_met: bool) -> str:
    """Likewise for a program's cost over its rounds. A low cost does not count if requests
    failed."""
    errors = sum(each["errors"] for each in entry["rounds"] if each["program"] == program)
    text = verdict(is_met and not errors, entry["void"])
    return f"{text}, {errors} requests went wrong" if errors else text


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
    """The cells of records with the same columns."""
    return [list(record.values()) for record in records]


def medians(entry: dict, program: str) -> dict[str, object]:
    """One row per program, by column."""
    figure, target = entry["auctions_per_cpu_s"][program], ""
    if program == "vickrey":
        is_met = figure["of_floor"] >= entry["target"]
        target = f"≥ {entry['target']:.2f}: {verdict_of_rounds(entry, program, is_met)}"
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
    """One row per round: the figure, and the use of the cores."""
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
    """Latency, time past the deadline, and the counts of bids."""
    closed = entry["closed_loop"]
    text = (
        f"Closed-loop maximum {closed['answers_per_s']:.0f}/s (testbed core "
        f"{percent(closed['testbed_core_busy'])}); open loop at {entry['rate_per_s']}/s, latency "
        f"from the intended time. Target: p99.9 past tmax ≤ {entry['overshoot_target_ms']} ms by "
        "both clocks: "
        + ", ".join(f"{run['name']} {verdict(run['met'], run['void'])}" for run in entry["runs"])
        + ".\n"
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
    """Bids sent by DSPs beside those counted by the exchange, by column."""
    bids, dsps, seen = run["bids"], run["bids"]["dsps"], run["bids"]["exchange_calls"]
    return {
        "run": run["name"],
        "DSPs: bids": dsps["bid_answers"],
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
    """The resident set from first to last."""
    mib = [f"{entry[name] / 1024:.1f}" for name in ("first_kib", "last_kib", "max_kib")]
    # A server that refused its load would be small, too.
    is_met = entry["max_kib"] <= 1024 * entry["target_mib"] and not entry["errors"]
    target = f"≤ {entry['target_mib']} MiB: {verdict(is_met, False)}"
    row = [*mib, f"{entry['slope_kib_per_minute']:.1f}", entry["errors"], target]
    head = ["first, MiB", "last", "largest", "growth, KiB a minute", "failed", "target"]
    samples = ", ".join(
        f"{each['kib'] / 1024:.1f} at {each['at_s']:.0f} s" for each in entry["samples"]
    )
    return (
        f"## {entry['name']}: {entry['title']}\n\n"
        + table(head, [row])
        + f"\nSamples, MiB: {samples}.\n"
    )


def calls(entry: dict) -> str:
    """Counts per auction by name, with the programs side by side."""
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


def share(value: float | None, digits: int = 3) -> str:
    """A ratio, or a dash without one."""
    return "–" if value is None else f"{value:.{digits}f}"


def hostile(entry: dict) -> str:
    """The effect of hostile DSPs on deadlines, counts and cost, beside a run without them."""
    closed = entry["closed_loop"]
    text = (
        f"Capacity, the closed loop of the healthy alone with {entry['closed_loop_in_flight']} in "
        f"flight: {closed['answers_per_s']:.0f}/s (server {percent(closed['server_busy'])}, "
        f"testbed core {percent(closed['testbed_core_busy'])}); open loop at "
        f"{percent(entry['share'])} of it, {entry['rate_per_s']}/s; `tmax` {entry['tmax_ms']} ms.\n"
    )
    runs = entry["runs"]
    times = [
        [run["name"], name, *quantiles_ms(run[key])]
        for run in runs
        for name, key in (
            ("latency", "latency_us"),
            ("past tmax, by the hammer", "overshoot_hammer_us"),
            ("past tmax, by the exchange", "overshoot_exchange_us"),
        )
    ]
    books = [hostile_books(run) for run in runs]
    costs = [hostile_costs(run) for run in runs]
    met = hostile_targets(entry)
    return "\n".join(
        [
            f"## {entry['name']}: {entry['title']}{void(entry)}\n",
            text,
            table(["run", "ms", "p50", "p99", "p99.9", "max"], times),
            "Books: requests of the window; answers and bids of healthy DSPs since the start of "
            "both sides, and the share counted of those that did not come after the close. Of the "
            "window: calls to healthy DSPs over those that its auctions could make, and the share "
            "of them that was answered in time.\n",
            table(list(books[0]), rows_of(books)),
            "Throughput, and the same as a share of the run without hostile DSPs.\n",
            table(list(costs[0]), rows_of(costs)),
            "Calls in the window, by outcome.\n",
            table(*hostile_calls(runs)),
            table(list(met[0]), rows_of(met)),
        ]
    )


def past_tmax(run: dict) -> dict[str, object]:
    """Auctions past their deadline by each clock, by column."""
    late = figures.past_deadline(run)
    return {f"past tmax, by the {clock}": count for clock, count in late.items()}


def hostile_books(run: dict) -> dict[str, object]:
    """Requests and bids, by column."""
    auctions, healthy = run["auctions_exchange"], run["healthy"]
    return {
        "run": run["name"],
        "sent": run["counts"]["sent"],
        "in the exchange's books": auctions["all"],
        "lost": run["lost"],
        "failed": run["failed"],
        **past_tmax(run),
        "answers sent": healthy["answers_sent"],
        "after the close": healthy["answers_after_close"],
        "counted": healthy["answers_counted"],
        "of those in time": share(healthy["answers_share"], 5),
        "bids sent": healthy["bids_sent"],
        "judged": healthy["bids_judged"],
        "in the window: asked": share(run["healthy_asked"], 4),
        "and in time": share(run["healthy_in_time"], 5),
    }


def hostile_costs(run: dict) -> dict[str, object]:
    """Throughput, by column."""
    return {
        "run": run["name"],
        "answers/s": f"{run['answers_per_s']:.0f}",
        "of without": share(run["answers_of_base"]),
        "healthy bids, of without": share(run["healthy_bids_of_base"]),
        "auctions/CPU-s": f"{run['auctions_per_cpu_s']:.0f}",
        "of without ": share(run["auctions_per_cpu_s_of_base"]),
        "server core": percent(run["server_core_busy"]),
        "testbed core": percent(run["testbed_core_busy"]),
        "void": "VOID" if run["void"] else "",
    }


def hostile_calls(runs: list[dict]) -> tuple[list[str], list[list[object]]]:
    """Head and rows: calls to each side by outcome, without outcomes that never occurred."""
    sides = (("healthy", "healthy_calls_in_window"), ("hostile", "hostile_calls_in_window"))
    columns = [(run["name"], side, run[key]) for run in runs for side, key in sides if run[key]]
    outcomes = dict.fromkeys(name for *_, calls in columns for name, n in calls.items() if n)
    rows: list[list[object]] = [
        [name, *(calls.get(name, 0) for *_, calls in columns)] for name in outcomes
    ]
    return ["outcome", *(f"{run}: {side}" for run, side, _ in columns)], rows


def hostile_targets(entry: dict) -> list[dict[str, object]]:
    """Each target, and whether the runs with hostile DSPs met it."""
    targets = entry["targets"]
    names = {
        "overshoot_p999_us": f"past tmax, p99.9 ≤ {targets['overshoot_p999_us'] / 1000:.0f} ms",
        "overshoot_max_us": f"past tmax, max ≤ {targets['overshoot_max_us'] / 1000:.0f} ms",
        "lost": "auctions lost: none",
        "failed": "auctions failed: none",
        "healthy_bids_counted": f"healthy bids counted ≥ {targets['healthy_bids_counted']:.1%}",
        "healthy_throughput": f"answers and healthy bids a second ≥ "
        f"{targets['healthy_throughput']:.2f} of without",
        "auctions_per_cpu_s": f"auctions/CPU-s ≥ {targets['healthy_throughput']:.2f} of without",
    }
    judged = [run for run in entry["runs"] if run["hostile"]]
    return [
        {"target": text}
        | {run["name"]: verdict(run["met"][name], run["void"]) for run in judged}
        for name, text in names.items()
    ]


def variants(entry: dict) -> str:
    """Medians of each row as shares of its base row, then every round."""
    rows = [variant(entry, name) for name in entry["rows"]]
    load = (
        f"30 % bid, each after {entry['latency_ms']} ms; open loop, {entry['rate_per_s']}/s, which "
        f"is {entry['share']:.0%} of the closed loop of `{entry['paced_by']}`. `shards` are the "
        "threads of auctions alone.\n"
    )
    parts = [f"## {entry['name']}: {entry['title']}{void(entry)}\n", load]
    parts.append(table(list(rows[0]), rows_of(rows)))
    parts.append("".join(f"- {note}\n" for note in entry["notes"]))
    parts.append(rounds(entry))
    seen = [notices_seen(each) for each in entry["rounds"] if each["notices_seen_by_dsps"]]
    if seen:
        parts.append("Notices, as DSPs counted them since the start of each round.\n")
        parts.append(table(list(seen[0]), rows_of(seen)))
    return "\n".join(parts)


def variant(entry: dict, name: str) -> dict[str, object]:
    """One row, by column."""
    row = entry["rows"][name]
    target = ""
    if row["target"] is not None:
        is_met = (row["of_base"] or 0.0) >= row["target"]
        target = f"≥ {row['target']:.2f}: {verdict_of_rounds(entry, name, is_met)}"
    has_floors = any(each["floor"] for each in entry["rows"].values())
    of_floor = {"of the floor with the same": share(row["of_floor"])} if has_floors else {}
    return {
        "row": name,
        "auctions/CPU-s, median": f"{row['median']:.0f}",
        "range": f"{row['min']:.0f}–{row['max']:.0f}",
        "spread": percent(row["spread"]),
        "µs of CPU": f"{1e6 / row['median']:.0f}",
        "compared with": row["base"],
        "share of it": share(row["of_base"]),
        "by shards alone": share(row["shards_of_base"]),
        **of_floor,
        "target": target,
    }


def notices_seen(each: dict) -> dict[str, object]:
    """Notices of one round, by column."""
    seen = each["notices_seen_by_dsps"]
    return {
        "round": each["round"],
        "row": each["program"],
        "answers with a bid": each["counts"]["ok_bid"],
        "beacons called": each["counts"]["beacons"],
        "beacons failed": each["counts"]["beacons_failed"],
        **{kind: seen.get(kind, {}).get("counted", 0) for kind in ("nurl", "burl", "lurl")},
        "delivered in the window": each["notices_in_window"]["delivered"],
        "not delivered": each["notices_in_window"]["not_delivered"],
    }


def cold(entry: dict) -> str:
    """The cost of each start."""
    rows: list[dict[str, object]] = [
        {
            "DSPs": row["name"],
            "round": row["round"],
            "auctions": row["auctions"],
            "filled": row["filled"],
            "late, exchange's clock": row["past_deadline"]["exchange"],
            "late, hammer's clock": row["past_deadline"]["hammer"],
            "most late ms": f"{row['most_past_us'] / 1000:.1f}",
            "connections": row["opened"],
            "calls unsent": row["unsent"],
            "calls late": row["late"],
            "kept back by breakers": row["not_asked"],
            "failed": row["errors"],
        }
        for row in entry["starts"]
    ]
    load = (
        f"Open loop at {entry['rate_per_s']}/s from the first second on, `tmax` "
        f"{entry['tmax_ms']} ms, DSPs answer after {entry['latency_ms']} ms, breakers on.\n"
    )
    return "\n".join(
        [f"## {entry['name']}: {entry['title']}\n", load, table(list(rows[0]), rows_of(rows))]
    )


def reloaded(entry: dict) -> str:
    """Latency with and without reloads, and their cost."""
    closed = entry["closed_loop"]
    text = (
        f"Closed-loop maximum {closed['answers_per_s']:.0f}/s; open loop at "
        f"{entry['rate_per_s']}/s, {entry['seconds']} s a run, `tmax` {entry['tmax_ms']} ms. Each "
        "reload gives every tenth of the DSPs asked another header, and so new connections, "
        "replaces a hundred of the others, and changes the rest. No auction over its deadline by "
        "either clock, and no error, in any run: "
        f"**{verdict(entry['met'], entry['void'])}**.\n"
    )
    rows: list[dict[str, object]] = []
    for run in entry["runs"]:
        p50, p99, p999, most = quantiles_ms(run["latency_us"])
        rows.append(
            {
                "run": run["name"],
                "reloads": run["reloads"]["taken_over"],
                "refused": run["reloads"]["refused"],
                "p50 ms": p50,
                "p99 ms": p99,
                "p99.9 ms": p999,
                "max ms": most,
                **past_tmax(run),
                "failed": run["errors"],
                "lost": run["lost"],
                "asked": share(run["asked"]),
                "calls lost": sum(run["calls_lost"].values()),
                "auctions/CPU-s": f"{run['auctions_per_cpu_s']:.0f}",
                "testbed core": percent(run["testbed_core_busy"]),
                "none late, none failed": verdict(all(run["met"].values()), run["void"]),
            }
        )
    return "\n".join(
        [
            f"## {entry['name']}: {entry['title']}{void(entry)}\n",
            text,
            table(list(rows[0]), rows_of(rows)),
        ]
    )


def overloaded(entry: dict) -> str:
    """Answers in time at multiples of one shard's capacity."""
    closed = entry["closed_loop"]
    text = (
        f"Closed-loop maximum {closed['answers_per_s']:.0f}/s (testbed core "
        f"{percent(closed['testbed_core_busy'])}); `tmax` {entry['tmax_ms']} ms. In time is by the "
        "hammer's clock, from the moment at which a request was meant to leave: "
        f"**{verdict(entry['met'], entry['void'])}**.\n"
    )
    rows: list[dict[str, object]] = [
        {
            "offered": f"{run['name']}, {run['rate_per_s']}/s",
            "in time": f"{run['in_time_per_s']:.0f}/s",
            "share": f"{run['share']:.3f} of the {run['share_of']}",
            "target": run["target"],
            "refused": sum(run["refused"].values()),
            "refusal p50 ms": f"{run['refusal_us']['p50'] / 1000:.1f}",
            "p99 ms": f"{run['refusal_us']['p99'] / 1000:.1f}",
            "server core": percent(run["server_core_busy"]),
            "testbed core": percent(run["testbed_core_busy"]),
            "met": verdict(all(run["met"].values()), run["void"]),
        }
        for run in entry["runs"]
    ]
    return "\n".join(
        [
            f"## {entry['name']}: {entry['title']}{void(entry)}\n",
            text,
            table(list(rows[0]), rows_of(rows)),
        ]
    )
