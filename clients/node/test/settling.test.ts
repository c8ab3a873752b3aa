/** Settlements with a scripted server: outcomes, refused groups, lost responses. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { create } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";

import { completed } from "../src/endings.js";
import { type Handler, type Logger, Release, Retry, Worker } from "../src/index.js";
import { HeldLease } from "../src/leases.js";
import { attemptTimeout } from "../src/settler.js";
import {
  type ClaimBatchRequest,
  type CompleteRequest,
  type FailRequest,
  HeldBack,
  type HeartbeatRequest,
  LeaseSchema,
  Outcome,
  RefusalReason,
  type ReleaseClaimsRequest,
} from "../src/v1.js";
import { Journal } from "./support/journal.js";
import { type Script, type ScriptedServer, startServer } from "./support/scripted_server.js";
import { quiet } from "./support/work.js";

function lease(leaseId: string, seconds = 60n) {
  const item = { key: leaseId, columns: {} };
  return { leaseId, item, attempt: 1, fencingToken: 1n, timeLeft: { seconds, nanos: 0 } };
}

/** Runs a worker that claims some leases once, until an event has happened. */
async function settle(
  t: TestContext,
  leases: ReturnType<typeof lease>[],
  script: Script,
  handler: Handler,
  until: (journal: Journal, server: ScriptedServer) => Promise<void>,
  logger: Logger = quiet,
) {
  const claims = [{ message: { leases } }, "never"] as const;
  const server = await startServer(t, { claimBatch: [...claims], releaseClaims: [{ message: {} }], ...script });
  const journal = new Journal();
  const worker = new Worker(server.address, "work", handler, {
    concurrency: leases.length,
    logger,
    onEvent: journal.observe,
  });
  await worker.start();
  await until(journal, server);
  await worker.stop("100ms");
  return { server, journal };
}

/** Returns a function that handlers wait for. They go on together when this number waits, so that their endings share a group. */
function together(count: number): () => Promise<void> {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((given) => (resolve = given));
  return () => {
    count -= 1;
    if (count === 0) resolve();
    return promise;
  };
}

/** Waits until an rpc was called this often. */
async function waitForCalls(server: ScriptedServer, rpc: string, count: number): Promise<void> {
  while (server.of(rpc).length < count) await sleep(10);
}

const results = (...outcomes: Outcome[]) => ({ message: { results: outcomes.map((outcome) => ({ outcome })) } });
const unavailable = { error: { code: status.UNAVAILABLE, pushback: "10" } };

test("a row that is gone counts as completed after a retry", async (t) => {
  const script = { complete: [unavailable, results(Outcome.GONE)] };
  const { journal } = await settle(t, [lease("a")], script, () => undefined, (journal) => journal.waitFor("completed"));
  assert.equal(journal.count("unknown"), 0);
});

test("a row that is gone at the first attempt is unknown", async (t) => {
  const script = { complete: [results(Outcome.GONE)] };
  const { journal } = await settle(t, [lease("a")], script, () => undefined, (journal) => journal.waitFor("unknown"));
  assert.equal(journal.count("completed"), 0);
});

test("a lost lease is the event lost", async (t) => {
  const script = { complete: [results(Outcome.LEASE_LOST)] };
  await settle(t, [lease("a")], script, () => undefined, (journal) => journal.waitFor("lost"));
});

test("a settlement without a response until the lease ends is unknown", async (t) => {
  const script = { complete: [unavailable], heartbeat: [unavailable] };
  const { journal } = await settle(t, [lease("a", 5n)], script, () => undefined, (journal) => journal.waitFor("unknown"));
  assert.ok(journal.count("retry") > 3);
  assert.match(journal.of("unknown")[0]?.error ?? "", /^Complete: UNAVAILABLE/);
});

test("a worker that stops sends a settlement again for 10 s", async (t) => {
  const script = { complete: [{ error: { code: status.UNAVAILABLE, pushback: "7000" } }, results(Outcome.APPLIED)] };
  const handler: Handler = (_item, { signal }) => new Promise((resolve) => {
    signal.addEventListener("abort", () => { resolve(); });
  });
  const { journal } = await settle(t, [lease("a")], script, handler, (journal) => journal.waitFor("started"));
  assert.deepEqual([journal.count("completed"), journal.count("unknown")], [1, 0]);
});

