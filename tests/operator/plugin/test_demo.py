"""The demo goes on where it was interrupted. That it plays at all is shown by playing it, with ``make demo``."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.demo import __main__ as demo
from tests.cluster.tool.kubectl import Kubectl


def test_an_interruption_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "provider", interrupted)
    assert demo.main() == 130
    assert capsys.readouterr().err == "\nThe demo was interrupted; start it again to go on from there.\n"


@pytest.mark.parametrize("interrupted", [True, False])
def test_it_goes_on_with_what_undelete_has_left(tmp_path: Path, interrupted: bool) -> None:
    """The old object is gone, the new one not there: applied now, the database would be in its own way."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\ncat > /dev/null\n")
    kubectl.chmod(0o755)
    if interrupted:
        (tmp_path / "orders.undelete.yaml").write_text("kind: SlateDatabase\n")
    shown: list[tuple[tuple[str, ...], Path | None]] = []

    class Shown(demo.Demo):
        def show(self, *words: str, folder: Path | None = None) -> None:
            shown.append((words, folder))

    Shown(Kubectl((str(kubectl),), tmp_path / "kubeconfig")).begin()
    undelete = (("kubectl", "slate", "undelete", "orders"), tmp_path)
    assert (shown[0] == undelete) is interrupted
    assert shown[1 if interrupted else 0][0][:2] == ("kubectl", "apply")
