"""Where things may be and what they may be called, as rules: of urls and paths of databases, and of names of objects."""

from __future__ import annotations

from slate_operator.api.rule import rule

_BUCKET = r"(s3|gs|az)://[^/@:?#\s]+|abfss://[^/@?#\s]+@[^/@?#\s]+|file://"
_STEP = r"[^/?#\s]+"
_NOT_UP = r"!self.matches(r'(^|/)[.]{1,2}(/|$)')"

URL = rule(
    f"self.matches(r'^({_BUCKET})(/{_STEP})+$') && {_NOT_UP}",
    "the url of a database is that of a bucket and a path in it, without a slash at its end: s3://bucket/path, "
    "gs://bucket/path, az://container/path or abfss://container@account.dfs.core.windows.net/path",
)

PATH = rule(
    f"self.matches(r'^{_STEP}(/{_STEP})*$') && {_NOT_UP}",
    "a path begins and ends without a slash, and has no `.` or `..` in it: write for instance staging/orders",
)


def name_of_label(kind: str, longest: int) -> dict[str, str]:
    """Names of ours stand in labels and are referred to, so they are shorter and plainer than Kubernetes demands."""
    return rule(
        f"self.metadata.name.size() <= {longest} && !self.metadata.name.contains('.')",
        f"the name of a {kind} has at most {longest} characters and no dots; choose another",
    )


def name_of_services(kind: str) -> dict[str, str]:
    """The database's Services and pods are called after it: a Service's name begins with a letter, and is short enough for
    what we add to it."""
    return rule(
        "self.metadata.name.matches(r'^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$')",
        f"the name of a {kind} becomes that of Services: it begins with a letter, has at most 52 letters, digits and "
        "hyphens, and no dots; choose another",
    )
