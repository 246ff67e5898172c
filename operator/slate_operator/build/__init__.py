"""From a spec to Kubernetes objects: pure functions to dictionaries."""
