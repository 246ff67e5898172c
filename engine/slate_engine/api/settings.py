"""The settings object that users load, change and hand to a builder."""

from __future__ import annotations

import difflib
import json
import logging
import os
import threading

from slate_engine.api import arguments
from slate_engine.api.configuration import DbSettings
from slate_engine.api.environment import read_environment
from slate_engine.api.schema import Json, keys_of, read_table, write_table
from slate_engine.api.sources import overlay, parse_json, read_file
from slate_engine.errors import InvalidError

log = logging.getLogger(__name__)


class Settings:
    """Settings of a database. ``values`` is what they say now, in the types that the engine works with.

    A key that is not known is ignored, as the original ignores it (a newer version may know it), with a warning in the
    log that names the nearest known one.
    """

    values: DbSettings
    _lock: threading.Lock

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise ValueError("this class has no default constructor; use Settings.default(), load() or from_file(path)")

    @classmethod
    def default(cls) -> Settings:
        return cls._of(DbSettings())

    @classmethod
    def from_json_string(cls, json: str) -> Settings:
        """What ``to_json_string`` gave: all settings, not only those that differ from the default."""
        text = arguments.text(json, "settings as JSON")
        return cls._of(_read(parse_json(text, "the settings", note_repeated=True)))

    @classmethod
    def from_file(cls, path: str) -> Settings:
        """The defaults, changed by a file in JSON, TOML or YAML, which its name must end in.

        A file that is not there changes nothing, as with the original; a warning in the log says so.
        """
        found = read_file(arguments.text(path, "a path"))
        if found is None:
            log.warning("no settings file at %r; the defaults stand", path)
        return cls._of(_read(overlay(write_table(DbSettings()), found or {})))

    @classmethod
    def from_env(cls, prefix: str) -> Settings:
        """The defaults, changed by environment variables whose names start with ``prefix``."""
        return cls.from_env_with_default(prefix, cls.default())

    @classmethod
    def from_env_with_default(cls, prefix: str, default_settings: Settings) -> Settings:
        """``default_settings``, changed by environment variables whose names start with ``prefix``."""
        if not isinstance(default_settings, Settings):
            raise TypeError(f"default_settings must be Settings, not {type(default_settings).__name__!r}")
        changes = read_environment(os.environ, arguments.text(prefix, "a prefix"))
        # The environment is shared with others, so what is not known there is no slip worth a warning.
        return cls._of(_read(overlay(write_table(default_settings.values), changes), warn=False))

    @classmethod
    def load(cls) -> Settings:
        """The defaults, changed by ``SlateDb.json``, ``.toml``, ``.yaml``, ``.yml`` and variables ``SLATEDB_...``, in
        this order; the files are looked for in the working directory and its parents."""
        tree = write_table(DbSettings())
        for name in ("SlateDb.json", "SlateDb.toml", "SlateDb.yaml", "SlateDb.yml"):
            tree = overlay(tree, read_file(name) or {})
        return cls.from_env_with_default("SLATEDB_", cls._of(_read(tree)))

    def set(self, key: str, value_json: str) -> None:
        """Change one setting: ``set("compactor_options.worker.max_sst_size", "33554432")``.

        The value is JSON, so text needs its quotes (``'"250ms"'``) and ``null`` clears what may be absent. If the
        outcome would not be valid, ``Error.Invalid`` says why and nothing changes.
        """
        arguments.text(key, "a key")
        value = parse_json(arguments.text(value_json, "a value in JSON"), "value_json")
        *tables, last = key.split(".")
        if not all([*tables, last]):
            raise InvalidError(f"key invalid: {key!r} is empty or has an empty part between dots")
        with self._lock:
            tree = write_table(self.values)
            place = tree
            for table in tables:
                below = place.get(table)
                if below is None:
                    below = place[table] = {}
                if not isinstance(below, dict):
                    raise InvalidError(f"key invalid: {table!r} in {key!r} is a value, not a table of settings")
                place = below
            place[last] = value
            self.values = _read(tree)

    def to_json_string(self) -> str:
        """All settings as JSON, as the original writes them."""
        return json.dumps(write_table(self.values), separators=(",", ":"), ensure_ascii=False)

    def __repr__(self) -> str:
        return f"Settings({self.to_json_string()})"

    def __reduce__(self) -> tuple[object, ...]:
        return Settings.from_json_string, (self.to_json_string(),)

    @classmethod
    def _of(cls, values: DbSettings) -> Settings:
        settings = cls.__new__(cls)
        settings.values = values
        settings._lock = threading.Lock()
        return settings


def _read(tree: Json, *, warn: bool = True) -> DbSettings:
    unknown: list[str] = []
    values = read_table(DbSettings, tree, "", unknown)
    for key in unknown if warn else ():
        near = difflib.get_close_matches(key, keys_of(DbSettings), n=1)
        log.warning("unknown setting %r is ignored%s", key, f"; did you mean {near[0]!r}?" if near else "")
    return values
