"""``python -m slate_operator``."""

from __future__ import annotations

import sys

from slate_operator.main import main

sys.exit(main())
