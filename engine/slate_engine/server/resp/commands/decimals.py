"""Numbers with a fraction, as INCRBYFLOAT adds them.

Redis adds them as `long double`, which Python has not, and rounds to 17 places: 0.1 and 0.2 come to 0.3. So do decimals.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation

from slate_engine.server.resp.replies import CommandError

PLACES = Decimal(1).scaleb(-17)
LARGEST_EXPONENT = 4931
"""Of a `long double`. A larger one is infinite there, and would be written as a million digits here."""
LONGEST = 5 * 1024
"""More characters than any of them has."""

_EXACT = Context(prec=2 * LONGEST, rounding=ROUND_HALF_EVEN)


def decimal(text: bytes) -> Decimal:
    """A number, which may be infinite."""
    try:
        if len(text) > LONGEST or text != text.strip() or b"_" in text:
            raise ValueError
        value = Decimal(text.decode("ascii"))
    except (ValueError, InvalidOperation):
        raise CommandError("ERR value is not a valid float") from None
    if value.is_nan() or (value.is_finite() and value and abs(value.adjusted()) > LARGEST_EXPONENT):
        raise CommandError("ERR value is not a valid float")
    return value


def added(first: Decimal, second: Decimal) -> bytes | None:
    """The sum, without an exponent and without zeros at its end; None if it is no number."""
    if not (first.is_finite() and second.is_finite()):
        return None
    value = _EXACT.add(first, second)
    if value and value.adjusted() > LARGEST_EXPONENT:
        return None
    text = format(value.quantize(PLACES, context=_EXACT), "f").rstrip("0").rstrip(".")
    return b"0" if text in ("-0", "") else text.encode()
