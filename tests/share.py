"""How much of the long suites is played: all of it, or the share that ``SLATEKEEPER_SHARE`` says.

CI plays a part of each for want of time.
"""

from __future__ import annotations

import os

SHARE = float(os.environ.get("SLATEKEEPER_SHARE", "1"))


def share_of(count: int) -> int:
    """So many examples, seeds or rounds of ``count``."""
    return max(1, round(count * SHARE))
