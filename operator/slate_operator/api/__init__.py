"""The kinds, as models: the one source of the CRDs, their documentation and the checks of what was written."""
