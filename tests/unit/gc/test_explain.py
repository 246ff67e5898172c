"""For every byte of a database, what holds it."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint, list_checkpoints
from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import create_clone
from slate_engine.format.ids import Ulid
from slate_engine.gc.collector import collect_once
from slate_engine.gc.discovery import find_clones
from slate_engine.gc.explain import explain
from slate_engine.gc.explanation import MOST_HOLDERS, Explanation, Verdict
from slate_engine.gc.options import GcOptions, Task
from slate_engine.store.cost import S3_STANDARD
from slate_engine.store.memory import MemoryStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.admin.workshop import Database
from tests.unit.gc.test_collector import busy_database


def named(explanation: Explanation, verdict: Verdict) -> set[str]:
    return {each.name for each in explanation.objects if each.verdict is verdict}


def test_garbage_is_what_a_pass_deletes_and_nothing_is_left_out() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        foreign = {"db/notes.txt", "db/wal/zzz", "db/manifest/7.txt", "db/compacted/readme.md"}
        foreign |= {f"db/wal/{2**64 - 1}.x.sst", f"db/compacted/{26 * 'u'}.sst", f"db/manifest/{2**64}.manifest"}
        for name in foreign:
            await db.store.put(name, b"mine")
        for wait, options in ((100, GcOptions()), (103, GcOptions()), (1000, GcOptions(fences=Task()))):
            await runtime.sleep(wait)
            explanation = await explain(db.files, options)
            everything = [meta async for page in db.store.list("db/") for meta in page]
            assert [each.name for each in explanation.objects] == sorted(meta.key for meta in everything)
            assert explanation.size() == sum(meta.size for meta in everything)
            assert explanation.size() == sum(explanation.size(verdict) for verdict in Verdict)
            assert named(explanation, Verdict.UNKNOWN) == foreign
            report = await collect_once(db.files, options)
            gone = {each.name for each in report if not report.kind(each.kind).dry_run}
            assert named(explanation, Verdict.GARBAGE) == gone
            assert all(each.holders or each.why for each in explanation.objects)
        assert gone

    simulate(scenario, 1)


def test_each_checkpoint_is_told_with_what_it_alone_costs() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        (checkpoint,) = await list_checkpoints(db.files)
        await runtime.sleep(1000)
        explanation = await explain(db.files)
        by_id = {each.holder.checkpoint and each.holder.checkpoint.id: each for each in explanation.holdings}
        live, kept = by_id[None], by_id[checkpoint.id]
        assert explanation.holdings.index(live) != explanation.holdings.index(kept)
        assert kept.holder.checkpoint == checkpoint
        told = kept.holder.describe(explanation.now_ms)
        assert told.startswith(f"checkpoint {checkpoint.id} (first round) of 'db', ")
        assert "s old, expires 2023-11-1" in told
        assert live.holder.describe(explanation.now_ms) == "the live state of 'db'"
        # What would go if only the checkpoint went.
        alone = [each for each in explanation.objects if each.holders == (kept.holder,)]
        assert sorted(each.kind for each in alone) == ["SST", "manifest"]
        assert kept.alone == sum(each.size for each in alone) > 0
        assert kept.dollars_a_month(S3_STANDARD) == kept.alone / 2**30 * 0.023

    simulate(scenario, 1)


def test_a_checkpoint_holds_its_part_of_the_log_and_shares_the_rest() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        made = await create_checkpoint(db.files, CheckpointOptions(whole_log=True))
        await db.publish(await db.upload(db.rows({b"d": b"4"})), db.seq, wal_id=5)
        explanation = await explain(db.files)
        (kept,) = [each for each in explanation.holdings if getattr(each.holder.checkpoint, "id", None) == made.id]
        alone = [each for each in explanation.objects if each.holders == (kept.holder,)]
        assert [(each.kind, each.name[-9:]) for each in alone] == [("manifest", ".manifest"), ("WAL", "00004.sst")]
        assert kept.alone == sum(each.size for each in alone) < kept.size

    simulate(scenario, 1)


def test_a_clone_is_named_and_what_it_borrows() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        clone = Database(db.store, runtime, "some/clone")
        await create_clone(clone.files, [CloneSource("db")])
        (external,) = (await clone.manifest()).external_dbs
        assert await find_clones(db.store, runtime) == {external.final_checkpoint_id: "some/clone"}
        # One that the original made bears no name.
        await db.files.manifests.update(
            lambda old: replace(old, checkpoints=tuple(replace(each, name=None) for each in old.checkpoints))
        )
        explanation = await explain(db.files, clones=await find_clones(db.store, runtime))
        holders = {holder for each in explanation.objects for holder in each.holders if holder.clone == "some/clone"}
        assert [holder.checkpoint and holder.checkpoint.id for holder in holders] == [external.final_checkpoint_id]
        assert "for clone 'some/clone'" in holders.pop().describe(explanation.now_ms)
        (borrowed,) = (await explain(clone.files)).borrowed
        assert (borrowed.path, borrowed.final_checkpoint_id) == ("db", external.final_checkpoint_id)
        assert borrowed.ssts == len(external.sst_ids) > 0
        assert borrowed.size > 0

    simulate(scenario, 1)


def test_of_many_holders_the_first_are_named_and_the_others_counted() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await Database(MemoryStore(runtime), runtime).make()
        await db.flush({b"a": b"1"})
        for number in range(20):
            await create_checkpoint(db.files, CheckpointOptions(id=UUID(int=number + 1)))
        (sst,) = [each for each in (await explain(db.files)).objects if each.kind == "SST"]
        assert (len(sst.holders), sst.more_holders) == (MOST_HOLDERS, 21 - MOST_HOLDERS)

    simulate(scenario, 1)


def test_what_may_be_about_to_be_published_is_not_called_garbage() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        await runtime.sleep(1000)
        orphan = db.files.paths.compacted(Ulid.of(runtime.now_ms() - 500_000, 1))
        await db.store.put(orphan, b"young")
        (young,) = [each for each in (await explain(db.files)).objects if each.name == orphan]
        assert young.verdict is Verdict.YOUNG
        assert "the oldest compaction in the book" in young.why

    simulate(scenario, 1)


def test_when_the_manifest_of_a_checkpoint_is_missing_nobody_knows_what_is_garbage() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        (checkpoint,) = await list_checkpoints(db.files)
        await db.store.delete([f"db/manifest/{checkpoint.manifest_id:020d}.manifest"])
        await runtime.sleep(1000)
        explanation = await explain(db.files)
        assert {each.kind for each in explanation.objects if each.verdict is Verdict.GARBAGE} == {
            "manifest",
            "compactions",
        }
        assert [each.holder.missing for each in explanation.holdings if each.holder.checkpoint] == [True]

    simulate(scenario, 1)
