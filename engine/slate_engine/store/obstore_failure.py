"""What obstore's errors say, reduced to what may be shown.

The library tells the HTTP status and the service's answer only inside one long text, which also quotes the whole request:
urls with signatures, access keys, strings to sign. The few facts that matter are picked out, and the rest is left behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from obstore.exceptions import BaseError

from slate_engine.store.failure import Failure

FAILURES = (BaseError, OSError, NotImplementedError)
"""Everything that obstore raises on purpose."""
_STATUS = re.compile(r"(?:non-2xx status code: |\(code: )(\d{3})")
_CODE = re.compile(r"<Code>([^<]{1,80})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_KIND = re.compile(r"HttpError \{\s*kind: (\w+)")
_METADATA_SERVICES = ("169.254.169.254", "169.254.170.2", "metadata.google.internal")


def failure_of(error: Exception, hide: Callable[[str], str]) -> Failure:
    text = str(error)
    if any(service in text for service in _METADATA_SERVICES):
        # Without credentials the library asks the machine for some, and reports that it did not answer.
        return Failure(401, "NoCredentials", "no credentials were found in the options or the environment")
    if "StartTooLarge" in text:
        return Failure(416)
    status, code, message, kind = (pattern.search(text) for pattern in (_STATUS, _CODE, _MESSAGE, _KIND))
    if status is None:
        what = f"no answer ({kind[1].lower()})" if kind else f"the client failed ({type(error).__name__})"
        return Failure(None, message=what, sent=kind is None or kind[1] != "Connect")
    return Failure(int(status[1]), code[1] if code else "", hide(message[1]) if message else "")
