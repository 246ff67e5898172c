// Exercises a server through ioredis. The port comes as the first argument; what differs from Redis ends it with an error.
const assert = require("node:assert");
const Redis = require("ioredis");

async function main() {
  const client = new Redis(Number(process.argv[2]), "127.0.0.1", { lazyConnect: true });
  await client.connect();
  assert.equal(await client.set("js", "1"), "OK");
  assert.equal(await client.incr("js"), 2);
  assert.equal(await client.get("missing"), null);
  assert.equal(await client.set("js", "9", "NX"), null);
  assert.equal(await client.set("short", "1", "EX", 60), "OK");
  assert.ok((await client.ttl("short")) > 50);
  assert.deepEqual(await client.getBuffer("js"), Buffer.from("2"));

  const pipeline = client.pipeline();
  for (let i = 0; i < 500; i++) pipeline.set(`js:${String(i).padStart(3, "0")}`, i);
  for (const [error] of await pipeline.exec()) assert.equal(error, null);

  let found = 0;
  for await (const keys of client.scanStream({ match: "js:*", count: 50 })) found += keys.length;
  assert.equal(found, 500);

  await client.watch("js");
  const done = await client.multi().incr("js").get("js").exec();
  assert.deepEqual(done, [[null, 3], [null, "3"]]);
  assert.deepEqual(await client.call("SLATE.RANGE", "js:000", "js:002"), [["js:000", "0"], ["js:001", "1"]]);
  await assert.rejects(client.call("NONSENSE"), /unknown command/);
  await client.quit();
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
