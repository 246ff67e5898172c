"""Objects of a database that had the same name and is gone. The cluster deletes them in its own time, which is soon; until
then they are in the way of those of the new one, and must not be taken for its own."""

from __future__ import annotations

from slate_operator.kube.cluster import DATABASES, Body, Cluster, Conflict, Key, Kind


def belongs(body: Body, uid: str) -> bool:
    """Whether it was made for the object of this uid."""
    return any(owner.get("uid") == uid for owner in body["metadata"].get("ownerReferences") or ())


async def check_way(cluster: Cluster, kind: Kind, wanted: Body) -> None:
    """:class:`Conflict`, which says to look again, if such a one stands in the way of ``wanted``."""
    metadata = wanted["metadata"]
    check_own(kind, await cluster.get(kind, Key(metadata["namespace"], metadata["name"])), wanted)


def check_own(kind: Kind, found: Body | None, wanted: Body) -> None:
    """Names are unique, so a database of the same name and another uid does not exist any more."""
    (ours,) = wanted["metadata"]["ownerReferences"]
    for owner in (found or {}).get("metadata", {}).get("ownerReferences") or ():
        if (owner["kind"], owner["name"]) == (DATABASES.kind, ours["name"]) and owner["uid"] != ours["uid"]:
            name = wanted["metadata"]["name"]
            raise Conflict(f"{kind.kind} {name} is of a database that is gone, and goes in a moment; look again")
