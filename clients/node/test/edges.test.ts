/** Brokers that hang or move, options, several queues and middleware, with scripted servers. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";

import { Caller } from "../src/calls.js";
import { RefusedLengths } from "../src/checkpoints.js";
import { now, setClock } from "../src/clock.js";
import { completed, released } from "../src/endings.js";
import { Events } from "../src/events.js";
import { Heartbeats, type QueueCommand } from "../src/heartbeats.js";
import { Client, type Item, type Middleware, plaintext, Worker } from "../src/index.js";
import { Keeper, NOWHERE } from "../src/keeper.js";
import { HeldLease, type Run } from "../src/leases.js";
import { checkOptions } from "../src/options.js";
import { State } from "../src/state.js";
import { type Broker, rpcs, Transport } from "../src/transport.js";
import { type EnqueueRequest, type HeartbeatRequest, LeaseSchema, Outcome, WakeRequestSchema } from "../src/v1.js";
import { Journal } from "./support/journal.js";
import { startServer } from "./support/scripted_server.js";
import { quiet } from "./support/work.js";

const request = create(WakeRequestSchema, { queue: "work" });
const applied = { message: { results: [{ outcome: Outcome.APPLIED }] } };
const nothing = { message: {} };

function claimed(key: string) {
  const lease = { leaseId: key, item: { key }, attempt: 1, timeLeft: { seconds: 60n, nanos: 0 } };
  return { message: { leases: [lease] } };
}

/** Waits until a condition is met. */
async function until(condition: () => boolean): Promise<void> {
  const limit = now() + 60_000;
  while (!condition()) {
    assert.ok(now() < limit, "the condition was not met");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

test("a silent broker is called again when the other one fails", async (t) => {
  const transport = new Transport(["127.0.0.1:1", "127.0.0.1:2"], plaintext());
  t.after(() => {
    transport.close();
  });
  const silent = await transport.route();
  const refusing = await transport.route();
  transport.note(silent, { failed: true, silent: true });
  assert.equal(await transport.route(), refusing);
  transport.note(refusing, { failed: true });
  // It is no longer passed over: the wait before a retry can be longer.
  refusing.freeAt = now();
  assert.equal((await transport.route()).target, silent.target);
});

test("a closed client ends its calls", async () => {
  const client = new Client("127.0.0.1:1");
  client.close();
  const closed = { name: "LeaseBrokerError", code: "FAILED_PRECONDITION", details: "the client is closed", applied: "no" };
  await assert.rejects(client.wake("work"), closed);
});

test("a broker that does not answer is passed over", async (t) => {
  const frozen = await startServer(t, { wake: ["never"] });
  const server = await startServer(t, { wake: [nothing] });
  const transport = new Transport([frozen.address, server.address], plaintext());
  t.after(() => {
    transport.close();
  });
  const caller = new Caller(transport, null);
  for (let call = 0; call < 6; call++) await caller.call(rpcs.wake, request, { attemptTimeout: 5_000 });
  assert.equal(frozen.arrivals.length, 1);
});

test("a list has names, and the addresses of a name are used in turn", async (t) => {
  const server = await startServer(t, { wake: [nothing] });
  const port = server.address.split(":")[1] ?? "";
  using list = new Client([`localhost:${port}`, server.address]);
  using name = new Client(`dns:///localhost:${port}`);
  for (const client of [list, list, name]) await client.wake("work");
  assert.equal(server.arrivals.length, 3);
});

test("the timer of a heartbeat in two months is not too long", async () => {
  const warnings: string[] = [];
  const onWarning = ({ name }: Error) => void warnings.push(name);
  process.on("warning", onWarning);
  const transport = { route: () => Promise.reject(new Error("no heartbeat is due")), note: () => undefined };
  const heartbeats = new Heartbeats("work", { transport, token: null }, new RefusedLengths(), () => undefined);
  const duration = 180 * 24 * 3_600_000;
  const update = { type: "update", keep: "a", needsBeat: false, atOnce: false, forget: "" } as const;
  heartbeats.handle({ ...update, duration, deadline: now() + duration });
  await new Promise(setImmediate);
  heartbeats.close();
  process.off("warning", onWarning);
  assert.deepEqual(warnings, []);
});

test("a handler that hangs is replaced when another one ends", async (t) => {
  const claims = ["1", "2", "3"].map(claimed);
  const server = await startServer(t, { claimBatch: [...claims, "never"], complete: [applied], fail: [applied], releaseClaims: [nothing] });
  const ends = new Map<string, () => void>();
  const journal = new Journal();
  const handler = async ({ key }: Item) => {
    if (key !== "3") await new Promise<void>((resolve) => ends.set(key, resolve));
  };
  const times = { timeLimit: 100, stuckAfter: 100 };
  const worker = new Worker(server.address, "work", handler, { ...times, logger: quiet, onEvent: journal.observe });
  await worker.start();
  await journal.waitFor("stuck", 2);
  assert.equal(worker.health(), false);
  ends.get("1")?.();
  await journal.waitFor("completed");
  assert.equal(worker.health(), true);
  ends.get("2")?.();
  await worker.stop();
});

test("heartbeats of more than 3 MiB are several calls", async () => {
  const calls: number[] = [];
  const send = (_rpc: unknown, { renewals }: HeartbeatRequest) => {
    calls.push(renewals.length);
    return { response: new Promise(() => undefined) };
  };
  const transport = { route: () => Promise.resolve({ send } as unknown as Broker), note: () => undefined };
  const heartbeats = new Heartbeats("work", { transport, token: null }, new RefusedLengths(), () => undefined);
  const ids = Array.from({ length: 100 }, (_, index) => `lease-${index}`);
  const update = { type: "update", needsBeat: true, atOnce: false, forget: "" } as const;
  heartbeats.handle({ ...update, keep: ids.join(" "), duration: 60_000, deadline: now() + 60_000 });
  for (const id of ids) heartbeats.handle({ type: "checkpoint", id, bytes: new Uint8Array(65_536) });
  await until(() => calls.length > 0);
  heartbeats.close();
  assert.deepEqual(calls, [47, 47, 6]);
});

test("a settlement that is sent again keeps each lease until its own deadline", async (t) => {
  let time = 0;
  setClock(() => time);
  t.after(() => {
    setClock(() => performance.now());
  });
  const sent: string[] = [];
  const send = (_rpc: unknown, { renewals }: HeartbeatRequest) => {
    sent.push(renewals.map(({ leaseId }) => leaseId).join(" "));
    return { response: new Promise(() => undefined) };
  };
  const transport = { route: () => Promise.resolve({ send } as unknown as Broker), note: () => undefined };
  const state = new State(checkOptions("work", "worker", quiet, {}), new Events("work", quiet));
  const heartbeats = new Heartbeats("work", { transport, token: null }, state.refusedCheckpoints, () => undefined);
  let posts = 0;
  const post = ({ command }: QueueCommand) => {
    posts += 1;
    // Another thread can beat between two messages.
    if (command.type !== "token") heartbeats.handle(command);
    heartbeats.beat();
  };
  const keeper = new Keeper("work", () => ({ ...NOWHERE, post }));
  state.parts = { keeper, start: () => undefined, watch: () => undefined, look: () => undefined };
  const leases = Object.entries({ long: 60n, short: 2n, other: 60n }).map(([leaseId, seconds]) => {
    const message = create(LeaseSchema, { leaseId, item: { key: leaseId }, timeLeft: { seconds, nanos: 0 } });
    const lease = new HeldLease(message, now(), now());
    lease.phase = "settling";
    return lease;
  });
  state.resend(leases.map((lease) => completed(lease)));
  await new Promise(setImmediate);
  time = 1_900;
  heartbeats.beat();
  await new Promise(setImmediate);
  heartbeats.close();
  assert.deepEqual(sent, ["long other short", "long other"]);
  assert.equal(posts, 2);
});

/** Returns a state that holds leases of the items 0, 1 and so on, whose handlers run, and the texts of its log. */
function stateWithLeases(count: number): { state: State; runs: Run[]; log: string[] } {
  const log: string[] = [];
  const logger = { ...quiet, warn: (text: string) => log.push(text), error: (text: string) => log.push(text) };
  const state = new State(checkOptions("work", "worker", logger, { concurrency: count }), new Events("work", logger));
  const keeper = new Keeper("work", () => NOWHERE);
  state.parts = { keeper, start: (run) => state.begin(run), watch: () => undefined, look: () => undefined };
  const messages = Array.from({ length: count }, (_, index) => claimed(String(index)).message.leases[0]);
  state.accept(messages.map((message) => create(LeaseSchema, message)), state.reserveSlots(), now());
  return { state, runs: [...state.runs], log };
}

test("leases that are lost together are logged in one line", async () => {
  const { state, log } = stateWithLeases(12);
  const [first, ...others] = [...state.held.values()];
  assert.ok(first?.run);
  state.end(first.run, [completed(first)]);
  for (const lease of [first, ...others]) state.lose(lease, "moved");
  await Promise.resolve();
  const named = Array.from({ length: 10 }, (_, index) => `${index + 1} (attempt 1)`).join(", ");
  assert.deepEqual(log, [
    "queue work: item 0 (attempt 1): processed, but another worker may process it again: moved",
    `queue work: items ${named} and 1 other: the lease has ended before the handler: moved`,
  ]);
});

test("an item that runs or was released does not count as processed", async (t) => {
  const { state, runs, log } = stateWithLeases(3);
  const [late, gone, running] = runs.flatMap(({ leases }) => leases);
  assert.ok(late?.run && gone?.run && running?.run);
  state.end(gone.run, [released(gone)]);
  state.settle(completed(running));
  for (const lease of [gone, running]) state.lose(lease, "moved");
  const end = now() + 60_000;
  setClock(() => end);
  t.after(() => {
    setClock(() => performance.now());
  });
  state.end(late.run, [completed(late)]);
  await Promise.resolve();
  assert.deepEqual(log, [
    "queue work: items 1 (attempt 1), 2 (attempt 1): the lease has ended before the handler: moved",
    "queue work: item 0 (attempt 1): processed, but another worker may process it again: no heartbeat was answered in time",
  ]);
});

test("a checkpoint that is saved after the end of the handler is dropped, however long it is", () => {
  const { state, runs, log } = stateWithLeases(1);
  const [run] = runs;
  assert.ok(run);
  state.end(run, run.leases.map((lease) => completed(lease)));
  run.context.checkpoint(new Uint8Array(65_537));
  assert.deepEqual(log, []);
});

test("the name of a file is no token", () => {
  assert.throws(() => new Client("127.0.0.1:1", { token: __filename }), /is a file; pass \{ file: /);
});

test("options out of their range are refused", () => {
  const create = (queue: string, options: object) => () => new Worker("127.0.0.1:1", queue, () => undefined, options);
  assert.throws(create("", {}), /queue is empty/);
  assert.throws(create("work", { concurrency: 2.5 }), /concurrency is 2.5/);
  assert.throws(create("work", { wait: "61s" }), /wait is 61s; it must be at most 60 s/);
  assert.throws(create("work", { workerId: "" }), /workerId is empty/);
  assert.throws(create("work", { groups: Array(101).fill("42") }), /groups has 101 entries/);
});

test("a worker without a queue, a handler or a middleware is refused", () => {
  // Programs in JavaScript, and those with `any`, are not checked by a compiler.
  const create = (...[queue, handler, middleware]: unknown[]) => () =>
    new Worker("127.0.0.1:1", queue as string, handler as () => undefined, { middleware: middleware as Middleware[] });
  const handler = () => undefined;
  assert.throws(create(undefined, handler, []), new TypeError("queue is undefined; pass its name"));
  assert.throws(create("work", undefined, []), new TypeError("the handler of the queue work is undefined; pass a function"));
  assert.throws(create("work", { handler }, []), new TypeError("the handler of the queue work is object; pass a function"));
  assert.throws(create("work", handler, [undefined]), new TypeError("a middleware of the queue work is undefined; pass a function"));
  assert.throws(create("work", handler, handler), new TypeError("middleware is function; pass a list of functions"));
  const worker = new Worker("127.0.0.1:1", "work", handler);
  assert.throws(() => worker.queue("mails", undefined as unknown as () => undefined), TypeError);
});

test("rows of more than 3 MiB are several calls", async (t) => {
  const keys = { message: { results: [{ key: "1" }, { key: "2" }] } };
  const server = await startServer(t, { enqueue: [keys, keys, { message: { results: [{ key: "1" }] } }] });
  using client = new Client(server.address);
  const rows = Array.from({ length: 5 }, () => ({ payload: "x".repeat(1 << 20) }));
  assert.equal((await client.enqueue("work", rows)).length, 5);
  assert.deepEqual(server.arrivals.map(({ request }) => (request as EnqueueRequest).items.length), [2, 2, 1]);
});

test("queues of a worker share its connections", async (t) => {
  const seen = new Set<string>();
  const claim = (request: unknown) => {
    const { queue } = request as { queue: string };
    if (seen.has(queue)) return {};
    seen.add(queue);
    return claimed(queue).message;
  };
  const server = await startServer(t, { claimBatch: [claim], complete: [applied] });
  const ran: string[] = [];
  const handler = (item: Item) => void ran.push(item.key);
  const worker = new Worker(server.address, "work", handler, { logger: quiet, wait: 0 });
  worker.queue("mails", ([item]) => void ran.push(item?.key ?? ""), { batch: 2 });
  await worker.start();
  await until(() => worker.counters().completed === 2);
  await worker.stop();
  assert.deepEqual(ran.sort(), ["mails", "work"]);
  assert.equal(new Set(server.peers).size, 1);
  assert.equal(worker.counters("mails").completed, 1);
});

test("middleware surrounds the handler", async (t) => {
  const server = await startServer(t, { claimBatch: [claimed("1"), nothing], complete: [applied] });
  const steps: string[] = [];
  const named = (name: string): Middleware => async (item, _context, next) => {
    steps.push(`${name} ${(item as Item).key}`);
    const result = await next();
    steps.push(`${name} after`);
    return result;
  };
  const middleware = [named("outer"), named("inner")];
  const worker = new Worker(server.address, "work", () => void steps.push("handler"), { logger: quiet, wait: 0, middleware });
  await worker.start();
  await until(() => worker.counters().completed === 1);
  await worker.stop();
  assert.deepEqual(steps, ["outer 1", "inner 1", "handler", "inner after", "outer after"]);
});
