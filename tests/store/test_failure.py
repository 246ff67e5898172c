"""What services answer, and what becomes of it."""

from __future__ import annotations

import pytest

from slate_engine.errors import Error, InvalidError
from slate_engine.store.failure import Failure, NotSatisfiable, explain
from slate_engine.store.protocol import (
    CREATE,
    OVERWRITE,
    Conflict,
    Denied,
    NotFound,
    NotModified,
    PutMode,
    StoreUnavailable,
    Update,
)

UPDATE = Update('"e"')


def told(
    status: int | None, code: str = "", mode: PutMode | None = None, operation: str = "", *, sent: bool = True
) -> object:
    operation = operation or ("get" if mode is None else "put")
    return explain(Failure(status, code, "words", sent), operation, "k", "s3://b", mode=mode)


@pytest.mark.parametrize("mode", [CREATE, UPDATE])
def test_conflicts(mode: PutMode) -> None:
    assert type(told(412, "PreconditionFailed", mode)) is Conflict
    assert type(told(412, "ConditionNotMet", mode)) is Conflict


def test_conflicts_of_one_kind_of_write() -> None:
    assert type(told(409, "BlobAlreadyExists", CREATE)) is Conflict
    assert type(told(404, "NoSuchKey", UPDATE)) is Conflict
    assert type(told(404, "", UPDATE)) is Conflict
    assert type(told(409, "BlobAlreadyExists", UPDATE)) is InvalidError
    assert type(told(412, "", OVERWRITE)) is InvalidError


@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "OperationAborted"])
@pytest.mark.parametrize("mode", [CREATE, UPDATE])
def test_a_collision_is_no_conflict(code: str, mode: PutMode) -> None:
    """S3 met two conditional writes at once and says: try again. Who wins is still open."""
    error = told(409, code, mode)
    assert isinstance(error, StoreUnavailable)
    assert (error.retryable, error.unknown_outcome) == (True, False)


@pytest.mark.parametrize(
    ("status", "code", "unknown"),
    [
        (429, "", False),
        (503, "SlowDown", False),
        (503, "ServerBusy", False),
        (503, "", True),
        (500, "InternalError", True),
        (502, "", True),
        (504, "", True),
        (408, "", True),
        (400, "RequestTimeout", True),
        (529, "", True),
        (None, "", True),
    ],
)
def test_what_is_tried_again(status: int | None, code: str, unknown: bool) -> None:
    write, read = told(status, code, CREATE), told(status, code)
    assert isinstance(write, StoreUnavailable)
    assert isinstance(read, StoreUnavailable)
    assert (write.retryable, read.retryable) == (True, True)
    assert (write.unknown_outcome, read.unknown_outcome) == (unknown, False)


def test_a_request_that_was_never_sent_did_nothing() -> None:
    error = told(None, mode=CREATE, sent=False)
    assert isinstance(error, StoreUnavailable)
    assert (error.retryable, error.unknown_outcome) == (True, False)


@pytest.mark.parametrize("code", ["NoSuchUpload", "InvalidBlockList"])
def test_an_upload_that_was_completed_before(code: str) -> None:
    error = told(404, code, OVERWRITE)
    assert isinstance(error, StoreUnavailable)
    assert (error.retryable, error.unknown_outcome) == (False, True)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (304, "", NotModified),
        (416, "InvalidRange", NotSatisfiable),
        (404, "NoSuchKey", NotFound),
        (404, "BlobNotFound", NotFound),
        (404, "", NotFound),
        (404, "NoSuchBucket", InvalidError),
        (404, "ContainerNotFound", InvalidError),
        (404, "XAdminUserNotFound", Denied),
        (404, "SomethingElse", InvalidError),
        (401, "", Denied),
        (403, "SignatureDoesNotMatch", Denied),
        (400, "ExpiredToken", Denied),
        (400, "InvalidArgument", InvalidError),
        (301, "PermanentRedirect", InvalidError),
        (501, "NotImplemented", InvalidError),
    ],
)
def test_the_rest(status: int, code: str, kind: type[Exception]) -> None:
    assert type(told(status, code)) is kind


def test_an_unknown_404_is_never_taken_for_a_missing_object() -> None:
    """A missing boundary reads as zero, so a wrong "not there" could delete live data."""
    assert not isinstance(told(404, "WeirdGatewayError"), NotFound)
    assert not isinstance(told(404, "NoSuchBucket"), NotFound)


def test_messages_say_what_where_and_what_next() -> None:
    error = explain(Failure(403, "AccessDenied", "Access Denied\nRequestId: 1"), "put", "k", "s3://b", mode=CREATE)
    assert isinstance(error, Error)
    for words in ("put of 'k' in s3://b", "403", "AccessDenied", "Access Denied", "check the credentials"):
        assert words in error.message
    assert "RequestId" not in error.message
