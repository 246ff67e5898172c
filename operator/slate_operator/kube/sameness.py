"""Whether an object is as we want it, so that what is so already is not sent again.

The API server fills in defaults and writes quantities its own way, so an object never equals what was applied. It is as
wanted if it has everything that was wanted. Where the server spells a value differently that test fails for ever; then the
object is sent once, and left alone as long as it stays the way the server made it of that.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from slate_operator.kube.cluster import Body
from slate_operator.names import ANNOTATION_APPLIED

_MERGE_KEYS = ("name", "containerPort", "port", "mountPath", "uid", "type", "key")


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]


def marked(body: Body) -> Body:
    """The object with the digest of itself on it: what we no longer want is seen by that, too."""
    metadata = body["metadata"]
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION_APPLIED: digest(body)}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def mark_of(body: Body) -> str | None:
    mark: str | None = (body["metadata"].get("annotations") or {}).get(ANNOTATION_APPLIED)
    return mark


def appearance(body: Body) -> str:
    """A digest of what can be wanted of an object: all but its status and the server's bookkeeping."""
    metadata = body["metadata"]
    kept = {name: metadata.get(name) for name in ("uid", "labels", "annotations", "ownerReferences", "finalizers")}
    rest = {name: value for name, value in body.items() if name not in ("metadata", "status")}
    return digest([kept, rest])


def has_all(found: Any, wanted: Any) -> bool:
    """Whether everything wanted is found. An object may have more fields; a list more elements that have a name."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return not wanted and found is None
        return all(has_all(found.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        return _has_all_elements(found, wanted)
    return bool(found == wanted)


def _has_all_elements(found: Any, wanted: list[Any]) -> bool:
    if not isinstance(found, list):
        return not wanted and found is None
    if len(found) == len(wanted) and all(map(has_all, found, wanted)):
        return True
    if not all(isinstance(each, dict) for each in (*found, *wanted)):
        return False
    key = next((name for name in _MERGE_KEYS if wanted and all(name in each for each in wanted)), None)
    if key is None:
        return False
    by_key = {each.get(key): each for each in found}
    return all(has_all(by_key.get(each[key]), each) for each in wanted)
