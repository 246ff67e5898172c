"""The processes of a database: writer, reader, compactor, garbage collector."""
