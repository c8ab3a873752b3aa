/** What handlers throw and return: each value ends items, and none ends the process. With a scripted server. */

import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { test, type TestContext } from "node:test";

import { BatchError, type BatchHandler, type Context, DeadLetter, type Item, type Logger, Release, Retry, Worker } from "../src/index.js";
import { Outcome } from "../src/v1.js";
import { Journal } from "./support/journal.js";
import { startServer } from "./support/scripted_server.js";
import { quiet } from "./support/work.js";

/** Answers a settling call: every entry of its field is applied. */
const apply = (field: string) => (request: unknown) => ({
  results: (request as Record<string, unknown[]>)[field]?.map(() => ({ outcome: Outcome.APPLIED })) ?? [],
});

const timeLeft = { seconds: 60n, nanos: 0 };
const leaseOf = (key: string) => ({ leaseId: key, item: { key, columns: {} }, attempt: 1, fencingToken: 1n, timeLeft });

function startQueue(t: TestContext, keys: readonly string[]) {
  return startServer(t, {
    claimBatch: [{ message: { leases: keys.map(leaseOf) } }, "never"],
    complete: [apply("completions")],
    fail: [apply("failures")],
    release: [apply("releases")],
    releaseClaims: [{ message: {} }],
  });
}

/** Runs one handler for each item, and one more that is good. Returns the errors of the items, which must all have failed. */
async function failures(t: TestContext, handlers: readonly ((context: Context) => unknown)[], logger: Logger = quiet): Promise<string[]> {
  const server = await startQueue(t, [...handlers.keys(), "good"].map(String));
  const journal = new Journal();
  const handler = ({ key }: Item, context: Context) => handlers[Number(key)]?.(context) as undefined;
  const worker = new Worker(server.address, "work", handler, { concurrency: 100, logger, onEvent: journal.observe });
  await worker.start();
  await journal.waitFor("failed", handlers.length);
  await journal.waitFor("completed");
  await worker.stop();
  const byKey = journal.of("failed").sort((one, other) => Number(one.key) - Number(other.key));
  return byKey.map(({ error }) => error ?? "");
}

/** Returns a function that throws. */
const throws = (make: () => unknown) => () => {
  throw make();
};

test("a duration that cannot be sent fails its item", async (t) => {
  const odd = [1_000 * 2 ** 64, NaN, Infinity, -1, "soon", Symbol("soon")] as number[];
  const handlers = odd.flatMap((after) => [
    throws(() => new Retry("later", { after })),
    throws(() => new Release({ after })),
    throws(() => Object.assign(new Retry("later"), { after })),
  ]);
  for (const error of await failures(t, handlers)) assert.match(error, /^RangeError: after is /);
});

test("a result that cannot be sent fails its item", async (t) => {
  const followUps = [{ queue: Object.create(null) as string, columns: {} }];
  const [error] = await failures(t, [() => ({ followUps })]);
  assert.match(error ?? "", /cannot encode field .*FollowUp\.queue/);
});

test("an error without a readable text fails its item", async (t) => {
  const errors = [
    Object.defineProperty(new Error(), "message", { get: throws(() => new Error("no message")) }),
    Object.assign(new TypeError(), { message: Symbol("sign") }),
    Object.assign(new Retry(), { message: { code: 5 } }),
    Object.create(null) as object,
    new Proxy({}, { getPrototypeOf: throws(() => new Error("no prototype")) }),
  ];
  const logger = { ...quiet, error: throws(() => new Error("no log")) };
  assert.deepEqual(await failures(t, errors.map((error) => throws(() => error)), logger), [
    "object: a value without a text",
    "TypeError: Symbol(sign)",
    "Retry: [object Object]",
    "object: a value without a text",
    "Error: no prototype",
  ]);
});

