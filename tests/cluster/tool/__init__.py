"""A real Kubernetes cluster for tests and demos: ``python -m tests.cluster.tool up`` (see ``docs/development.md``)."""
