"""The pages about commands and metrics say what the services do."""

from __future__ import annotations

from tests.server import metrics_reference
from tests.server.reference import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.server.reference`"


def test_the_page_about_metrics_is_up_to_date() -> None:
    assert metrics_reference.PAGE.read_text() == metrics_reference.page(), "run `make docs`"
