"""Which secrets a job was told, to keep them out of what it says: libraries may repeat in errors what they were given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slate_engine.spark.environment import OPTION_PREFIX
from slate_engine.spark.jobs.settings import Settings
from slate_engine.spark.options import HADOOP, STORE_PREFIX
from slate_engine.spark.parquet.folder import CREDENTIALS
from slate_engine.store.options import OPTIONS, PASSED_ON
from slate_engine.store.scrubbing import scrubbed

_NAMES = frozenset(name.lower() for option in OPTIONS if option.secret for name in (option.name, *option.variables))
_OPTIONS = ("option", "to-option", "from-option", "read", "sink", "conf")


def hidden(text: str, settings: Settings | None, environment: Mapping[str, str]) -> str:
    """``text`` without any secret that the job was told, or that can be told to be one."""
    return scrubbed(text, [*_of_environment(environment), *(() if settings is None else _of_settings(settings))])


def _of_environment(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if _is_secret(name.removeprefix(CREDENTIALS).removeprefix(OPTION_PREFIX).lower()):
            yield value


def _of_settings(settings: Settings) -> Iterator[str]:
    for pairs in map(settings.pairs, filter(settings.has, _OPTIONS)):
        for name, value in pairs.items():
            short = name.lower().removeprefix("spark.hadoop.").removeprefix(STORE_PREFIX)
            if _is_secret(HADOOP.get(short, short)):
                yield value


def _is_secret(name: str) -> bool:
    """What is passed on to somebody else's file system may be one, for all that we know."""
    return name in _NAMES or name.startswith(PASSED_ON)
