"""Our schemas are read as they are meant, and the layout that is checked in is theirs."""

from __future__ import annotations

from importlib.resources import files

import pytest

from slate_engine.format.flatbuf import layout
from slate_engine.format.flatbuf.field import Field, Kind
from slate_engine.format.flatbuf.generate import read_schema, render
from slate_engine.format.flatbuf.schema import Enum, Member, SchemaError, Table, Union, parse


def test_the_layout_is_not_stale() -> None:
    text = (files("slate_engine.format.flatbuf") / "layout.py").read_text("utf-8")
    assert text == render(read_schema()), "run: python -m slate_engine.format.flatbuf.generate"


SLOTS = {
    layout.SsTableInfo.last_entry: 7,
    layout.SsTableInfo.filter_format: 10,
    layout.BlockMeta.encoded_len: 2,
    layout.SstStats.block_stats: 5,
    layout.BytesBound.bound_type: 1,
    layout.CompactedSsTable.format_version: 3,
    layout.CompactedSsTableV2.format_version: 2,
    layout.CompactedSsTableView.visible_range: 2,
    layout.Segment.compacted: 3,
    layout.ExternalDb.sst_ids: 3,
    layout.Checkpoint.metadata_type: 4,
    layout.Checkpoint.metadata: 5,
    layout.Checkpoint.name: 6,
    layout.ManifestV1.l0_last_compacted: 7,
    layout.ManifestV1.wal_object_store_uri: 13,
    layout.ManifestV1.sequence_tracker: 15,
    layout.ManifestV2.last_compacted_l0_sst_view_id: 7,
    layout.ManifestV2.ssts: 8,
    layout.ManifestV2.last_l0_clock_tick: 11,
    layout.ManifestV2.segments: 16,
    layout.ManifestV2.segment_extractor_name: 17,
    layout.Compaction.spec_type: 1,
    layout.Compaction.spec: 2,
    layout.Compaction.status: 3,
    layout.Compaction.ctx_type: 6,
    layout.Compaction.ctx: 7,
    layout.TieredCompactionSpec.destination: 4,
    layout.DrainSegmentSpec.l0_view_ids: 1,
    layout.Subcompaction.status: 2,
    layout.CompactionsV1.recent_compactions: 1,
}


@pytest.mark.parametrize("field", SLOTS, ids=str)
def test_slots_are_those_of_the_format(field: Field) -> None:
    assert field.slot == SLOTS[field]


def test_kinds_widths_and_rules_of_fields() -> None:
    tick, version = layout.ManifestV2.last_l0_clock_tick, layout.CompactedSsTable.format_version
    assert (tick.kind, tick.width, tick.signed, tick.default) == (Kind.SCALAR, 8, True, 0)
    assert (version.kind, version.width, version.optional) == (Kind.SCALAR, 2, True)
    runs, name = layout.TieredCompactionSpec.sorted_runs, layout.Checkpoint.name
    assert (runs.kind, runs.width, runs.element) == (Kind.SCALARS, 4, 4)
    assert (name.kind, name.required) == (Kind.STRING, False)
    assert layout.ManifestV2.ssts.required
    assert layout.Compaction.spec.required


TEXT = """
// A comment; with "all" {that} may come.
include "other.fbs";
namespace a;
enum Colour : ubyte { Red, Green = 4, Blue }
union Thing { First, Second }
table First { a: uint = 7; b: [ubyte] (required); c: short = null; d: Colour; e: [First]; f: string; g: Thing; }
table Second {}
"""


def test_the_language() -> None:
    schema = parse({"x.fbs": TEXT, "other.fbs": "table Other { x: bool; }"}, ("x.fbs",))
    assert schema.enums == {"Colour": Enum("Colour", "ubyte", (("Red", 0), ("Green", 4), ("Blue", 5)))}
    assert schema.unions == {"Thing": Union("Thing", ("First", "Second"))}
    assert list(schema.tables) == ["Other", "First", "Second"]
    assert schema.tables["First"] == Table(
        "First",
        (
            Member("a", "uint", False, False, "7"),
            Member("b", "ubyte", True, True, "0"),
            Member("c", "short", False, False, None),
            Member("d", "Colour", False, False, "0"),
            Member("e", "First", True, False, "0"),
            Member("f", "string", False, False, "0"),
            Member("g", "Thing", False, False, "0"),
        ),
    )
    rendered = render(schema)
    assert 'a = Field("First", "a", 0, Kind.SCALAR, width=4, default=7)' in rendered
    assert 'g = Field("First", "g", 7, Kind.TABLE)' in rendered  # after the slot of its tag


@pytest.mark.parametrize(
    "text",
    [
        "struct S { x: int; }",
        "table T { x: float; }",
        "table T { x: int (deprecated); }",
        "table T { x: int",
        "table T { x int; }",
        'include "missing.fbs";',
        "table T { x: Unknown; }",
        "table T { x: int; } #",
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        parse({"x.fbs": text}, ("x.fbs",))


def test_vectors_of_strings_have_no_layout() -> None:
    with pytest.raises(SchemaError):
        render(parse({"x.fbs": "table T { x: [string]; }"}, ("x.fbs",)))
