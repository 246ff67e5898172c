"""What went wrong, as RFC 9457 has it: a document that a program can tell apart and a person can read."""

from __future__ import annotations

from dataclasses import asdict

from aiohttp import web

from slate_engine.admin.checkpoints import NeededByClone
from slate_engine.admin.ownership import DatabaseExists, OwnedByAnother
from slate_engine.errors import ClosedError, CloseReason, DatabaseDeleted, Error, InvalidError, UnavailableError
from slate_engine.lsm.replay import WalTruncated
from slate_engine.state.checkpoints import CheckpointDiffers, CheckpointExpired, CheckpointMissing, NotInitialized
from slate_engine.state.commit import NothingStored
from slate_engine.state.destroy import BeingUndeleted, BroughtBack, InvalidDeletion, NotDestroyed
from slate_engine.state.tombstone import Destroyed
from slate_engine.store.scrubbing import scrubbed

TYPES: tuple[tuple[type[Error], int, str, str], ...] = (
    (InvalidDeletion, 409, "invalid-deletion", "Something still needs the database"),
    (BeingUndeleted, 409, "being-undeleted", "Somebody is bringing the database back"),
    (BroughtBack, 409, "brought-back", "The database was brought back"),
    (NotDestroyed, 409, "not-destroyed", "The database is not destroyed"),
    (Destroyed, 410, "destroyed", "The database is destroyed"),
    (OwnedByAnother, 409, "owned-by-another", "The database belongs to another owner"),
    (DatabaseExists, 409, "database-exists", "There is a database already"),
    (NotInitialized, 409, "not-initialized", "The database is not set up yet"),
    (NeededByClone, 409, "needed-by-clone", "A clone needs the checkpoint"),
    (CheckpointMissing, 404, "checkpoint-missing", "There is no such checkpoint"),
    (CheckpointExpired, 410, "checkpoint-expired", "The checkpoint has expired"),
    (WalTruncated, 409, "wal-missing", "A file of the WAL is missing"),
    (CheckpointDiffers, 409, "checkpoint-differs", "This id is taken"),
    (NothingStored, 404, "no-database", "There is no database"),
    (UnavailableError, 503, "store-unavailable", "The object store does not answer"),
    (InvalidError, 400, "invalid", "This cannot be asked for"),
)
"""From the narrower class to the wider: the status, the name of the type, and its title."""


class Problem(Exception):
    """A request that is refused."""

    def __init__(self, status: int, kind: str, title: str, detail: str, **more: object) -> None:
        super().__init__(detail)
        self.status = status
        self.document = {
            "type": f"urn:slatekeeper:problem:{kind}",
            "title": title,
            "status": status,
            "detail": detail,
            **more,
        }

    @classmethod
    def of(cls, error: Error) -> Problem:
        """What a client is told of an error of the engine."""
        message = scrubbed(" ".join(error.message.split()))
        if isinstance(error, DatabaseDeleted):
            return cls(404, "no-database", "There is no database", message)
        if isinstance(error, ClosedError) and error.reason is CloseReason.FENCED:
            return cls(409, "fenced", "Another process has taken over", message)
        for kind, status, name, title in TYPES:
            if isinstance(error, kind):
                return cls(status, name, title, message, **_particulars(error))
        return cls(500, "internal", "The service failed", message)

    def response(self) -> web.Response:
        headers = {"WWW-Authenticate": "Bearer"} if self.status == 401 else {}
        return web.json_response(
            self.document, status=self.status, content_type="application/problem+json", headers=headers
        )


def _particulars(error: Error) -> dict[str, object]:
    """What a program can use of it."""
    if isinstance(error, InvalidDeletion):
        return {"checkpoints": [str(each.id) for each in error.checkpoints]}
    if isinstance(error, OwnedByAnother):
        return {"owner": asdict(error.owner)}
    return {}


def not_found(path: str) -> Problem:
    return Problem(
        404, "no-such-path", "There is nothing here", f"{path} is not part of this service; see /openapi.json"
    )


def unauthorized() -> Problem:
    return Problem(401, "unauthorized", "A token is needed", "send the header `Authorization: Bearer <token>`")
