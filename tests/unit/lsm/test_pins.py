"""What is pinned stays so until its holder is gone, whenever Python notices that."""

from __future__ import annotations

from slate_engine.lsm.pins import Pins


class Holder:
    pass


class Loaded(int):
    """A number between two looks at which somebody lets go, as happens when Python collects garbage just then."""

    looks = 0
    holders: list[Holder]

    def __hash__(self) -> int:
        self.looks += 1
        if self.looks == 2:
            self.holders.clear()
        return super().__hash__()


def test_what_nobody_holds_any_more_is_not_pinned() -> None:
    pins = Pins()
    first, second = Holder(), Holder()
    pins.hold(first, 5)
    pins.hold(second, 5)
    del first
    assert pins.oldest() == 5
    del second
    assert pins.oldest() is None


def test_one_lets_go_while_another_takes_hold() -> None:
    pins = Pins()
    seq, holder = Loaded(5), Holder()
    seq.holders = [Holder()]
    pins.hold(seq.holders[0], 5)
    pins.hold(holder, seq)
    assert not seq.holders
    assert pins.oldest() == 5
    del holder
    assert pins.oldest() is None