test("an error that a DeadLetter caused is logged", async (t) => {
  const errors = [new DeadLetter("no customer"), new Error("outer", { cause: new DeadLetter("no customer") }), null];
  const logged: unknown[] = [];
  const logger: Logger = { ...quiet, error: (_text, error) => logged.push(error) };
  const texts = await failures(t, errors.map((error) => throws(() => error)), logger);
  assert.deepEqual(texts, ["DeadLetter: no customer", "Error: outer", "object: null"]);
  assert.deepEqual(logged, errors.slice(1));
});

/** Runs the handler of a batch of two items. Returns the errors of the items, which must both have failed. */
async function batchFailures(t: TestContext, handler: (items: readonly Item[]) => unknown): Promise<(string | undefined)[]> {
  const server = await startQueue(t, ["1", "2"]);
  const journal = new Journal();
  const options = { batch: 2, logger: quiet, onEvent: journal.observe };
  const worker = new Worker(server.address, "work", handler as BatchHandler, options);
  await worker.start();
  await journal.waitFor("failed", 2);
  await worker.stop();
  return journal.of("failed").map(({ error }) => error);
}

test("a batch whose errors or results name no item fails", async (t) => {
  const byKey = (items: readonly Item[]) => new Map(items.map((item) => [item.key as unknown as Item, "wrong"]));
  const texts = await Promise.all([
    batchFailures(t, byKey),
    batchFailures(t, (items) => { throw new BatchError(byKey(items)); }),
    batchFailures(t, () => { throw new BatchError({ 1: "wrong" } as unknown as Map<Item, unknown>); }),
  ]);
  const wrong = (what: string) => `TypeError: a key of ${what} is no item of the batch (string: 1); use the items as keys, not their names`;
  const noMap = "TypeError: a BatchError has a Map by item, such as new Map([[item, error]])";
  assert.deepEqual(texts, [wrong("the results"), wrong("the BatchError"), noMap].map((text) => [text, text]));
});

test("a result of another type fails its item", async (t) => {
  const text = "TypeError: the handler must return { columns, followUps } or nothing";
  const results = [[], new Map(), new Date(), "done"];
  for (const error of await failures(t, results.map((result) => () => result))) assert.equal(error, text);
  const promises = (items: readonly Item[]) => new Map(items.map((item) => [item, Promise.reject(new Error())]));
  assert.deepEqual(await batchFailures(t, promises), [text, text]);
});

test("a checkpoint that has no bytes or no item fails its item", async (t) => {
  const errors = await failures(t, [
    (context) => { context.checkpoint("page 17" as unknown as Uint8Array); },
    (context) => { context.checkpoint(new Uint8Array(1), "1" as unknown as Item); },
  ]);
  assert.deepEqual(errors, [
    "TypeError: checkpoint: pass a Uint8Array, and not a string",
    "TypeError: checkpoint: the handler has no such item",
  ]);
});

test("the async context of a function of the program stays its own", async (t) => {
  const answers = ["1", "2", "3"].map((key) => ({ message: { leases: [leaseOf(key)] } }));
  const server = await startServer(t, {
    claimBatch: [...answers, { message: { leases: ["4", "5"].map(leaseOf) } }, "never"],
    complete: [apply("completions")],
    releaseClaims: [{ message: {} }],
  });
  const storage = new AsyncLocalStorage<string>();
  const seen: (string | undefined)[] = [];
  const enter = (name: string) => {
    seen.push(storage.getStore());
    storage.enterWith(name);
  };
  const journal = new Journal();
  const worker = new Worker(server.address, "work", async ({ key }) => {
    enter(key);
    await Promise.resolve();
    assert.equal(storage.getStore(), key);
  }, {
    concurrency: 2,
    token: () => {
      enter("token");
      return "token";
    },
    onEvent: (event) => {
      enter(event.name);
      journal.observe(event);
    },
  });
  await worker.start();
  await journal.waitFor("completed", 5);
  await worker.stop();
  assert.deepEqual(seen.filter((name) => name !== undefined), []);
});
