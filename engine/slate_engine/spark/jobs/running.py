"""A job from its command line to its exit code."""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slate_engine.errors import Error
from slate_engine.runtime import SystemRuntime
from slate_engine.spark.jobs.hiding import hidden
from slate_engine.spark.jobs.progress import shown
from slate_engine.spark.jobs.report import leave_report
from slate_engine.spark.jobs.settings import COMMON, PRICES, Setting, Settings, parse
from slate_engine.spark.jobs.summary import Outcome, summary, summary_text
from slate_engine.spark.session import register

_OURS = re.compile(r"^slate_engine\.[\w.]+: (.*)$", re.MULTILINE)
"""How an error of the engine stands in the trace that Spark hands over from another process."""

_JAVA = re.compile(r"^(?:: |Caused by: )(\S.*)$", re.MULTILINE)
"""How Java's exceptions, and what caused them, stand in such a trace."""


@dataclass(frozen=True)
class Job:
    """``python -m`` this. ``work`` does it, in a session that is there already."""

    program: str
    about: str
    settings: tuple[Setting, ...]
    work: Callable[[SparkSession, Settings], Outcome]

    @property
    def name(self) -> str:
        return self.program.rpartition(".")[2]

    def run(self) -> NoReturn:
        """The whole process. It ends without taking the interpreter down: a thread of the storage library that still needs
        it would abort the process, and Spark would do finished work again."""
        code = self.main()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """0 if it was done; 1 if not, with the reason as one line."""
        runtime = SystemRuntime()
        settings: Settings | None = None

        def clean(text: str) -> str:
            return hidden(text, settings, os.environ)

        handler = logging.StreamHandler()
        handler.setFormatter(_Lines(clean))
        logging.basicConfig(level=logging.WARNING, handlers=[handler])
        try:
            settings = parse(
                self.program, self.about, (*self.settings, *COMMON), sys.argv[1:] if arguments is None else arguments
            )
            began = runtime.monotonic()
            spark = _session(self.program, settings)
            with shown(spark, _say):
                outcome = self.work(spark, settings)
        except Error as error:
            return self._failed(clean(error.message))
        except PySparkException as error:
            return self._failed(clean(_reason(error)))
        except Exception as error:
            # A defect, or something that nobody thought of: whoever looks into it wants the way that it took, too.
            _say(clean(traceback.format_exc()))
            return self._failed(clean(f"{type(error).__name__}: {_gist(str(error))}"))
        seconds, prices = runtime.monotonic() - began, PRICES[settings.text("prices")]
        facts = summary(self.name, outcome, seconds, prices)
        told = json.dumps(facts) if settings.flag("json") else summary_text(self.name, outcome, seconds, prices)
        sys.stdout.write(told + "\n")
        sys.stdout.flush()
        leave_report(facts)
        return 0

    def _failed(self, reason: str) -> int:
        _say(f"{self.name}: {reason}")
        leave_report({"job": self.name, "error": reason})
        return 1


class _Lines(logging.Formatter):
    """What the engine logs: the message, without secrets."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        super().__init__()
        self._clean = clean

    def format(self, record: logging.LogRecord) -> str:
        return self._clean(super().format(record))


def _session(program: str, settings: Settings) -> SparkSession:
    builder = SparkSession.builder.appName(program)
    active = SparkSession.getActiveSession()
    if active is None and not _submitted():
        builder = builder.master(settings.text("master"))
    for name, value in settings.pairs("conf").items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def _submitted() -> bool:
    """Whether ``spark-submit`` has chosen the master already: then there is a JVM before there is a session."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _reason(error: PySparkException) -> str:
    """What went wrong, without the way that it took through Spark."""
    text = str(error)
    ours = _OURS.findall(text)
    return str(ours[-1]) if ours else _first_line(text) or type(error).__name__


def _gist(text: str) -> str:
    """Of what Java threw: the innermost cause. The first line only says that something was called."""
    causes = _JAVA.findall(text)
    return str(causes[-1]) if causes else _first_line(text)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
