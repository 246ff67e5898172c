"""The sample databases that the original wrote."""

from __future__ import annotations

from pathlib import Path

STORE = Path(__file__).parents[2] / "data" / "store"
DATABASES = sorted(folder.name for folder in STORE.iterdir())
MANIFESTS = sorted(STORE.glob("*/manifest/*.manifest"))
COMPACTIONS = sorted(STORE.glob("*/compactions/*.compactions"))


def read(file: Path) -> bytes:
    return file.read_bytes()


def name(file: Path) -> str:
    return str(file.relative_to(STORE))