test("a refused group is settled one by one", async (t) => {
  const refused = { error: { code: status.RESOURCE_EXHAUSTED, reason: "LIMIT_EXCEEDED" } };
  const script = { fail: [refused, results(Outcome.APPLIED), refused, results(Outcome.APPLIED)] };
  const both = together(2);
  const handler: Handler = async (item) => {
    await both();
    throw new Retry("no", item.key === "b" ? { after: "10000h" } : {});
  };
  const { server, journal } = await settle(t, [lease("a"), lease("b")], script, handler, (journal) =>
    journal.waitFor("failed", 2),
  );
  const failures = server.of("Fail").map(({ request }) => (request as FailRequest).failures);
  assert.deepEqual(failures.map((group) => group.map((failure) => failure.leaseId)), [["a", "b"], ["a"], ["b"], ["b"]]);
  assert.equal(failures[3]?.[0]?.retryDelay, undefined);
  assert.equal(journal.count("refused"), 1);
});

test("a refused completion is logged with the reason", async (t) => {
  const refusal = { field: 'columns["Total"]', message: "12.5 is a float" };
  const refused = { message: { results: [{ outcome: Outcome.REFUSED, refusal }] } };
  const warnings: string[] = [];
  const logger = { ...quiet, warn: (text: string) => void warnings.push(text) };
  const script = { complete: [refused], fail: [results(Outcome.APPLIED)] };
  await settle(t, [lease("a")], script, () => undefined, (journal) => journal.waitFor("failed"), logger);
  assert.deepEqual(warnings, ['ending refused: complete item a: columns["Total"]: 12.5 is a float']);
});

const locked = { outcome: Outcome.REFUSED, refusal: { reason: RefusalReason.LOCKED, message: "locked" } };

test("endings do not wait for a locked row", async (t) => {
  let isLocked = true;
  const complete = (request: unknown) => {
    const ids = (request as CompleteRequest).completions.map(({ leaseId }) => leaseId);
    const results = ids.map((id) => (id === "a" && isLocked ? locked : { outcome: Outcome.APPLIED }));
    if (ids.includes("b")) isLocked = false;
    return { results };
  };
  let release: () => void = () => undefined;
  const refused = new Promise<void>((resolve) => (release = resolve));
  const handler: Handler = (item) => (item.key === "b" ? refused : undefined);
  const { journal } = await settle(t, [lease("a"), lease("b")], { complete: [complete] }, handler, async (journal) => {
    await journal.waitFor("retry");
    release();
    await journal.waitFor("completed", 2);
  });
  assert.deepEqual(journal.of("completed").map(({ key }) => key), ["b", "a"]);
  assert.deepEqual([...new Set(journal.of("retry").map(({ reason }) => reason))], ["LOCKED"]);
  assert.equal(journal.count("refused"), 0);
});

test("an attempt takes half of the shortest lease, 1 to 10 s", () => {
  const ending = (seconds: bigint) => completed(new HeldLease(create(LeaseSchema, lease("a", seconds)), 0, 0));
  const timeouts = [[60n], [60n, 8n], [60n, 8n, 1n], [0n]].map((group) => attemptTimeout(group.map(ending)));
  assert.deepEqual(timeouts, [10_000, 4_000, 1_000, 1_000]);
});

test("a stop waits for a locked row", async (t) => {
  const refused = { message: { results: [locked] } };
  const script = { complete: [refused, refused, results(Outcome.APPLIED)] };
  const { journal } = await settle(t, [lease("a")], script, () => undefined, (journal) => journal.waitFor("retry"));
  assert.deepEqual(journal.of("retry").map(({ reason, attempt }) => [reason, attempt]), [["LOCKED", 1], ["LOCKED", 2]]);
  assert.equal(journal.count("completed"), 1);
});

