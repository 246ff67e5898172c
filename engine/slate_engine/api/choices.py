"""The choices a caller makes that are more than a name: how long a value lives, which state a reader shows, and so on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slate_engine.api.keys import KeyRange
from slate_engine.api.shapes import Single, Unit, Variant


class Ttl(Variant):
    """How long a value lives."""

    DEFAULT: ClassVar[type[_TtlDefault]]
    NO_EXPIRY: ClassVar[type[_TtlNoExpiry]]
    EXPIRE_AFTER_MILLIS: ClassVar[type[_TtlExpireAfterMillis]]
    EXPIRE_AT_MILLIS: ClassVar[type[_TtlExpireAtMillis]]

    def is_DEFAULT(self) -> bool:
        return isinstance(self, Ttl.DEFAULT)

    def is_NO_EXPIRY(self) -> bool:
        return isinstance(self, Ttl.NO_EXPIRY)

    def is_EXPIRE_AFTER_MILLIS(self) -> bool:
        return isinstance(self, Ttl.EXPIRE_AFTER_MILLIS)

    def is_EXPIRE_AT_MILLIS(self) -> bool:
        return isinstance(self, Ttl.EXPIRE_AT_MILLIS)

    is_default, is_no_expiry = is_DEFAULT, is_NO_EXPIRY
    is_expire_after_millis, is_expire_at_millis = is_EXPIRE_AFTER_MILLIS, is_EXPIRE_AT_MILLIS


class _TtlDefault(Unit, Ttl):
    """As the setting ``default_ttl_millis`` says."""

    __qualname__ = "Ttl.DEFAULT"


class _TtlNoExpiry(Unit, Ttl):
    """For ever, whatever the default."""

    __qualname__ = "Ttl.NO_EXPIRY"


class _TtlExpireAfterMillis(Single[int], Ttl):
    """So many milliseconds from the write."""

    __qualname__ = "Ttl.EXPIRE_AFTER_MILLIS"


class _TtlExpireAtMillis(Single[int], Ttl):
    """Until this time of the unix epoch, in milliseconds."""

    __qualname__ = "Ttl.EXPIRE_AT_MILLIS"


Ttl.DEFAULT, Ttl.NO_EXPIRY = _TtlDefault, _TtlNoExpiry
Ttl.EXPIRE_AFTER_MILLIS, Ttl.EXPIRE_AT_MILLIS = _TtlExpireAfterMillis, _TtlExpireAtMillis


class ReaderMode(Variant):
    """Which state of the database a reader shows."""

    MANAGED_CHECKPOINT: ClassVar[type[_ReaderModeManagedCheckpoint]]
    CHECKPOINT: ClassVar[type[_ReaderModeCheckpoint]]
    FOLLOW_LATEST: ClassVar[type[_ReaderModeFollowLatest]]

    def is_MANAGED_CHECKPOINT(self) -> bool:
        return isinstance(self, ReaderMode.MANAGED_CHECKPOINT)

    def is_CHECKPOINT(self) -> bool:
        return isinstance(self, ReaderMode.CHECKPOINT)

    def is_FOLLOW_LATEST(self) -> bool:
        return isinstance(self, ReaderMode.FOLLOW_LATEST)

    is_managed_checkpoint, is_checkpoint, is_follow_latest = is_MANAGED_CHECKPOINT, is_CHECKPOINT, is_FOLLOW_LATEST


class _ReaderModeManagedCheckpoint(Unit, ReaderMode):
    """The latest, protected from garbage collection by checkpoints that the reader keeps alive."""

    __qualname__ = "ReaderMode.MANAGED_CHECKPOINT"


class _ReaderModeCheckpoint(Single[str], ReaderMode):
    """The one that the checkpoint with this UUID holds, for ever."""

    __qualname__ = "ReaderMode.CHECKPOINT"


class _ReaderModeFollowLatest(Unit, ReaderMode):
    """The latest, without a checkpoint: nothing is written, and nothing keeps the data from garbage collection."""

    __qualname__ = "ReaderMode.FOLLOW_LATEST"


ReaderMode.MANAGED_CHECKPOINT, ReaderMode.CHECKPOINT = _ReaderModeManagedCheckpoint, _ReaderModeCheckpoint
ReaderMode.FOLLOW_LATEST = _ReaderModeFollowLatest


class PrefixTarget(Variant):
    """What a prefix extractor is asked about."""

    POINT: ClassVar[type[_PrefixTargetPoint]]
    PREFIX: ClassVar[type[_PrefixTargetPrefix]]

    def is_POINT(self) -> bool:
        return isinstance(self, PrefixTarget.POINT)

    def is_PREFIX(self) -> bool:
        return isinstance(self, PrefixTarget.PREFIX)

    is_point, is_prefix = is_POINT, is_PREFIX


@dataclass(repr=False)
class _PrefixTargetPoint(PrefixTarget):
    """A whole key: one that is written, or looked up."""

    __qualname__ = "PrefixTarget.POINT"
    key: bytes


@dataclass(repr=False)
class _PrefixTargetPrefix(PrefixTarget):
    """The prefix of a scan."""

    __qualname__ = "PrefixTarget.PREFIX"
    prefix: bytes


PrefixTarget.POINT, PrefixTarget.PREFIX = _PrefixTargetPoint, _PrefixTargetPrefix


class FilterContext(Variant):
    """What the caller of a read tells a custom filter policy; the built-in bloom filter ignores it."""

    BYTES: ClassVar[type[_FilterContextBytes]]

    def is_BYTES(self) -> bool:
        return isinstance(self, FilterContext.BYTES)

    is_bytes = is_BYTES


@dataclass(repr=False)
class _FilterContextBytes(FilterContext):
    """Bytes that only the policy understands."""

    __qualname__ = "FilterContext.BYTES"
    payload: bytes


FilterContext.BYTES = _FilterContextBytes


class CacheTarget(Variant):
    """Which parts of an SST ``warm_sst`` brings into the cache."""

    FILTERS: ClassVar[type[_CacheTargetFilters]]
    INDEX: ClassVar[type[_CacheTargetIndex]]
    STATS: ClassVar[type[_CacheTargetStats]]
    DATA: ClassVar[type[_CacheTargetData]]

    def is_FILTERS(self) -> bool:
        return isinstance(self, CacheTarget.FILTERS)

    def is_INDEX(self) -> bool:
        return isinstance(self, CacheTarget.INDEX)

    def is_STATS(self) -> bool:
        return isinstance(self, CacheTarget.STATS)

    def is_DATA(self) -> bool:
        return isinstance(self, CacheTarget.DATA)

    is_filters, is_index, is_stats, is_data = is_FILTERS, is_INDEX, is_STATS, is_DATA


class _CacheTargetFilters(Unit, CacheTarget):
    """Its filters, if it has any."""

    __qualname__ = "CacheTarget.FILTERS"


class _CacheTargetIndex(Unit, CacheTarget):
    """Its index."""

    __qualname__ = "CacheTarget.INDEX"


class _CacheTargetStats(Unit, CacheTarget):
    """Its statistics, if it has them."""

    __qualname__ = "CacheTarget.STATS"


@dataclass(repr=False)
class _CacheTargetData(CacheTarget):
    """The data blocks with keys of ``range``, and the index that finds them."""

    __qualname__ = "CacheTarget.DATA"
    range: KeyRange


CacheTarget.FILTERS, CacheTarget.INDEX = _CacheTargetFilters, _CacheTargetIndex
CacheTarget.STATS, CacheTarget.DATA = _CacheTargetStats, _CacheTargetData
