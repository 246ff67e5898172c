"""What went wrong at an HTTP store, in the engine's own errors.

Each client library reports failures in its own way. A backend reduces them to a :class:`Failure` (status, error code, the
service's own sentence), and this module decides what that means: one table for all services. The libraries' texts never
reach a caller, for they quote whole requests, with access keys, signatures and tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from slate_engine.errors import Error, InvalidError
from slate_engine.store.protocol import (
    Conflict,
    Create,
    Denied,
    NotFound,
    NotModified,
    PutMode,
    StoreUnavailable,
    Update,
)

_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "NoSuchContainer", "FilesystemNotFound"}
_NO_OBJECT = {
    "",
    "NoSuchKey",
    "NoSuchVersion",
    "BlobNotFound",
    "404",
    "ResourceNotFound",
    "PathNotFound",
    "CannotVerifyCopySource",
}
_DENIED = {
    "AccessDenied",
    "AuthenticationFailed",
    "AuthorizationFailure",
    "AuthorizationPermissionMismatch",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidAuthenticationInfo",
    "InvalidToken",
    "NoAuthenticationInformation",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
    "XAdminUserNotFound",
}
# What the last request of a multipart upload is told when it comes a second time.
_UPLOAD_OVER = {"NoSuchUpload", "InvalidBlockList"}
# The service turned the request away before it did anything.
_THROTTLED = {"SlowDown", "ServerBusy", "TooManyRequests", "RequestLimitExceeded", "Throttling", "rateLimitExceeded"}
# S3 saw two conditional writes of one object at once and carried this one not out; which of them wins is still open.
_COLLIDED = {"ConditionalRequestConflict", "OperationAborted"}


@dataclass(frozen=True, slots=True)
class Failure:
    """``status`` is None when no answer came; ``sent`` then says whether the request may have reached the service."""

    status: int | None
    code: str = ""
    message: str = ""
    sent: bool = True

    def __str__(self) -> str:
        if self.status is None:
            return self.message or "no answer"
        words = [f"HTTP {self.status}", self.code]
        first_line = self.message.strip().split("\n", 1)[0][:200]
        return " ".join(word for word in words if word) + (f" ({first_line})" if first_line else "")


class NotSatisfiable(Exception):
    """A range starts at or past the object's end. Control flow between a backend's own calls."""


class Failed(Exception):
    """A failure on its way from the client library to the call that knows what it means there."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def explain(
    failure: Failure, operation: str, key: str, url: str, *, mode: PutMode | None = None
) -> Error | NotModified | NotSatisfiable:
    """The error to raise. ``mode`` is given for writes, and only a write can have an unknown outcome."""
    where = f"{operation} of {key!r} in {url}" if key else f"{operation} in {url}"
    status, code = failure.status, failure.code
    if status is None:
        return StoreUnavailable(f"{where} failed: {failure}", unknown_outcome=mode is not None and failure.sent)
    if status == 304:
        return NotModified()
    if status == 416:
        return NotSatisfiable()
    if code in _NO_BUCKET:
        return InvalidError(f"{where} failed: the bucket or container does not exist; create it, or correct the url")
    if status in (401, 403) or code in _DENIED:
        hint = "check the credentials, their permission on this bucket and prefix, and this machine's clock"
        return Denied(f"{where} was denied: {failure}; {hint}")
    if code in _UPLOAD_OVER:
        # The last step of a multipart upload was sent twice: the first time it may have been carried out.
        return StoreUnavailable(f"{where} failed: {failure}", retryable=False, unknown_outcome=True)
    if status == 404 and operation == "put" and not isinstance(mode, Update):
        return InvalidError(f"{where} failed: {failure}; is there such a bucket or container?")
    if status == 404 and code in _NO_OBJECT:
        return Conflict(key, mode) if isinstance(mode, Update) else NotFound(key)
    if code in _COLLIDED:
        return StoreUnavailable(f"{where} collided with another write: {failure}")
    if _is_conflict(status, code, mode):
        assert mode is not None
        return Conflict(key, mode)
    if status == 429 or code in _THROTTLED:
        return StoreUnavailable(f"{where} was throttled: {failure}")
    if status in (408, 500, 502, 503, 504) or status > 504 or code == "RequestTimeout":
        return StoreUnavailable(f"{where} failed: {failure}", unknown_outcome=mode is not None)
    if 300 <= status < 400:
        return InvalidError(f"{where} was redirected: {failure}; check the region and the endpoint")
    return InvalidError(f"{where} was refused: {failure}")


def _is_conflict(status: int, code: str, mode: PutMode | None) -> bool:
    """Whether a condition did not hold. Azure answers a refused create with 409, the others with 412."""
    if isinstance(mode, Create):
        return status == 412 or (status == 409 and code == "BlobAlreadyExists")
    return isinstance(mode, Update) and status == 412
