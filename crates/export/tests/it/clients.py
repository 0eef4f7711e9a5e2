"""Reads the folders of an export as analysts do, and prints what it finds as one JSON object.

Usage: clients.py PARQUET_FOLDER JSONL_FOLDER
"""

import json
import sys
from pathlib import Path

import duckdb
import pandas
import pyarrow.parquet

parquet, jsonl = sys.argv[1:]
# Nothing is fetched: what reads these files comes with DuckDB.
duckdb.sql("set autoinstall_known_extensions = false")

BY_HOUR = """
    with auctions as (from {source}),
         bids as (select hour, unnest(bids) as bid from auctions),
         sales as (select hour, unnest(sales) as sale from auctions)
    select hour,
           any_value(auctions),
           count(*),
           sum(bid.price_micros),
           count(*) filter (bid.fate = 'won'),
           max(bid.tie),
           any_value(revenue)
    from bids
    join (select hour, count(*) as auctions from auctions group by hour) using (hour)
    join (select hour, sum(sale.revenue_nanos) as revenue from sales group by hour) using (hour)
    group by hour
"""


def by_duckdb(source):
    """The totals of each hour, and whether each auction's time lies in it."""
    names = ["auctions", "bids", "price_micros", "wins", "tie_max", "revenue_nanos"]
    rows = duckdb.sql(BY_HOUR.format(source=source)).fetchall()
    strays = duckdb.sql(
        f"""select count(*) from {source}
            where strftime(make_timestamp(time_us::bigint), '%Y-%m-%dT%H') != hour"""
    ).fetchall()
    assert strays == [(0,)], strays
    return {hour: dict(zip(names, map(int, values))) for hour, *values in rows}


def by_pandas(auctions):
    """The same by pandas, from a frame with a column `hour`."""
    totals = {}
    for hour, part in auctions.groupby("hour", observed=True):
        bids = pandas.json_normalize(part["bids"].explode().dropna().tolist())
        sales = pandas.json_normalize(part["sales"].explode().dropna().tolist())
        totals[str(hour)] = {
            "auctions": len(part),
            "bids": len(bids),
            "price_micros": int(bids["price_micros"].sum()),
            "wins": int((bids["fate"] == "won").sum()),
            "tie_max": int(bids["tie"].max()),
            "revenue_nanos": int(sales["revenue_nanos"].sum()),
        }
    return totals


def rows(folder, read):
    """All rows, each with its hour, as plain values."""
    found = []
    for path in sorted(Path(folder).glob("hour=*/*")):
        found += [dict(row, hour=path.parent.name[5:]) for row in read(path)]
    return found


parquet_rows = rows(parquet, lambda path: pyarrow.parquet.ParquetFile(path).read().to_pylist())
jsonl_rows = rows(jsonl, lambda path: map(json.loads, path.open()))

found = {
    "versions": [duckdb.__version__, pandas.__version__, pyarrow.__version__],
    "duckdb, parquet": by_duckdb(f"read_parquet('{parquet}/*/*.parquet', hive_partitioning = true)"),
    "duckdb, jsonl": by_duckdb(f"read_json('{jsonl}/*/*.jsonl', hive_partitioning = true)"),
    "pandas, parquet": by_pandas(pandas.read_parquet(parquet)),
    "pandas, jsonl": by_pandas(
        pandas.concat(
            pandas.read_json(path, lines=True).assign(hour=path.parent.name[5:])
            for path in Path(jsonl).glob("hour=*/*.jsonl")
        )
    ),
    "rows": len(parquet_rows),
    "rows differ": sum(a != b for a, b in zip(parquet_rows, jsonl_rows, strict=True)),
}
print(json.dumps(found))
