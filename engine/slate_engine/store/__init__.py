"""Object stores and what stands in front of them.

``protocol`` is the seam that the engine sees, ``open`` makes a store from a url. A backend talks to one kind of storage:
``memory``, ``files``, ``obstore_backend`` (S3, Google, Azure), ``s3fs_backend``, ``gcsfs_backend``, ``adlfs_backend``,
``fsspec_backend``. Before a remote one stand ``retry``, which settles writes whose answer was lost by their ``marks``,
``metrics`` and ``cost``, and ``probe``. ``two_phase`` makes conditional writes where there are none; ``numbered`` and
``boundary`` build SlateDB's numbered objects on top. Nothing is imported here: each part is asked for by its own name.
"""
