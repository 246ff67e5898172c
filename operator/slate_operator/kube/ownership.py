"""Whose an object is that has the name of one of ours. Names follow from the owner's own and can be foretold, so a user may
well have something under one of them: that is not overwritten, not used and not deleted, unless he says that we may have it.
"""

from __future__ import annotations

from slate_operator.kube.cluster import Body, Kind, LeftBehind, NameTaken
from slate_operator.names import LABEL_DATABASE, LABEL_SPARK

ADOPTING = (LABEL_DATABASE, LABEL_SPARK)
"""Labels by which a user says so, with the value that our own object has."""


def belongs(body: Body, uid: str) -> bool:
    """Whether it was made for the object of this uid."""
    return any(owner.get("uid") == uid for owner in body["metadata"].get("ownerReferences") or ())


def check_own(kind: Kind, found: Body, wanted: Body) -> None:
    """:class:`NameTaken` if what stands where ``wanted`` is to be is somebody else's. :class:`LeftBehind` if it was
    made for an owner of the same name that is gone: the cluster deletes it in its own time, which is soon, unless somebody
    has a finalizer on it."""
    (ours,) = wanted["metadata"]["ownerReferences"]
    if belongs(found, ours["uid"]):
        return
    name, owners = wanted["metadata"]["name"], found["metadata"].get("ownerReferences") or ()
    if any((owner["kind"], owner["name"]) == (ours["kind"], ours["name"]) for owner in owners):
        # Names are unique, so one of the same name and another uid does not exist any more.
        raise LeftBehind(
            f"{kind.kind} {name} is still there of a {ours['kind']} of this name that is gone. It is made anew as soon as "
            f"that one has gone too{_held_by(found)}"
        )
    controller = next((owner for owner in owners if owner.get("controller")), None)
    if controller is None and _is_given(found, wanted):
        return
    whose = "" if controller is None else f" but of {controller['kind']} {controller['name']}"
    raise NameTaken(
        f"there is a {kind.kind} {name} already that is not of this {ours['kind']}{whose}, and it is left as it is. Rename "
        f"or delete it, or give this {ours['kind']} another name{_how_to_give(wanted) if controller is None else ''}"
    )


def _held_by(found: Body) -> str:
    held = found["metadata"].get("finalizers") or ()
    return f", which waits for whoever has put the finalizer {', '.join(held)} on it" if held else ""


def _is_given(found: Body, wanted: Body) -> bool:
    carried, labels = found["metadata"].get("labels") or {}, wanted["metadata"].get("labels") or {}
    return any(label in labels and carried.get(label) == labels[label] for label in ADOPTING)


def _how_to_give(wanted: Body) -> str:
    labels = wanted["metadata"].get("labels") or {}
    label = next((each for each in ADOPTING if each in labels), None)
    return "" if label is None else f"; or label it {label}={labels[label]} to have it taken over"
