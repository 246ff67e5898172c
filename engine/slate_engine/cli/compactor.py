"""The verb ``compactor``: a compactor, or a worker of one, for as long as the process lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Generic, TypeVar

import typer

from slate_engine.cli.compaction import (
    BlockSize,
    Codec,
    Force,
    Memory,
    Output,
    Ranges,
    SstSize,
    policy_named,
    show,
    worker_options,
)
from slate_engine.cli.failures import exit_code
from slate_engine.cli.help import SERVICES
from slate_engine.cli.progress import progress
from slate_engine.cli.session import Session

if TYPE_CHECKING:
    from slate_engine.lsm.compaction.options import CompactorOptions, WorkerOptions
    from slate_engine.lsm.reading import DatabaseFiles

T = TypeVar("T")


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=SERVICES)(compactor)


def compactor(
    context: typer.Context,
    policy: Annotated[str, typer.Option(metavar="tiered|leveled", help="How jobs are chosen.")] = "tiered",
    worker_only: Annotated[
        bool,
        typer.Option("--worker-only", help="Only merge what another compactor, ours or SlateDB's, has given out."),
    ] = False,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Only choose and commit jobs; workers elsewhere merge them.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="At most so many jobs at the same time.")] = 4,
    poll_interval: Annotated[str, typer.Option(metavar="SPAN", help="How often to look for something to do.")] = "5s",
    trivial_moves: Annotated[
        bool, typer.Option("--trivial-moves", help="Do not rewrite SSTs that do not overlap; only move them.")
    ] = False,
    max_age: Annotated[
        str, typer.Option(metavar="SPAN", help="Rewrite what is older, so that expired rows go: 7days, say.")
    ] = "",
    max_tombstones: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Merge the oldest runs from this share of tombstones on: 0.3, say."),
    ] = None,
    codec: Codec = "",
    block_size: BlockSize = 4096,
    memory: Memory = 256,
    sst_size: SstSize = 256,
    ranges: Ranges = 4,
    force: Force = False,
) -> None:
    """Run the compactor of a database, until stopped.

    Open the database elsewhere with compactor_options set to null, so that there is no other. When this process is
    stopped, or dies, the next one goes on with its jobs where they are. A compactor that begins later takes this one's
    place, and this one ends with exit code 6. With --worker-only it takes nobody's place: any number of workers share
    the jobs of one compactor.

    \b
    Examples:
      slate --store s3://bucket --path orders compactor
      slate --store s3://bucket --path orders compactor --max-age 7days --max-tombstones 0.3
      slate --store s3://bucket --path orders compactor --worker-only --memory 1024
    """
    session: Session = context.obj
    if worker_only and no_worker:
        raise typer.BadParameter("choose one of them", param_hint="--worker-only and --no-worker")
    if policy == "major":
        raise typer.BadParameter(
            "a compactor that went on like that would rewrite everything at every flush; choose tiered or leveled",
            param_hint="--policy",
        )
    wanted = policy_named(policy)
    output = Output(codec, block_size, memory, sst_size, ranges)

    async def run() -> int:
        from slate_engine.admin.lifetimes import parse_lifetime
        from slate_engine.lsm.compaction.options import CompactorOptions
        from slate_engine.lsm.compaction.triggers import Triggers

        files = session.files()
        interval = parse_lifetime(poll_interval) / 1000
        worker = worker_options((await files.manifests.read_latest()).value, output, jobs, interval)
        if worker_only:
            return await _work(files, worker)
        options = CompactorOptions(
            wanted,
            Triggers(parse_lifetime(max_age) / 1000 if max_age else None, max_tombstones),
            None if no_worker else worker,
            poll_interval=interval,
            max_concurrent_compactions=jobs,
            enable_trivial_move=trivial_moves,
        )
        return await _coordinate(session, files, options, force=force)

    session.run(run())


async def _coordinate(session: Session, files: DatabaseFiles, options: CompactorOptions, *, force: bool) -> int:
    from slate_engine.errors import Error
    from slate_engine.lsm.compaction.compactor import EmbeddedCompactor

    end = End[Error]()
    with progress("waiting for work") as line:
        _log_jobs()
        running = EmbeddedCompactor(files, options, failed=end.come, progressed=lambda state: show(line, state))
        await running.start(guarded=not force)
        try:
            error = await end.wait()
        finally:
            await running.close()
    if error is not None:
        session.note(f"slate: {error.message}")
        return exit_code(error)
    return 0


async def _work(files: DatabaseFiles, options: WorkerOptions) -> int:
    from slate_engine.lsm.compaction.worker import CompactionWorker
    from slate_engine.state.stores import CompactionsStore

    compactions = CompactionsStore.open(files.store, files.paths.root, files.runtime)
    with progress("waiting for work") as line:
        _log_jobs()
        worker = CompactionWorker(files, compactions, options, progressed=lambda state: show(line, state))
        worker.start()
        try:
            await End[None]().wait()
        finally:
            await worker.close()
    return 0


class End(Generic[T]):
    """The end of a service: something that comes, or SIGTERM or Ctrl-C, after which there is time to hand jobs back."""

    def __init__(self) -> None:
        import asyncio
        import signal

        loop = asyncio.get_running_loop()
        self._reason: asyncio.Future[T | None] = loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.come, None)

    def come(self, reason: T | None) -> None:
        if not self._reason.done():
            self._reason.set_result(reason)

    async def wait(self) -> T | None:
        """What has come; None for a signal."""
        return await self._reason


def _log_jobs() -> None:
    """A line on standard error for every job: why it was chosen, and what came of it."""
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
