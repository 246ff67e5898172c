"""Kubeflow's Spark operator, from its Go module: the program, and the Helm chart with the CRDs that lies beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.cluster.tool.compiling import go_build
from tests.cluster.tool.report import ClusterError, run
from tests.servers.toolbox import tool

VERSION = "v2.5.0"
_MODULE = f"github.com/kubeflow/spark-operator/v2@{VERSION}"
_CHART = Path("charts/spark-operator-chart")


def home() -> Path:
    """The folder with the program ``spark-operator`` and the folder ``chart``."""
    return tool("spark-operator", VERSION, _build, expect="3 to 6 minutes")


def _build(out: Path) -> None:
    # `go install` refuses a module whose go.mod replaces others, so the module is built as its own authors build it.
    said = run(f"download {_MODULE}", ["go", "mod", "download", "-json", _MODULE], cwd=out, timeout=1800)
    if "Dir" not in (module := json.loads(said)):
        raise ClusterError(f"the Go module proxy does not have {_MODULE}: {said}")
    sources = out / "sources"
    shutil.copytree(module["Dir"], sources, copy_function=shutil.copyfile)
    for path in [sources, *sources.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)  # the module cache is read-only
    go_build(out / "spark-operator", "./cmd/operator", flags="-s -w", cwd=sources, env={"CGO_ENABLED": "0"})
    shutil.copytree(sources / _CHART, out / "chart")
    shutil.rmtree(sources)
