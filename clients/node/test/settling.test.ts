/** Settlements with a scripted server: outcomes, refused groups, lost responses. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { status } from "@grpc/grpc-js";

import { type Handler, Retry, Worker } from "../src/index.js";
import { type CompleteRequest, type FailRequest, Outcome, type ReleaseRequest } from "../src/v1.js";
import { Journal } from "./support/journal.js";
import { type Script, startServer } from "./support/scripted_server.js";
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
  until: (journal: Journal) => Promise<void>,
) {
  const claims = [{ message: { leases } }, "never"] as const;
  const server = await startServer(t, { claimBatch: [...claims], release: [{ message: {} }], ...script });
  const journal = new Journal();
  const worker = new Worker(server.address, "work", handler, {
    concurrency: leases.length,
    logger: quiet,
    onEvent: journal.observe,
  });
  await worker.start();
  await until(journal);
  await worker.stop();
  return { server, journal };
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
  const { journal } = await settle(t, [lease("a", 1n)], script, () => undefined, (journal) => journal.waitFor("unknown"));
  assert.ok(journal.count("retry") > 3);
  assert.match(journal.of("unknown")[0]?.error ?? "", /^Complete: UNAVAILABLE/);
});

test("a refused group is settled one by one", async (t) => {
  const refused = { error: { code: status.INVALID_ARGUMENT, reason: "INVALID_FIELD", field: "failures[1].retry_delay" } };
  const script = { fail: [refused, results(Outcome.APPLIED), refused, results(Outcome.APPLIED)] };
  const handler: Handler = (item) => {
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

test("retries of a settlement keep the request id of the next claim", async (t) => {
  const next = { message: { results: [{ outcome: Outcome.APPLIED }], nextLeases: [lease("b")] } };
  const script = { complete: [unavailable, next, results(Outcome.APPLIED)], heartbeat: [unavailable] };
  const { server } = await settle(t, [lease("a")], script, () => undefined, (journal) => journal.waitFor("completed", 2));
  const ids = server.of("Complete").map(({ request }) => (request as CompleteRequest).next?.requestId);
  assert.equal(ids.length, 3);
  assert.equal(ids[0], ids[1]);
  assert.notEqual(ids[1], ids[2]);
});

test("a worker that stops releases its waiting claim twice, the last call", async (t) => {
  const server = await startServer(t, { claimBatch: ["never"], release: [{ message: {} }] });
  const journal = new Journal();
  const worker = new Worker(server.address, "work", () => undefined, { workerId: "w", onEvent: journal.observe });
  await worker.start();
  while (server.of("ClaimBatch").length === 0) await new Promise(setImmediate);
  await worker.stop();
  const claim = server.arrivals[0]?.request as { requestId: string };
  assert.deepEqual(server.arrivals.map((arrival) => arrival.rpc), ["ClaimBatch", "Release", "Release"]);
  for (const { request } of server.of("Release")) {
    const { workerId, requestIds } = request as ReleaseRequest;
    assert.deepEqual([workerId, requestIds], ["w", [claim.requestId]]);
  }
});

test("an empty response that comes early is followed by a pause", async (t) => {
  const server = await startServer(t, { claimBatch: [{ message: {} }], release: [{ message: {} }] });
  const worker = new Worker(server.address, "work", () => undefined, { logger: quiet });
  await worker.start();
  while (server.of("ClaimBatch").length < 6) await new Promise((resolve) => setTimeout(resolve, 10));
  await worker.stop();
  const times = server.of("ClaimBatch").map((arrival) => arrival.at);
  // The first claim does not wait for items. Its empty response is not early.
  const [, ...waiting] = times;
  for (const [index, at] of waiting.slice(1, 5).entries()) assert.ok(at - (waiting[index] ?? 0) > 45);
});
