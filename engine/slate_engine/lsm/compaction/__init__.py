"""Compaction, in three rooms.

*Plan*: pure functions from the state of a database to jobs (:mod:`plan`, :mod:`triggers`, :mod:`specs`). *Merge*: the
rows of a job, columns in and columns out, a chunk of keys at a time (:mod:`inputs`, :mod:`ranges`, :mod:`merge`,
:mod:`output`, :mod:`execution`). *Commit*: what the database and the compactor's book say of it, in SlateDB's own order
(:mod:`book`, :mod:`commit`).

Two roles go through them. The :mod:`coordinator` owns the compactor's epoch: it plans and commits. A :mod:`worker` claims
jobs and merges; there can be any number of them, ours and SlateDB's side by side. :mod:`compactor` runs one of each.
"""
