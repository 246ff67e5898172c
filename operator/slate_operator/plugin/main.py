"""The command ``kubectl slate``."""

from __future__ import annotations

import sys

import typer

from slate_operator.plugin import connect, logs, looking, making, undelete
from slate_operator.plugin.flags import Flags, split
from slate_operator.plugin.kubectl import Failed, Kubectl
from slate_operator.plugin.session import Session

app = typer.Typer(
    name="kubectl slate",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": 110, "help_option_names": ["--help", "-h"]},
    help="""Work with SlateDB databases on Kubernetes.

    \b
      kubectl slate status orders       what it is and what runs for it
      kubectl slate why orders          what is in its way
      kubectl slate connect orders      redis-cli

    `kubectl slate VERB --help` shows examples.""",
    epilog="""\b
    All flags of kubectl that choose a cluster, a namespace or a user may stand anywhere:
      -n NAMESPACE, --context, --kubeconfig, --as, --request-timeout, …

    \b
    Exit codes: 0 done, 1 it cannot be done as things are, 2 wrong usage, 3 there is no such object;
    `connect` ends with the code of redis-cli.""",
)

for verb in (
    looking.status,
    looking.why,
    making.checkpoint,
    making.clone,
    undelete.undelete,
    looking.cost,
    connect.connect,
    logs.logs,
):
    app.command(short_help=(verb.__doc__ or "").partition("\n")[0])(verb)


@app.callback()
def begin(context: typer.Context) -> None:
    if context.obj is None:
        context.obj = Session(Kubectl(Flags()))


def main() -> None:
    """The entry point. kubectl calls it with everything that stood behind ``kubectl slate``."""
    flags, words = split(sys.argv[1:])
    try:
        app(words, prog_name="kubectl slate", obj=Session(Kubectl(flags)))
    except Failed as failure:
        typer.echo(f"kubectl slate: {failure}", err=True)
        sys.exit(failure.code)


if __name__ == "__main__":
    main()
