"""What a job says at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from slate_engine.spark.jobs.requests import priced
from slate_engine.store.cost import PriceList, price


@dataclass(frozen=True)
class Outcome:
    """What a job did. ``rows`` and ``bytes`` are those that it moved."""

    rows: int
    bytes: int
    requests: Mapping[str, int]
    estimated: bool = False
    """The requests are reckoned from the bytes, since they are sent by a part of Spark that does not tell."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """What is worth saying of this kind of job."""


def dollars(outcome: Outcome, prices: PriceList) -> float:
    return price(priced(dict(outcome.requests)), prices, bytes_up=outcome.bytes, bytes_down=outcome.bytes).total


def summary(job: str, outcome: Outcome, seconds: float, prices: PriceList) -> dict[str, object]:
    return {
        "job": job,
        "rows": outcome.rows,
        "bytes": outcome.bytes,
        "seconds": round(seconds, 3),
        "requests": dict(outcome.requests),
        "requests_estimated": outcome.estimated,
        "request_cost_dollars": round(dollars(outcome, prices), 9),
        **outcome.facts,
    }


def summary_text(job: str, outcome: Outcome, seconds: float, prices: PriceList) -> str:
    pace = outcome.bytes / 1e6 / max(seconds, 1e-9)
    count = sum(outcome.requests.values())
    about = "about " if outcome.estimated else ""
    lines = [
        f"{job}: {outcome.rows:,} rows, {outcome.bytes / 1e6:,.1f} MB in {seconds:,.1f} s ({pace:,.1f} MB/s)",
        f"{about}{count:,} requests, ${dollars(outcome, prices):.4f} by the prices of {prices.name}",
        *(f"{name}: {value}" for name, value in outcome.facts.items()),
    ]
    return "\n".join(lines)


def added(counts: list[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)
