"""Every command of the how-to pages, and of the README, does what the page says: it is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from slate_engine.cli.main import app
from tests.unit.cli.shell import shell

ROOT = Path(__file__).parents[3]
PAGES = [page for page in sorted((ROOT / "docs" / "how-to").glob("*.md")) if page.name != "README.md"]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


# A page whose commands go on for ever, or need a service, shows them with a prompt, and has no such blocks.
TESTED = [page for page in PAGES if blocks(page)]


@pytest.mark.parametrize("page", TESTED, ids=lambda page: page.stem)
def test_the_commands_of_a_page_work(page: Path, tmp_path: Path) -> None:
    script = "\n".join(blocks(page))
    assert "slate " in script
    with shell(tmp_path) as here:
        done = here.run(script.replace("/tmp/shop", f"{tmp_path}/shop"))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert EXPECTED[page.stem] in done.stdout


EXPECTED = {
    "check": "sound: ",
    "clone": "is a clone of orders: it shares 1 SST",
    "collect-garbage": "no garbage",
    "compact": "run 0",
    "copy": "is a copy of orders",
    "destroy": "is deleted: ",
    "find-what-holds-bytes": "checkpoint forgotten",
    "go-back": "is again what checkpoint good keeps",
    "import-and-export": "2 rows are in all.parquet",
    "keep-a-state": "checkpoint",
    "script": "there is no such key",
}
"""For each page, something that it makes the command print."""


def test_a_command_that_fails_ends_the_page(tmp_path: Path) -> None:
    with shell(tmp_path) as here:
        done = here.run(f"slate --store file://{tmp_path} --path nowhere status\necho and on")
    assert (done.returncode, done.stdout) == (3, "")
    assert "there is no database" in done.stderr


def test_the_readme_commands_work(tmp_path: Path) -> None:
    (block,) = [block for block in blocks(ROOT / "README.md") if "slate " in block]
    with shell(tmp_path) as here:
        done = here.run(block.replace("/tmp/shop", f"{tmp_path}/shop"))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_every_page_is_linked_and_links_lead_somewhere() -> None:
    index = (ROOT / "docs" / "how-to" / "README.md").read_text()
    for page in PAGES:
        assert f"]({page.name})" in index
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_verbs_that_texts_and_errors_name_exist() -> None:
    group = typer.main.get_command(app)
    verbs = set(group.commands)  # type: ignore[attr-defined]
    engine = (ROOT / "engine" / "slate_engine").rglob("*.py")
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *engine]:
        named = set(re.findall(r"`slate ([a-z]+[a-z-]*)", page.read_text()))
        assert named <= verbs, f"{page.name} names {named - verbs}"
