"""``python -m tests.cluster.tool``: what the Makefile's cluster targets call."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.tool import addons, images
from tests.cluster.tool.archives import Archive
from tests.cluster.tool.locking import locked
from tests.cluster.tool.names import DEFAULT_NAME, BadName
from tests.cluster.tool.provider import Provider, provider
from tests.cluster.tool.report import ClusterError
from tests.servers.toolbox import ToolMissing


def main() -> int:
    arguments = _parser().parse_args()
    try:
        return int(arguments.run(arguments) or 0)
    except (ClusterError, ToolMissing, BadName) as error:
        print(f"[cluster] {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.tool", description=__doc__)
    parser.add_argument(
        "--name",
        default=os.environ.get("CLUSTER", DEFAULT_NAME),
        help="the cluster's name, so that several can stand side by side (default: %(default)s)",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("up", _up, "bring the cluster up; say how to reach it"),
        ("down", _down, "take it down and leave nothing behind"),
        ("status", _status, "say whether it is up; exit code 1 if it is not"),
    ):
        commands.add_parser(name, help=text).set_defaults(run=run)
    build = commands.add_parser("images", help="build the images of images/, or those named")
    build.set_defaults(run=_images)
    build.add_argument("image", nargs="*", help="which (default: all)")
    load = commands.add_parser("load", help="build the images if they are out of date and bring them into the cluster")
    load.set_defaults(run=_load)
    load.add_argument("image", nargs="*", help="which (default: all)")
    addon = commands.add_parser("addon", help="install an add-on into the cluster, with the images it needs")
    addon.set_defaults(run=_addon)
    addon.add_argument("addon", choices=sorted(addons.ADDONS), help="which")
    return parser


@contextmanager
def _cluster(arguments: argparse.Namespace) -> Iterator[Provider]:
    found = provider(arguments.name)
    with locked(found.names.lock):
        yield found


def _up(arguments: argparse.Namespace) -> None:
    with _cluster(arguments) as cluster:
        cluster.up()
        print(f"export KUBECONFIG={cluster.names.kubeconfig} PATH={cluster.kubectl().installed()}:$PATH")


def _down(arguments: argparse.Namespace) -> None:
    with _cluster(arguments) as cluster:
        cluster.down()


def _status(arguments: argparse.Namespace) -> int:
    status = provider(arguments.name).status()
    print(status.detail.rstrip())
    return 0 if status.up else 1


def _images(arguments: argparse.Namespace) -> None:
    for name in arguments.image or images.known():
        archive = images.build(name)
        print(f"{Archive(archive).size / 1e6:6.0f} MB  {images.tag(name)}  {archive}")


def _load(arguments: argparse.Namespace) -> None:
    archives = [images.build(name) for name in arguments.image or images.known()]
    with _cluster(arguments) as cluster:
        cluster.load(archives)


def _addon(arguments: argparse.Namespace) -> None:
    with _cluster(arguments) as cluster:
        addons.ADDONS[arguments.addon](cluster)


if __name__ == "__main__":
    raise SystemExit(main())