test("a group whose next claim is refused is sent again without it", async (t) => {
  const refused = { error: { code: status.INVALID_ARGUMENT, reason: "INVALID_FIELD", field: "next.lease_duration", applied: "no" } };
  const script = { complete: [refused, results(Outcome.APPLIED, Outcome.APPLIED)] };
  const { server } = await settle(t, [lease("a"), lease("b")], script, together(2), (journal) => journal.waitFor("completed", 2));
  const sent = server.of("Complete").map(({ request }) => request as CompleteRequest);
  assert.deepEqual(sent.map(({ completions, next }) => [completions.length, next === undefined]), [[2, false], [2, true]]);
});

test("a settlement that a proxy finds too large fails its item", async (t) => {
  const refused = { error: { code: status.UNKNOWN, text: "Received HTTP status code 413" } };
  const script = { complete: [refused], fail: [results(Outcome.APPLIED)] };
  const { journal } = await settle(t, [lease("a")], script, () => undefined, (journal) => journal.waitFor("failed"));
  assert.equal(journal.count("retry"), 0);
  assert.equal(journal.of("failed")[0]?.error, "Refused: Received HTTP status code 413");
});

for (const [name, error] of [
  ["HTTP 413", { code: status.UNKNOWN, text: "Received HTTP status code 413" }],
  ["RESOURCE_EXHAUSTED", { code: status.RESOURCE_EXHAUSTED, text: "the message is larger than 4194304" }],
] as const) {
  test(`${name} of a proxy after an attempt without an answer fails its item`, async (t) => {
    const script = { complete: [unavailable, { error }], fail: [results(Outcome.APPLIED)], heartbeat: [unavailable] };
    const { journal } = await settle(t, [lease("a")], script, () => undefined, async (journal) => {
      await Promise.race([journal.waitFor("failed"), journal.waitFor("unknown")]);
    });
    assert.equal(journal.of("failed")[0]?.error, `Refused: ${error.text}`);
  });
}

test("retries of a settlement keep the request id of the next claim", async (t) => {
  const next = { message: { results: [{ outcome: Outcome.APPLIED }], next: { leases: [lease("b")] } } };
  const script = { complete: [unavailable, next, results(Outcome.APPLIED)], heartbeat: [unavailable] };
  const { server } = await settle(t, [lease("a")], script, () => undefined, (journal) => journal.waitFor("completed", 2));
  const ids = server.of("Complete").map(({ request }) => (request as CompleteRequest).next?.requestId);
  assert.equal(ids.length, 3);
  assert.equal(ids[0], ids[1]);
  assert.notEqual(ids[1], ids[2]);
});

test("a worker that stops releases its waiting claim twice, the last call", async (t) => {
  const server = await startServer(t, { claimBatch: ["never"], releaseClaims: [{ message: {} }] });
  const journal = new Journal();
  const worker = new Worker(server.address, "work", () => undefined, { workerId: "w", onEvent: journal.observe });
  await worker.start();
  while (server.of("ClaimBatch").length === 0) await new Promise(setImmediate);
  await worker.stop();
  const claim = server.arrivals[0]?.request as { requestId: string };
  assert.deepEqual(server.arrivals.map((arrival) => arrival.rpc), ["ClaimBatch", "ReleaseClaims", "ReleaseClaims"]);
  for (const { request } of server.of("ReleaseClaims")) {
    const { workerId, requestIds } = request as ReleaseClaimsRequest;
    assert.deepEqual([workerId, requestIds], ["w", [claim.requestId]]);
  }
});

test("a worker that reached no broker has no claim to release", async () => {
  const warnings: string[] = [];
  const journal = new Journal();
  const logger = { ...quiet, warn: (text: string) => void warnings.push(text) };
  const worker = new Worker("127.0.0.1:1", "work", () => undefined, { logger, onEvent: journal.observe });
  await worker.start();
  await journal.waitFor("retry");
  await worker.stop();
  assert.deepEqual(warnings.filter((text) => !text.startsWith("calls to the broker")), []);
});

test("a claim that was not sent is not released", async (t) => {
  const server = await startServer(t, { claimBatch: ["never"], releaseClaims: [{ message: {} }] });
  const journal = new Journal();
  const worker = new Worker(server.address, "work", () => undefined, {
    logger: quiet,
    token: () => {
      if (journal.count("stopping") === 0) throw new Error("the identity service is down");
      return "token";
    },
    onEvent: journal.observe,
  });
  await worker.start();
  await journal.waitFor("retry");
  await worker.stop();
  assert.equal(server.arrivals.length, 0);
});

