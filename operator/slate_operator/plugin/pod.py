"""A pod of a database: what it does, how it is, and what troubles it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from slate_operator.names import LABEL_DATABASE, LABEL_ROLE


@dataclass(frozen=True, slots=True)
class Pod:
    namespace: str
    name: str
    database: str
    role: str
    phase: str
    ready: bool
    restarts: int
    created: str
    trouble: str = ""
    """Why it is not ready, in the kubelet's or the scheduler's words; empty if nothing is known to be wrong."""

    @classmethod
    def of(cls, body: Any) -> Pod:
        metadata, status = body["metadata"], body.get("status", {})
        containers = status.get("containerStatuses", [])
        conditions = {each["type"]: each for each in status.get("conditions", [])}
        leaving = "deletionTimestamp" in metadata
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            database=metadata.get("labels", {}).get(LABEL_DATABASE, ""),
            role=metadata.get("labels", {}).get(LABEL_ROLE, ""),
            phase="Terminating" if leaving else status.get("phase", "Unknown"),
            ready=conditions.get("Ready", {}).get("status") == "True" and not leaving,
            restarts=sum(each.get("restartCount", 0) for each in containers),
            created=metadata.get("creationTimestamp", ""),
            trouble="" if leaving else _trouble(conditions, containers),
        )

    @property
    def short(self) -> str:
        """The end of its name, which tells it from its siblings."""
        return self.name.rpartition("-")[2]


def _trouble(conditions: dict[str, Any], containers: list[Any]) -> str:
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return _said(scheduled)
    for container in containers:
        state, last = container.get("state", {}), container.get("lastState", {})
        waiting, ended = state.get("waiting"), state.get("terminated") or last.get("terminated")
        if waiting and waiting.get("reason") not in ("ContainerCreating", "PodInitializing"):
            words = _said(waiting)
            return f"{words}; it ended before: {_ending(ended)}" if ended else words
        if state.get("terminated"):
            return _ending(ended)
    return ""


def _said(thing: Any) -> str:
    return ": ".join(part for part in (thing.get("reason", ""), thing.get("message", "")) if part)


def _ending(ended: Any) -> str:
    """The end of a container, with the last thing that it said."""
    words = f"{ended.get('reason', 'ended')}, code {ended.get('exitCode', '?')}"
    lines = (ended.get("message") or "").strip().splitlines()
    return f"{words}, {_plain(lines[-1])}" if lines else words


def _plain(line: str) -> str:
    """Our processes write JSON; what they say is in it."""
    try:
        said = json.loads(line)
    except ValueError:
        return line
    return str(said.get("message", line)) if isinstance(said, dict) else line
