"""The end of a job's process, without Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest

ENDING = """
import atexit
from slate_engine.spark.jobs.running import Job


class Done(Job):
    def main(self, arguments=None):
        print("the work is done")
        return {code}


class Late:
    def __del__(self):
        print("the interpreter is taken down")


late = Late()
atexit.register(print, "the checkpoints are released")
Done("job", "about", (), None).run()
"""


@pytest.mark.parametrize("code", [0, 1])
def test_a_job_ends_without_taking_the_interpreter_down(code: int) -> None:
    """A thread of the storage library may need the interpreter a moment longer, and would abort the process."""
    ended = subprocess.run(
        [sys.executable, "-c", ENDING.replace("{code}", str(code))], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == code, ended.stderr
    assert ended.stdout.splitlines() == ["the work is done", "the checkpoints are released"]
