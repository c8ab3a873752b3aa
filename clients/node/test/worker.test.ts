/** Workers with a real broker: items, endings, batches, events. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  BatchError,
  type BatchHandler,
  type ColumnValue,
  Client,
  DeadLetter,
  type Handler,
  type Item,
  LeaseBrokerError,
  Release,
  Retry,
  Worker,
} from "../src/index.js";
import { COMPLETED, DEAD, DELAYED, READY, startBroker } from "./support/broker.js";
import { Journal } from "./support/journal.js";
import { payloads, quiet, work, workInBatches } from "./support/work.js";

test("items have the values and the numbers of their lease", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue([{ payload: null, amount: 2n ** 62n }]);
  const seen: Item[] = [];
  await work(broker, (item) => void seen.push(item), (journal) => journal.waitFor("completed"));
  const [item] = seen;
  assert.ok(item);
  assert.deepEqual({ ...item.columns }, { id: 1n, payload: null, amount: 2n ** 62n, result: null } satisfies Record<string, ColumnValue>);
  assert.deepEqual([item.attempt, item.maxAttempts, item.fencingToken, item.checkpoint], [1, 3, 1n, null]);
  assert.ok(item.readyTime instanceof Date && Math.abs(item.readyTime.getTime() - Date.now()) < 60_000);
  // The broker records no spans.
  assert.equal(item.traceParent, "");
});

test("an unknown column fails the item with the known ones", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue([{ payload: "x" }]);
  const handler: Handler = (item) => ({ columns: { result: `for ${String(item.columns.customer)}` } });
  await work(broker, handler, (journal) => journal.waitFor("failed"));
  const text = 'UnknownColumnError: no column "customer"; the item has amount, id, payload, result';
  assert.deepEqual(broker.sql("SELECT result, lease_error FROM work"), [{ result: null, lease_error: text }]);
});

const ownCause: Error = new Error("outer");
ownCause.cause = ownCause;

for (const [name, error, state, text] of [
  ["Retry", new Retry("no paper", { after: "1m" }), DELAYED, "Retry: no paper"],
  ["another error", new TypeError("bad"), DELAYED, "TypeError: bad"],
  ["a text", "a text", DELAYED, "string: a text"],
  ["DeadLetter", new DeadLetter("no customer"), DEAD, "DeadLetter: no customer"],
  ["Release", new Release({ after: "1m" }), DELAYED, null],
  ["an error that a DeadLetter caused", new Error("outer", { cause: new DeadLetter("no customer") }), DEAD, "Error: outer"],
  ["an error that is its own cause", ownCause, DELAYED, "Error: outer"],
] as const) {
  test(`throwing ${name} ends the item`, async (t) => {
    const broker = await startBroker(t);
    if (broker === null) return;
    await broker.enqueue([{ payload: "x" }]);
    const handler = () => {
      throw error as Error;
    };
    const ended = name === "Release" ? "released" : "failed";
    await work(broker, handler, (journal) => journal.waitFor(ended));
    assert.deepEqual(broker.sql("SELECT lease_state AS s, lease_error AS e FROM work"), [{ s: state, e: text }]);
  });
}

test("a result writes columns and adds follow-ups", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue([{ payload: "x" }]);
  const handler: Handler = () => ({
    columns: { result: "done" },
    followUps: [{ queue: "mail", columns: { number: 7 } }],
  });
  await work(broker, handler, (journal) => journal.waitFor("completed"));
  assert.deepEqual(broker.sql("SELECT result FROM work"), [{ result: "done" }]);
  assert.deepEqual(broker.sql("SELECT number FROM mail"), [{ number: 7 }]);
});

test("a refused result fails only its item", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue(payloads(10));
  const handler: Handler = (item) => ({ columns: item.columns.payload === "3" ? { amount: 1 } : { result: "ok" } });
  const journal = await work(
    broker,
    handler,
    async (journal) => {
      await journal.waitFor("completed", 9);
      await journal.waitFor("failed");
    },
    { concurrency: 10 },
  );
  assert.equal(journal.count("refused"), 1);
  assert.deepEqual(broker.states(), { [COMPLETED]: 9, [DELAYED]: 1 });
  const [row] = broker.sql("SELECT lease_error FROM work WHERE lease_state = 2");
  assert.match(String(row?.lease_error), /^Refused: columns\["amount"\]: .*writable/);
});

test("a value that cannot be sent fails the item", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue([{ payload: "x" }]);
  const handler = () => ({ columns: { result: Symbol("s") as unknown as string } });
  await work(broker, handler, (journal) => journal.waitFor("failed"));
  const [row] = broker.sql("SELECT lease_error FROM work");
  assert.equal(row?.lease_error, 'TypeError: column "result": symbol is not a type of a column');
});

test("a return value that is not a result fails the item", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue([{ payload: "x" }]);
  const handler = (() => ({ followups: [] })) as Handler;
  await work(broker, handler, (journal) => journal.waitFor("failed"));
  const [row] = broker.sql("SELECT lease_error FROM work");
  assert.equal(row?.lease_error, "TypeError: the handler must return { columns, followUps } or nothing");
});

test("a batch completes all items but the named failures", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue(payloads(100));
  const sizes: number[] = [];
  const handler: BatchHandler = (items) => {
    sizes.push(items.length);
    const bad = items.filter((item) => item.columns.payload === "7");
    if (bad.length > 0) throw new BatchError(new Map(bad.map((item) => [item, new Error("seven")])));
    return new Map(items.map((item) => [item, { columns: { result: item.key } }]));
  };
  const ended = async (journal: Journal) => {
    await journal.waitFor("completed", 99);
    await journal.waitFor("failed");
  };
  await workInBatches(broker, handler, ended, { batch: 50 });
  assert.deepEqual(sizes, [50, 50]);
  assert.deepEqual(broker.states(), { [COMPLETED]: 99, [DELAYED]: 1 });
});

test("a batch handler that throws fails all its items", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue(payloads(5));
  const handler: BatchHandler = () => {
    throw new Error("all");
  };
  await workInBatches(broker, handler, (journal) => journal.waitFor("failed", 5), { batch: 5 });
  assert.deepEqual(broker.states(), { [DELAYED]: 5 });
});

test("an observer that throws or rejects is logged once", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue(payloads(5));
  const logged: string[] = [];
  const worker = new Worker(broker.address, "work", () => undefined, {
    logger: { ...quiet, error: (text) => void logged.push(text) },
    concurrency: 5,
  });
  worker.on("started", () => {
    throw new Error("observer");
  });
  worker.on("completed", () => Promise.reject(new Error("observer")));
  const journal = new Journal();
  worker.on("completed", journal.observe);
  await worker.start();
  await journal.waitFor("completed", 5);
  await worker.stop();
  const text = "an observer of events threw an error and is not called again";
  assert.deepEqual(logged, [text, text]);
  assert.equal(worker.counters().started, 5);
});

test("an unknown queue ends the worker", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  const worker = new Worker(broker.address, "nowhere", () => undefined, { logger: quiet });
  await assert.rejects(
    worker.run(),
    (error) => error instanceof LeaseBrokerError && error.reason === "QUEUE_NOT_FOUND",
  );
  assert.equal(worker.health(), false);
});

test("a client adds rows with a delay, and wakes a queue", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  using client = new Client(broker.address);
  const keys = await client.enqueue("work", payloads(1_500), { delay: "1h" });
  assert.deepEqual([keys.length, new Set(keys).size], [1_500, 1_500]);
  assert.deepEqual(broker.states(), { [DELAYED]: 1_500 });
  await client.wake("work");
  await assert.rejects(client.wake("nowhere"), { name: "LeaseBrokerError", code: "NOT_FOUND" });
  await assert.rejects(client.enqueue("work", [{ amount: "many" }]), { field: 'items[0].columns["amount"]' });
});

test("a released item keeps its attempt", async (t) => {
  const broker = await startBroker(t);
  if (broker === null) return;
  await broker.enqueue([{ payload: "x" }]);
  let calls = 0;
  const handler = () => {
    calls += 1;
    if (calls === 1) throw new Release();
  };
  await work(broker, handler, (journal) => journal.waitFor("completed"));
  assert.deepEqual(broker.sql("SELECT lease_attempt AS a, lease_fence AS f FROM work"), [{ a: 1, f: 2 }]);
  assert.deepEqual(broker.states()[READY], undefined);
});
