"""What can be wrong with a block that is read, or a row that is written. Kernels cannot raise; they return one of these."""

from __future__ import annotations

OK = 0
NO_TRAILER = 1
NO_ROWS = 2
BAD_VARINT = 3
BAD_RESTART = 4
BAD_SHARED = 5
CUT_SHORT = 6
BAD_FLAGS = 7
NO_KEY = 8
DELETED_VALUE = 9
TOO_MANY_KEYS = 10
BAD_OFFSET = 11

FAULTS = {
    NO_TRAILER: "the block is too short for the offsets that it counts at its end",
    NO_ROWS: "the block has no rows",
    BAD_VARINT: "a length is not a 32-bit varint",
    BAD_RESTART: "the restart offsets do not fit the entries",
    BAD_SHARED: "a row shares more bytes than the key before it has",
    CUT_SHORT: "a row does not end within its block",
    BAD_FLAGS: "a row has flags that no known version writes",
    NO_KEY: "a row has no key",
    DELETED_VALUE: "a tombstone has a value",
    TOO_MANY_KEYS: "the keys of the block come to more than its bytes can hold",
    BAD_OFFSET: "the entry offsets do not fit the entries",
}

EMPTY_KEY = 21
KEY_ORDER = 22
SEQ_ORDER = 23
UNKNOWN_FLAGS = 24
VALUE_OF_TOMBSTONE = 25
BACKWARDS = 26

REFUSALS = {
    EMPTY_KEY: "has an empty key; SlateDB has no such keys",
    KEY_ORDER: "is out of order; sort rows by key, and versions of a key by falling seq, each seq once",
    SEQ_ORDER: "is out of order; the rows of a WAL come in the order of their commits, by rising seq",
    UNKNOWN_FLAGS: "has flags that no version of SlateDB reads",
    VALUE_OF_TOMBSTONE: "is a tombstone and has a value; leave the value empty",
    BACKWARDS: "ends before it begins; the offsets of a column never fall",
}
"""Why a row cannot be written."""
