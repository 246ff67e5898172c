"""Filters: which keys an SST certainly does not hold, and the prefixes by which filters and segments group keys."""

from __future__ import annotations

from slate_engine.api import arguments
from slate_engine.api.choices import PrefixTarget
from slate_engine.api.options import BloomFilterOptions


class PrefixExtractor:
    """To be implemented by the application: where the prefix of a key ends.

    The name goes into the database (it names filters, and the manifest keeps that of the segment extractor), so an
    extractor that answers differently needs another name.
    """

    def name(self) -> str:
        raise NotImplementedError

    def prefix_len(self, target: PrefixTarget) -> int | None:
        """The length of the prefix of ``target``, or ``None`` if it has none."""
        raise NotImplementedError


class FilterPolicy:
    """How filters are built and read. A reader uses the filters of an SST whose name is that of one of its policies."""

    bits_per_key: int
    whole_key_filtering: bool
    prefix_extractor: PrefixExtractor | None
    _name: str

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise ValueError("this class has no default constructor; use FilterPolicy.bloom(bits_per_key)")

    @classmethod
    def bloom(cls, bits_per_key: int) -> FilterPolicy:
        """A bloom filter over whole keys."""
        return cls.bloom_with_options(BloomFilterOptions(bits_per_key=bits_per_key), None)

    @classmethod
    def bloom_with_options(cls, options: BloomFilterOptions, prefix_extractor: PrefixExtractor | None) -> FilterPolicy:
        """A bloom filter over whole keys, prefixes, or both."""
        if not isinstance(options, BloomFilterOptions):
            raise TypeError(f"options must be BloomFilterOptions, not {type(options).__name__!r}")
        if prefix_extractor is not None and not isinstance(prefix_extractor, PrefixExtractor):
            raise TypeError(f"a prefix extractor must be a PrefixExtractor, not {type(prefix_extractor).__name__!r}")
        policy = cls.__new__(cls)
        policy.bits_per_key = arguments.unsigned(options.bits_per_key, "bits_per_key", 32)
        policy.whole_key_filtering = bool(options.whole_key_filtering)
        policy.prefix_extractor = prefix_extractor
        policy._name = "_bf"
        if prefix_extractor is not None:
            policy._name += f":p={arguments.text(prefix_extractor.name(), 'the name of a prefix extractor')}"
        if not policy.whole_key_filtering:
            policy._name += ":wh=0"
        return policy

    def name(self) -> str:
        """The name under which an SST stores a filter of this policy."""
        return self._name

    def __repr__(self) -> str:
        return f"FilterPolicy({self._name!r}, bits_per_key={self.bits_per_key})"
