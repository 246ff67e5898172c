"""Run SlateDB's own Python test-suite with only the import changed; see README.md."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

IMPORTED = re.compile(r"\bslatedb\.uniffi\b")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.upstream", description=__doc__)
    parser.add_argument("folder", type=Path, help="bindings/python/tests of a copy of SlateDB's repository")
    parser.add_argument("--original", action="store_true", help="leave the import alone and test the slatedb package")
    wanted, for_pytest = parser.parse_known_args()
    if not list(wanted.folder.glob("test_*.py")):
        parser.error(f"{wanted.folder} holds no tests (test_*.py)")
    with tempfile.TemporaryDirectory(prefix="upstream-") as copy:
        prepare(wanted.folder, Path(copy), "slatedb.uniffi" if wanted.original else "slate_engine")
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--timeout=120", *for_pytest, "."]
        return subprocess.run(command, cwd=copy, check=False).returncode


def prepare(folder: Path, copy: Path, module: str) -> int:
    """Copy the tests with their imports changed; the number of files in which something was."""
    changed = 0
    for file in sorted(folder.glob("*.py")):
        text = file.read_text(encoding="utf-8")
        rewritten = IMPORTED.sub(module, text)
        changed += rewritten != text
        (copy / file.name).write_text(rewritten, encoding="utf-8")
        shutil.copymode(file, copy / file.name)
    return changed


if __name__ == "__main__":
    sys.exit(main())