// A claim that does not wait is never answered early, so that only the reason tells that the broker stops.
for (const [name, wait, response] of [
  ["an empty response that comes early", "20s", {}],
  ["the response of a broker that stops", 0, { heldBack: HeldBack.STOPPING }],
] as const) {
  test(`${name} is followed by a pause`, async (t) => {
    const server = await startServer(t, { claimBatch: [{ message: response }], releaseClaims: [{ message: {} }] });
    const worker = new Worker(server.address, "work", () => undefined, { logger: quiet, wait });
    await worker.start();
    await waitForCalls(server, "ClaimBatch", 6);
    await worker.stop();
    // The first claim does not wait for items. Its empty response is not early.
    const [, ...times] = server.of("ClaimBatch").map((arrival) => arrival.at);
    for (const [index, at] of times.slice(1, 5).entries()) assert.ok(at - (times[index] ?? 0) > 45);
  });
}

for (const [field, checkpoint, delay] of [["checkpoint", undefined, 7n], ["retry_delay", "half", undefined], ["", undefined, 7n]] as const) {
  test(`a failure whose field "${field}" is refused is sent again without it`, async (t) => {
    const refused = { message: { results: [{ outcome: Outcome.REFUSED, refusal: { field, message: "no" } }] } };
    const handler: Handler = (_item, context) => {
      context.checkpoint(Buffer.from("half"));
      throw new Retry("again", { after: "7s" });
    };
    const script = { fail: [refused, results(Outcome.APPLIED)] };
    const { server, journal } = await settle(t, [lease("a")], script, handler, (journal) => journal.waitFor("failed"));
    assert.deepEqual(journal.of("refused").map((event) => event.reason), [field === "" ? "no" : `${field}: no`]);
    const second = (server.of("Fail")[1]?.request as FailRequest).failures[0];
    assert.equal(second?.checkpoint && Buffer.from(second.checkpoint).toString(), checkpoint);
    assert.equal(second?.retryDelay?.seconds, delay);
    assert.equal(second?.errorMessage, "Retry: again");
  });
}

test("a refused renewal is sent again without its checkpoint", async (t) => {
  const refusal = { field: "checkpoint", message: "it is too large" };
  const extended = { outcome: Outcome.APPLIED, timeLeft: { seconds: 6n, nanos: 0 } };
  const heartbeat = [
    { message: { results: [{ outcome: Outcome.REFUSED, refusal }, extended] } },
    { message: { results: [extended] } },
    { message: { results: [extended, extended] } },
  ];
  const handler: Handler = async (item, context) => {
    if (item.key === "a") context.checkpoint(new Uint8Array(101));
    await sleep(60_000, undefined, { signal: context.signal });
  };
  const script = { heartbeat, release: [results(Outcome.APPLIED, Outcome.APPLIED)] };
  const { server, journal } = await settle(t, [lease("a", 6n), lease("b", 6n)], script, handler, (_journal, server) =>
    waitForCalls(server, "Heartbeat", 4),
  );
  const sent = server.of("Heartbeat").map(({ request }) =>
    (request as HeartbeatRequest).renewals.map(({ leaseId, checkpoint }) => [leaseId, checkpoint?.length]),
  );
  assert.deepEqual(sent.slice(0, 2), [[["a", 101], ["b", undefined]], [["a", undefined]]]);
  assert.equal(journal.count("lost"), 0);
});

test("a wrong count of results leaves the items unknown", async (t) => {
  const script = { complete: [{ message: { results: [], next: { leases: [lease("b")] } } }] };
  const { journal } = await settle(t, [lease("a")], script, () => undefined, (journal) => journal.waitFor("unknown"));
  assert.equal(journal.count("claimed"), 1);
});

test("a claim and a next claim name the groups", async (t) => {
  const server = await startServer(t, {
    claimBatch: [{ message: { leases: [lease("a")] } }, "never"],
    complete: [results(Outcome.APPLIED)],
    releaseClaims: [{ message: {} }],
  });
  const groups = ["42", "43"];
  const worker = new Worker(server.address, "work", () => undefined, { groups });
  await worker.start();
  await waitForCalls(server, "Complete", 1);
  await worker.stop();
  assert.deepEqual((server.of("ClaimBatch")[0]?.request as ClaimBatchRequest).groups, groups);
  assert.deepEqual((server.of("Complete")[0]?.request as CompleteRequest).next?.groups, groups);
});

