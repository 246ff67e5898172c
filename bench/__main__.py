"""``python -m bench [name …]``: run the benchmarks and print one JSON line for each result, with the ratio to the peer.

A ratio above 1 means that we are better, whichever way the figure runs. ``bar`` is the ratio (or figure) below which a
change needs a reason, ``ok`` whether it is met.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys

NAMES = [
    "sst",
    "scan",
    "manifest",
    "compaction",
    "live",
    "live_s3",
    "live_memory",
    "startup",
    "clone",
    "gc",
    "serve",
    "metrics",
    "controller",
    "spark_read",
    "spark_load",
]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[[], *NAMES], help="what to measure; everything when left out")
    names = parser.parse_args().name or NAMES
    missed = 0
    for name in names:
        for result in importlib.import_module(f"bench.{name}").run():
            print(json.dumps({"bench": name, **result}), flush=True)
            missed += not result.get("ok", True)
    if missed:
        print(f"{missed} figures are below their bar", file=sys.stderr)
    return 1 if missed else 0


sys.exit(main())
