/** Stopping a worker. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Cancelled, type Handler, Worker } from "../src/index.js";
import { LEASED, READY, startBroker } from "./support/broker.js";
import { Journal } from "./support/journal.js";
import { startServer } from "./support/scripted_server.js";
import { payloads, quiet } from "./support/work.js";

test("after the grace, items are released with their checkpoints", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue([{ payload: "x" }]);
  const journal = new Journal();
  let reason: unknown;
  const handler: Handler = async (_item, context) => {
    context.checkpoint(Buffer.from("page 17"));
    await sleep(60_000, undefined, { signal: context.signal }).finally(() => {
      reason = context.signal.reason;
    });
  };
  const worker = new Worker(broker.address, "work", handler, { logger: quiet, onEvent: journal.observe });
  await worker.start();
  await journal.waitFor("started");
  assert.equal(await worker.stop("200ms"), true);
  assert.ok(reason instanceof Cancelled && reason.cause === "shutdown");
  const rows = broker.sql("SELECT lease_state AS s, lease_attempt AS a, CAST(lease_checkpoint AS TEXT) AS c FROM work");
  assert.deepEqual(rows, [{ s: READY, a: 0, c: "page 17" }]);
});

test("a grace of two months is not over at once", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue([{ payload: "x" }]);
  const journal = new Journal();
  const handler = () => sleep(300);
  const worker = new Worker(broker.address, "work", handler, { grace: "1440h", logger: quiet, onEvent: journal.observe });
  await worker.start();
  await journal.waitFor("started");
  assert.equal(await worker.stop(), true);
  assert.deepEqual([journal.count("cancelled"), journal.count("completed")], [0, 1]);
});

test("a worker that was stopped first does nothing", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue([{ payload: "x" }]);
  const worker = new Worker(broker.address, "work", () => undefined, { logger: quiet });
  assert.equal(await worker.stop(), true);
  await worker.run();
  await worker.start();
  assert.deepEqual(broker.states(), { [READY]: 1 });
});

test("a worker that is stopped while it starts stops", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  const journal = new Journal();
  const worker = new Worker(broker.address, "work", () => undefined, { logger: quiet, onEvent: journal.observe });
  const started = worker.start();
  assert.equal(await worker.stop(), true);
  await started;
  assert.equal(journal.events.at(-1)?.name, "stopped");
  await assert.rejects(worker.start(), /started before/);
});

test("the item of a handler that does not stop stays leased", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue([{ payload: "x" }]);
  const journal = new Journal();
  let end: () => void = () => undefined;
  const handler: Handler = () => new Promise<void>((resolve) => (end = resolve));
  const worker = new Worker(broker.address, "work", handler, { lease: "1m", logger: quiet, onEvent: journal.observe });
  await worker.start();
  await journal.waitFor("started");
  const begun = performance.now();
  assert.equal(await worker.stop(0), false);
  assert.ok(performance.now() - begun < 40_000);
  assert.deepEqual(broker.states(), { [LEASED]: 1 });
  end();
});

test("a worker stops in time if no broker answers", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue(payloads(1));
  const journal = new Journal();
  const worker = new Worker(broker.address, "work", () => sleep(500), {
    lease: "1m",
    logger: quiet,
    onEvent: journal.observe,
  });
  await worker.start();
  await journal.waitFor("started");
  await broker.kill();
  await journal.waitFor("retry");
  const begun = performance.now();
  assert.equal(await worker.stop(0), true);
  assert.ok(performance.now() - begun < 40_000);
  assert.equal(journal.count("unknown"), 1);
});

test("health is false while calls fail for longer than a lease", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue(payloads(1));
  const journal = new Journal();
  const worker = new Worker(broker.address, "work", () => undefined, { lease: "2s", logger: quiet, onEvent: journal.observe });
  await worker.start();
  await journal.waitFor("completed");
  assert.equal(worker.health(), true);
  await broker.kill();
  await journal.waitFor("retry");
  while (worker.health()) await sleep(10);
  await broker.start();
  await broker.enqueue(payloads(1));
  await journal.waitFor("completed", 2);
  assert.equal(worker.health(), true);
  await worker.stop();
});

test("a worker whose token does not arrive stops", async (t) => {
  const server = await startServer(t, {});
  let asked = 0;
  const token = () => {
    asked += 1;
    return new Promise<string>(() => undefined);
  };
  const worker = new Worker(server.address, "work", () => undefined, { token, logger: quiet });
  await worker.start();
  // For the keeper, and for the first claim.
  while (asked < 2) await sleep(5);
  assert.equal(await worker.stop(), true);
  assert.equal(server.arrivals.length, 0);
});
