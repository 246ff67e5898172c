"""CheckpointSchedule: checkpoints at times."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import ConfigDict, Field

from slate_operator.api.checkpoint import CheckpointSpec
from slate_operator.api.conditions import Conditions
from slate_operator.api.definition import REASON, Column, Definition
from slate_operator.api.model import Model, Observed, Time
from slate_operator.api.place import name_of_label
from slate_operator.api.resource import Resource
from slate_operator.api.rule import rule, rules


class TemplateMetadata(Model):
    """Labels and annotations of what is made."""

    labels: dict[str, str] = Field(default_factory=dict, description="Labels.")
    annotations: dict[str, str] = Field(default_factory=dict, description="Annotations.")


class CheckpointTemplate(Model):
    """The Checkpoints that are made."""

    metadata: TemplateMetadata = Field(default_factory=TemplateMetadata, description="Their labels and annotations.")
    spec: CheckpointSpec = Field(
        description="Their spec.",
        json_schema_extra=rules(
            rule(
                "!has(self.source)",
                "a schedule keeps the state at each of its times, so its template has no source; leave it out",
            )
        ),
    )


class ScheduleSpec(Model):
    """What is wanted."""

    schedule: str = Field(
        min_length=1,
        max_length=256,
        description="When, as cron has it: minute, hour, day of month, month, day of week; or @hourly, @daily …",
        examples=["0 3 * * *"],
        json_schema_extra=rules(
            rule(
                r"self.matches(r'^(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|\S+( +\S+){4})$') "
                "&& !self.contains('TZ=')",
                "a schedule has five fields (minute, hour, day of month, month, day of week) or is one of @hourly, @daily, "
                "@weekly, @monthly and @yearly; a time zone goes into timeZone",
            )
        ),
    )
    time_zone: str = Field(
        default="Etc/UTC", max_length=64, description="The time zone of the schedule, such as Europe/Berlin."
    )
    suspend: bool = Field(default=False, description="While true, no checkpoints are made.")
    concurrency_policy: Literal["Allow", "Forbid", "Replace"] = Field(
        default="Allow",
        description="What to do if the last Checkpoint is not ready when the next is due. Allow: make both. Forbid: skip "
        "the new one. Replace: delete the old one.",
    )
    starting_deadline_seconds: int = Field(
        default=3600, ge=1, description="A run that was missed is made up for if it is late by no more than this."
    )
    successful_history_limit: int = Field(
        default=3, ge=0, le=1000, description="How many ready Checkpoints are kept, the newest ones."
    )
    failed_history_limit: int = Field(default=1, ge=0, le=1000, description="How many that failed are kept.")
    template: CheckpointTemplate = Field(description="The Checkpoints that are made.")


class ScheduleStatus(Observed):
    """What is."""

    observed_generation: int = Field(default=-1, description="The generation of the spec that this is about.")
    conditions: Conditions = Field(default=(), description="What is true of the schedule.")
    last_run: Time | None = Field(default=None, description="The time of the last run, as scheduled.")
    next_run: Time | None = Field(default=None, description="The time of the next one.")
    last_checkpoint: str | None = Field(default=None, description="The Checkpoint of the last run.")


class CheckpointSchedule(Resource):
    """Checkpoints of a database at times, the last few of which are kept."""

    model_config = ConfigDict(json_schema_extra=rules(name_of_label("CheckpointSchedule", 52)))
    definition: ClassVar[Definition] = Definition(
        kind="CheckpointSchedule",
        plural="checkpointschedules",
        short="scs",
        columns=(
            Column("Schedule", ".spec.schedule", description="When, as cron has it."),
            Column("Database", ".spec.template.spec.databaseRef.name", description="The SlateDatabase."),
            Column("Suspended", ".spec.suspend", description="Whether it rests."),
            Column("Last", ".status.lastRun", "date", "How long ago the last run was."),
            Column("Next", ".status.nextRun", description="The time of the next run."),
            Column("Zone", ".spec.timeZone", description="The time zone of the schedule.", wide=True),
            REASON,
        ),
        selectable=(".spec.template.spec.databaseRef.name",),
    )

    spec: ScheduleSpec
    status: ScheduleStatus = Field(default_factory=ScheduleStatus)
