"""The parts that an application brings along, in the shapes that the engine calls them by."""

from __future__ import annotations

from collections.abc import Iterable

from slate_engine.api import arguments, filters
from slate_engine.api.choices import PrefixTarget
from slate_engine.api.merging import MergeOperator, MergeOperatorCallbackError
from slate_engine.errors import InvalidError
from slate_engine.format.filters import Bloom, Point
from slate_engine.format.filters import PrefixTarget as EngineTarget


class Merge:
    """A merge operator whose failures say what they are."""

    def __init__(self, operator: MergeOperator) -> None:
        self._operator = operator

    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
        try:
            return arguments.octets(self._operator.merge(key, existing_value, operand), "the result of a merge")
        except MergeOperatorCallbackError as failure:
            reason: object = getattr(failure, "message", failure)
            cause: Exception = failure
        except Exception as failure:
            reason, cause = repr(failure), failure
        raise InvalidError(f"Invalid error: merge operator error ({reason})") from cause


class Extractor:
    """A prefix extractor, asked in the application's terms."""

    def __init__(self, extractor: filters.PrefixExtractor) -> None:
        self._extractor = extractor
        self._name = arguments.text(extractor.name(), "the name of a prefix extractor")

    def name(self) -> str:
        return self._name

    def prefix_len(self, target: EngineTarget) -> int | None:
        if isinstance(target, Point):
            return self._extractor.prefix_len(PrefixTarget.POINT(target.key))
        return self._extractor.prefix_len(PrefixTarget.PREFIX(target.prefix))


def blooms(policies: Iterable[filters.FilterPolicy]) -> tuple[Bloom, ...]:
    """The policies as the engine builds and asks filters by them."""
    return tuple(
        Bloom(
            policy.bits_per_key,
            None if policy.prefix_extractor is None else Extractor(policy.prefix_extractor),
            policy.whole_key_filtering,
        )
        for policy in policies
    )
