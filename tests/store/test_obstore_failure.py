"""obstore's texts, as they were seen, and what is picked out of them."""

from __future__ import annotations

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError

from slate_engine.store.failure import Failure
from slate_engine.store.obstore_failure import failure_of

REFUSED = """Generic S3 error: Error performing PUT http://host/b/k?X-Amz-Signature=abcdef in 1ms - HTTP error: error sending

Debug source:
Generic {
    store: "S3",
    source: RetryError(
        RetryErrorImpl {
            inner: Http(
                HttpError {
                    kind: Connect,
                    source: reqwest::Error {
                        kind: Request,
"""
DENIED = (
    "The operation lacked the necessary privileges: Error performing PUT http://host/b/k in 1ms - Server returned non-2xx "
    "status code: 403 Forbidden: <Error><Code>SignatureDoesNotMatch</Code>"
    "<Message>The signature, made with hunter2, does not match.</Message>"
    "<AWSAccessKeyId>AKIAEXAMPLE</AWSAccessKeyId><StringToSign>AWS4-HMAC-SHA256</StringToSign></Error>"
)


def hide(text: str) -> str:
    return text.replace("hunter2", "***")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (REFUSED, Failure(None, message="no answer (connect)", sent=False)),
        (REFUSED.replace("kind: Connect", "kind: Timeout"), Failure(None, message="no answer (timeout)")),
        (REFUSED.replace("kind: Connect", "kind: Request"), Failure(None, message="no answer (request)")),
        (DENIED, Failure(403, "SignatureDoesNotMatch", "The signature, made with ***, does not match.")),
        ("Bulk delete request failed for key p/k: No such blob. (code: 404)", Failure(404)),
        ("source: InvalidRangeRequest { source: StartTooLarge { requested: 5, length: 5 } }", Failure(416)),
        ("something quite new", Failure(None, message="the client failed (GenericError)")),
    ],
)
def test_texts(text: str, expected: Failure) -> None:
    assert failure_of(GenericError(text), hide) == expected


def test_a_machine_without_credentials() -> None:
    text = "Error performing PUT http://169.254.169.254/latest/api/token in 2s - HTTP error: error sending request"
    failure = failure_of(PermissionDeniedError(text), hide)
    assert failure.status == 401
    assert "no credentials" in failure.message
