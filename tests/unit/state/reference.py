"""A second opinion: any table of our schemas to and from plain values, with Google's FlatBuffers runtime and nothing of ours
but the schema itself.

A table is a dict of the fields that are present. A union is the dict of its member, beside a ``…_type`` that says which.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flatbuffers
from flatbuffers import encode, number_types, packer
from flatbuffers.table import Table

from slate_engine.format.flatbuf.generate import read_schema
from slate_engine.format.flatbuf.schema import Member

SCHEMA = read_schema()
Value = dict[str, Any]

_FLAGS: dict[str, Any] = {
    "bool": number_types.Uint8Flags,
    "byte": number_types.Int8Flags,
    "ubyte": number_types.Uint8Flags,
    "ushort": number_types.Uint16Flags,
    "uint": number_types.Uint32Flags,
    "long": number_types.Int64Flags,
    "ulong": number_types.Uint64Flags,
}


def decode_table(name: str, data: bytes) -> Value:
    """Read a finished buffer whose root is the table ``name``."""
    return _read(name, Table(bytearray(data), encode.Get(packer.uoffset, data, 0)))


def encode_table(name: str, value: Value) -> bytes:
    """Write a finished buffer. Fields of the dict that the schema does not have are an error."""
    builder = flatbuffers.Builder(0)
    builder.Finish(_write(name, value, builder))
    return bytes(builder.Output())


def _slots(name: str) -> Iterator[tuple[int, Member]]:
    slot = 0
    for member in SCHEMA.tables[name].members:
        if member.type in SCHEMA.unions:
            yield slot, Member(f"{member.name}_type", "ubyte", False, False, "0")
            slot += 1
        yield slot, member
        slot += 1


def _flags(member: Member) -> Any:
    enum = SCHEMA.enums.get(member.type)
    return _FLAGS.get(enum.base if enum else member.type)


def _read(name: str, table: Table) -> Value:
    found: Value = {}
    for slot, member in _slots(name):
        offset = table.Offset(4 + 2 * slot)
        if not offset:
            continue
        at = table.Pos + offset
        flags = _flags(member)
        if member.vector:
            start, length = table.Vector(offset), table.VectorLen(offset)
            if member.type == "ubyte":
                found[member.name] = bytes(table.Bytes[start : start + length])
            elif flags:
                found[member.name] = [table.Get(flags, start + flags.bytewidth * i) for i in range(length)]
            else:
                places = [table.Indirect(start + 4 * i) for i in range(length)]
                found[member.name] = [_read(member.type, Table(table.Bytes, place)) for place in places]
        elif flags:
            found[member.name] = table.Get(flags, at)
        elif member.type == "string":
            found[member.name] = table.String(at).decode()
        else:
            found[member.name] = _read(_member_table(member, found), Table(table.Bytes, table.Indirect(at)))
    return found


def _member_table(member: Member, value: Value) -> str:
    union = SCHEMA.unions.get(member.type)
    return union.members[value[f"{member.name}_type"] - 1] if union else member.type


def _write(name: str, value: Value, builder: flatbuffers.Builder) -> int:
    members = dict(_slots(name))
    assert value.keys() <= {member.name for member in members.values()}, value.keys()
    children = {m.name: _child(m, value, builder) for m in members.values() if m.name in value}
    builder.StartObject(len(members))
    for slot, member in members.items():
        if member.name not in value:
            continue
        flags = _flags(member)
        if flags and not member.vector:
            builder.Prepend(flags, value[member.name])
            builder.Slot(slot)
        else:
            builder.PrependUOffsetTRelativeSlot(slot, children[member.name], 0)
    return int(builder.EndObject())


def _child(member: Member, value: Value, builder: flatbuffers.Builder) -> int:
    """The offset of what a field points to; nothing for a scalar."""
    item, flags = value[member.name], _flags(member)
    if member.vector and member.type == "ubyte":
        return int(builder.CreateByteVector(item))
    if member.vector:
        offsets = item if flags else [_write(member.type, each, builder) for each in item]
        builder.StartVector(4, len(item), 4)
        for each in reversed(offsets):
            builder.PrependUint32(each) if flags else builder.PrependUOffsetTRelative(each)
        return int(builder.EndVector())
    if flags:
        return 0
    if member.type == "string":
        return int(builder.CreateString(item))
    return _write(_member_table(member, value), item, builder)