test("a failed next claim delays the next one", async (t) => {
  const nextError = { code: status.UNAVAILABLE, reason: "STORE_UNAVAILABLE", retryDelay: { seconds: 0n, nanos: 700_000_000 } };
  const script = { complete: [{ message: { results: [{ outcome: Outcome.APPLIED }], nextError } }] };
  const { server, journal } = await settle(t, [lease("a")], script, () => undefined, (_journal, server) =>
    waitForCalls(server, "ClaimBatch", 2),
  );
  assert.deepEqual(journal.of("retry").map(({ rpc, code, reason }) => [rpc, code, reason]), [
    ["ClaimBatch", "UNAVAILABLE", "STORE_UNAVAILABLE"],
  ]);
  const [completed, claimed] = [server.of("Complete")[0], server.of("ClaimBatch")[1]];
  assert.ok(completed !== undefined && claimed !== undefined && claimed.at - completed.at >= 690);
  // Whether the claim was applied is not known.
  const released = (server.of("ReleaseClaims")[0]?.request as ReleaseClaimsRequest).requestIds;
  assert.deepEqual(released, [(completed.request as CompleteRequest).next?.requestId]);
});

test("claims without an answer are released before each claim until that succeeds", async (t) => {
  const nextError = { code: status.UNAVAILABLE, reason: "STORE_UNAVAILABLE", retryDelay: { seconds: 0n, nanos: 1 } };
  const later = { error: { code: status.RESOURCE_EXHAUSTED, reason: "IDENTITY_LIMIT", pushback: "60000" } };
  const script = {
    claimBatch: [{ message: { leases: [lease("a")] } }, { message: {} }, "never" as const],
    complete: [{ message: { results: [{ outcome: Outcome.APPLIED }], nextError } }],
    releaseClaims: [later, { message: {} }],
  };
  const { server } = await settle(t, [lease("a")], script, () => undefined, (_journal, server) =>
    waitForCalls(server, "ClaimBatch", 3),
  );
  const sent = server.arrivals.map(({ rpc }) => rpc).slice(1, 6);
  assert.deepEqual(sent, ["Complete", "ReleaseClaims", "ClaimBatch", "ReleaseClaims", "ClaimBatch"]);
});

test("the outcomes of endings that are not applied are logged", async (t) => {
  const warnings: string[] = [];
  const logger = { ...quiet, warn: (text: string) => void warnings.push(text) };
  const outcomes = { message: { results: [{ outcome: Outcome.LEASE_LOST }, { outcome: Outcome.GONE }] } };
  const script = { complete: [outcomes], release: [{ error: { code: status.FAILED_PRECONDITION, text: "no" } }] };
  const meet = together(3);
  const handler: Handler = async ({ key }) => {
    await meet();
    if (key === "c") throw new Release();
  };
  await settle(t, [lease("a"), lease("b"), lease("c")], script, handler, (journal) => journal.waitFor("unknown", 2), logger);
  const processed = "processed, but another worker may process it again";
  // The calls are answered in any order.
  assert.deepEqual(warnings.filter((text) => text.startsWith("queue work: item")).sort(), [
    `queue work: item a (attempt 1): ${processed}: the broker has ended the lease`,
    `queue work: item b (attempt 1): ${processed}: the row is gone`,
    "queue work: item c (attempt 1): the lease has ended before the handler: Release: FAILED_PRECONDITION: no",
  ]);
});

test("a next claim that is refused ends the worker", async (t) => {
  const nextError = { code: status.PERMISSION_DENIED, metadata: { applied: "no" } };
  const server = await startServer(t, {
    claimBatch: [{ message: { leases: [lease("a")] } }],
    complete: [{ message: { results: [{ outcome: Outcome.APPLIED }], nextError } }],
  });
  const worker = new Worker(server.address, "work", () => undefined, { logger: quiet });
  await assert.rejects(worker.run(), /^LeaseBrokerError: ClaimBatch: PERMISSION_DENIED/);
});
