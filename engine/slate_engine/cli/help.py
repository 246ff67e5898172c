"""How the command explains itself: its verbs by what they are about, plain and quick to print."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

READING, WRITING, SHAPE = "Read data", "Write data", "Look at a database"
CHECKPOINTS, CLONES, LIFE = "Checkpoints", "Clones and copies", "Destroy and restore"
CARE, SERVICES = "Care", "Run services"
SECTIONS = (READING, WRITING, SHAPE, CHECKPOINTS, CLONES, LIFE, CARE, SERVICES)
"""The sections of the help, in their order. A verb says which is its own by ``rich_help_panel``."""


class Verbs(TyperGroup):
    """All verbs of the command, listed by section; and a hint for those who give a common option too late."""

    def sections(self, context: Any) -> list[tuple[str, list[tuple[str, Any]]]]:
        found: dict[str, list[tuple[str, Any]]] = {name: [] for name in SECTIONS}
        for name in self.list_commands(context):
            command: Any = self.get_command(context, name)
            found[command.rich_help_panel or CARE].append((name, command))
        return [(section, verbs) for section, verbs in found.items() if verbs]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for section, verbs in self.sections(ctx):
            with formatter.section(section):
                formatter.write_dl([(name, command.get_short_help_str(limit=150)) for name, command in verbs])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            # An option that the verb does not know, in the way in which the parser says so.
            option = getattr(error, "option_name", None)
            if option in {name for parameter in self.params for name in parameter.opts}:
                error.message = (  # type: ignore[attr-defined]
                    f"{option} is for all verbs, so it comes before the verb: slate {option} … {ctx.invoked_subcommand}"
                )
                error.possibilities = None  # type: ignore[attr-defined]
            raise
