"""What opens a database's admin API: its token, and the authority that vouches for its pods. Both are in one Secret."""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass, field

from slate_operator.admin.database import NotReached
from slate_operator.build.naming import Family
from slate_operator.kube.cluster import SECRETS, Cluster, Key


@dataclass(frozen=True, slots=True)
class Credentials:
    token: str = field(repr=False)
    trust: ssl.SSLContext


class Keyring:
    """The credentials of all databases, read when they are first needed and again when they no longer fit."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[Key, tuple[str, Credentials]] = {}

    async def of(self, family: Family, *, anew: bool = False) -> Credentials:
        key = family.key(family.admin_secret)
        known = self._known.get(key)
        # A database that was deleted and made again under the same name is another one.
        if known is not None and known[0] == family.uid and not anew:
            return known[1]
        found = await self._read(key)
        self._known[key] = (family.uid, found)
        return found

    async def _read(self, key: Key) -> Credentials:
        secret = await self._cluster.get(SECRETS, key)
        if secret is None:
            raise NotReached(f"the Secret {key} with the token of the admin API is not there")
        data = {name: base64.b64decode(value) for name, value in (secret.get("data") or {}).items()}
        try:
            token, authority = data["token"].decode("ascii").strip(), data["ca.crt"].decode("ascii")
            return Credentials(token, ssl.create_default_context(cadata=authority))
        except (KeyError, ValueError, ssl.SSLError):
            raise NotReached(
                f"the Secret {key} holds no token and ca.crt; delete it, and the operator makes it anew"
            ) from None
