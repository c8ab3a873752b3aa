/** Leases with a real broker: heartbeats, cancellation, time limits, stuck handlers, checkpoints. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Cancelled, type Context, type Handler, Worker } from "../src/index.js";
import { COMPLETED, DELAYED, startBroker } from "./support/broker.js";
import { Journal } from "./support/journal.js";
import { payloads, quiet, work } from "./support/work.js";

/** A lease that a test outlives, in milliseconds. Its heartbeats can be late by more than 3 s, as on a busy machine. */
const SHORT_LEASE = 6_000;
const LONGER = SHORT_LEASE + 1_000;

/** Blocks the event loop. */
function block(milliseconds: number): void {
  const until = performance.now() + milliseconds;
  while (performance.now() < until);
}

/** Waits until the signal is aborted. */
function aborted(context: Context): Promise<never> {
  return sleep(60_000, undefined, { signal: context.signal }).then(() => assert.fail("not aborted"));
}

for (const keeper of ["thread", "loop"] as const) {
  test(`heartbeats from the ${keeper} keep the lease of a long handler`, async (t) => {
    const broker = await startBroker(t);
    if (broker === null) return;
    await broker.enqueue([{ payload: "x" }]);
    const options = { keeper, lease: SHORT_LEASE };
    const journal = await work(broker, () => sleep(LONGER), (journal) => journal.waitFor("completed"), options);
    assert.deepEqual(broker.sql("SELECT lease_state AS s, lease_fence AS f FROM work"), [{ s: COMPLETED, f: 1 }]);
    const beats = journal.count("heartbeat");
    assert.ok(beats >= 2 && beats <= 6, String(beats));
    assert.equal(journal.count("lost"), 0);
  });
}

test("a handler that blocks the event loop keeps its lease", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue(payloads(4));
  const handler: Handler = (item) => {
    if (item.columns.payload === "1") block(LONGER);
  };
  // The settlement of item 0 is in flight while item 1 blocks.
  const journal = await work(broker, handler, (journal) => journal.waitFor("completed", 4), { concurrency: 2, lease: SHORT_LEASE });
  assert.deepEqual(broker.sql("SELECT DISTINCT lease_state AS s, lease_fence AS f FROM work"), [{ s: COMPLETED, f: 1 }]);
  assert.deepEqual([journal.count("lost"), journal.count("unknown")], [0, 0]);
});

test("a cancelled lease aborts the handler with its reason", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  const [key] = await broker.enqueue([{ payload: "x" }]);
  assert.ok(key);
  let reason: unknown;
  const handler: Handler = async (_item, context) => {
    context.signal.addEventListener("abort", () => {
      reason = context.signal.reason;
    });
    await aborted(context);
  };
  const journal = await work(broker, handler, async (journal) => {
    await journal.waitFor("started");
    await broker.cancel(key, "order withdrawn", "1h");
    await journal.waitFor("cancelled");
  }, { lease: SHORT_LEASE });
  assert.ok(reason instanceof Cancelled && reason.cause === "lease_lost");
  assert.equal(reason.message, "order withdrawn");
  assert.equal(journal.of("cancelled")[0]?.cause, "lease_lost");
  assert.deepEqual(["completed", "failed", "released"].map((name) => journal.count(name as "completed")), [0, 0, 0]);
  assert.deepEqual(broker.sql("SELECT lease_state AS s, lease_error AS e FROM work"), [{ s: DELAYED, e: "order withdrawn" }]);
});

test("a time limit fails the item", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue([{ payload: "x" }]);
  let reason: unknown;
  const handler: Handler = async (_item, context) => {
    await aborted(context).finally(() => {
      reason = context.signal.reason;
    });
  };
  await work(broker, handler, (journal) => journal.waitFor("failed"), { timeLimit: "500ms" });
  assert.ok(reason instanceof Cancelled && reason.cause === "time_limit");
  assert.deepEqual(broker.sql("SELECT lease_error AS e FROM work"), [{ e: "time limit of 0.5 s" }]);
});

test("a handler that returns after its time limit completes the item", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue([{ payload: "x" }]);
  await work(broker, () => sleep(1_500), (journal) => journal.waitFor("completed"), { timeLimit: "500ms" });
  assert.deepEqual(broker.states(), { [COMPLETED]: 1 });
});

test("stuck handlers are reported, and their slots replaced up to a limit", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue([{ payload: "stuck" }, ...payloads(20)]);
  const ends: (() => void)[] = [];
  const journal = new Journal();
  const handler: Handler = async (item) => {
    if (item.columns.payload === "stuck") await new Promise<void>((resolve) => ends.push(resolve));
  };
  const worker = new Worker(broker.address, "work", handler, {
    // Longer than the test: the lease of a stuck handler is not kept, and its item must not come back and get stuck again.
    lease: "10m",
    timeLimit: 200,
    stuckAfter: 200,
    maxStuck: 1,
    logger: quiet,
    onEvent: journal.observe,
  });
  await worker.start();
  await journal.waitFor("completed", 20);
  assert.equal(journal.count("stuck"), 1);
  assert.equal(worker.health(), true);
  await broker.enqueue([{ payload: "stuck" }]);
  await journal.waitFor("stuck", 2);
  assert.equal(worker.health(), false);
  const claimed = journal.count("claimed");
  await broker.enqueue(payloads(1));
  await sleep(500);
  assert.equal(journal.count("claimed"), claimed);
  for (const end of ends) end();
  await journal.waitFor("completed", 21);
  assert.equal(worker.health(), true);
  assert.equal(await worker.stop(), true);
});

test("the next attempt gets the checkpoint of a failed one", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue([{ payload: "x" }]);
  const seen: (string | null)[] = [];
  const handler: Handler = (item, context) => {
    seen.push(item.checkpoint && Buffer.from(item.checkpoint).toString());
    context.checkpoint(Buffer.from(`page ${item.attempt}`));
    if (item.attempt === 1) throw new Error("again");
  };
  await work(broker, handler, async (journal) => {
    await journal.waitFor("failed");
    broker.sql("UPDATE work SET lease_state = 0, lease_due_time = NULL");
    await journal.waitFor("completed");
  });
  assert.deepEqual(seen, [null, "page 1"]);
});

test("a heartbeat stores the checkpoint", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue([{ payload: "x" }]);
  const handler: Handler = async (_item, context) => {
    context.checkpoint(Buffer.from("half"));
    while (broker.sql("SELECT CAST(lease_checkpoint AS TEXT) AS c FROM work")[0]?.c !== "half") await sleep(500);
  };
  await work(broker, handler, (journal) => journal.waitFor("completed"), { lease: SHORT_LEASE });
});

test("a checkpoint that is refused is logged and left out, and its item goes on", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue(payloads(2));
  const errors: string[] = [];
  const handler: Handler = async (item, context) => {
    if (item.columns.payload === "1") return sleep(LONGER);
    context.checkpoint(new Uint8Array(101));
    await sleep(LONGER);
    context.checkpoint(new Uint8Array(101));
    context.checkpoint(new Uint8Array(100));
  };
  const logger = { ...console, error: (text: string) => errors.push(text) };
  const options = { concurrency: 2, lease: SHORT_LEASE, logger };
  const journal = await work(broker, handler, (journal) => journal.waitFor("completed", 2), options);
  assert.equal(errors.length, 1, String(errors));
  assert.match(errors[0] ?? "", /checkpoint of item .* is left out.*: .*limit of 100 bytes/);
  assert.equal(journal.count("lost"), 0);
  assert.equal(journal.count("failed"), 0);
});
