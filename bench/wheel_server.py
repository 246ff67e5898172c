"""SET, MSET and GET of the Redis protocol in front of the original, the plain way: the peer of :mod:`bench.serve`.

``python wheel_server.py PORT``, on uvloop as ours is. A SET is answered when it is durable, as ours is; a connection's
requests are carried out one after the other.
"""

from __future__ import annotations

import asyncio
import sys

import hiredis
import slatedb.uniffi as slatedb
import uvloop


async def main(port: int) -> None:
    store = slatedb.ObjectStoreBuilder(slatedb.ObjectStoreType.IN_MEMORY).build()
    db = await slatedb.DbBuilder("db", store).build()

    async def answer(request: list[bytes]) -> bytes:
        match request[0].upper():
            case b"SET":
                await (await db.put(request[1], request[2])).await_durable()
                return b"+OK\r\n"
            case b"GET":
                value = await db.get(request[1])
                return b"$-1\r\n" if value is None else b"$%d\r\n%b\r\n" % (len(value), value)
            case b"MSET":
                batch = slatedb.WriteBatch()
                for key, value in zip(request[1::2], request[2::2], strict=True):
                    batch.put(key, value)
                await (await db.write(batch)).await_durable()
                return b"+OK\r\n"
            case b"PING":
                return b"+PONG\r\n"
        return b"-ERR unknown command\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = hiredis.Reader()
        while data := await reader.read(65536):
            parser.feed(data)
            while (request := parser.gets()) is not False:
                writer.write(await answer(request))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await server.serve_forever()


uvloop.run(main(int(sys.argv[1])))
