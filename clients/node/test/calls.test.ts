/** Calls with a scripted server: retries, waits, tokens, details of errors. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { type Stats, statSync, writeFileSync } from "node:fs";
import files from "node:fs/promises";
import { mkdtempSync } from "node:fs";
import { type AddressInfo, createConnection, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { create } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";

import { AbandonedClaims } from "../src/abandoned.js";
import { Aborted, Caller, type RetryEvent } from "../src/calls.js";
import { now } from "../src/clock.js";
import { plaintext, Token, type TokenSource } from "../src/credentials.js";
import { checkOptions } from "../src/options.js";
import { rpcs, Transport } from "../src/transport.js";
import { type EnqueueRequest, EnqueueRequestSchema, WakeRequestSchema } from "../src/v1.js";
import { Client, LeaseBrokerError, type Row } from "../src/index.js";
import { type Script, type ScriptedError, startServer } from "./support/scripted_server.js";
import { quiet } from "./support/work.js";

const done = { message: {} };

async function caller(t: Parameters<typeof startServer>[0], script: Script, token?: TokenSource) {
  const server = await startServer(t, script);
  const transport = new Transport(server.address, plaintext());
  t.after(() => {
    transport.close();
  });
  const retries: RetryEvent[] = [];
  const caller = new Caller(transport, token === undefined ? null : new Token(token), (event) => retries.push(event));
  return { server, caller, retries };
}

const request = create(WakeRequestSchema, { queue: "work" });
const inOneMinute = { until: () => now() + 60_000 };

test("a pause before a retry does not outlast the lease", async (t) => {
  const away = { error: { code: status.UNAVAILABLE } };
  const { caller: calls } = await caller(t, { wake: [away, away, away, away, away, done] });
  // Heartbeats extend the lease of 400 ms meanwhile, so that 300 ms are always left.
  const answer = await calls.call(rpcs.wake, request, { attemptTimeout: 200, until: () => now() + 300 });
  assert.ok(answer.attempts >= 6, String(answer.attempts));
});

const retried: [string, ScriptedError][] = [
  ["UNAVAILABLE", { code: status.UNAVAILABLE }],
  ["UNKNOWN of the transport", { code: status.UNKNOWN }],
  ["INTERNAL of the transport", { code: status.INTERNAL }],
  ["CANCELLED by the server", { code: status.CANCELLED }],
  ["OVERLOADED", { code: status.RESOURCE_EXHAUSTED, reason: "OVERLOADED" }],
  ["DEADLINE_EXCEEDED of the broker", { code: status.DEADLINE_EXCEEDED, reason: "DEADLINE_EXCEEDED", pushback: "-1" }],
];
for (const [name, error] of retried) {
  test(`${name} is retried`, async (t) => {
    const { server, caller: calls, retries } = await caller(t, { wake: [{ error }, { error }, done] });
    const answer = await calls.call(rpcs.wake, request, inOneMinute);
    assert.deepEqual([answer.attempts, server.arrivals.length], [3, 3]);
    assert.ok(answer.firstSentAt < answer.sentAt);
    assert.deepEqual(retries.map((retry) => [retry.rpc, retry.code, retry.attempt]), [
      ["Wake", status[error.code], 1],
      ["Wake", status[error.code], 2],
    ]);
    const [first, second] = retries.map((retry) => retry.wait);
    assert.ok(first !== undefined && first >= 50 && first <= 100, String(first));
    assert.ok(second !== undefined && second >= 100 && second <= 200, String(second));
  });
}

const final: [string, ScriptedError][] = [
  ["INVALID_ARGUMENT", { code: status.INVALID_ARGUMENT, reason: "INVALID_FIELD", field: "queue", pushback: "-1" }],
  ["NOT_FOUND", { code: status.NOT_FOUND, reason: "QUEUE_NOT_FOUND" }],
  ["PERMISSION_DENIED", { code: status.PERMISSION_DENIED }],
  ["INTERNAL of the broker", { code: status.INTERNAL, reason: "INTERNAL" }],
  ["RESOURCE_EXHAUSTED of the client", { code: status.RESOURCE_EXHAUSTED }],
  ["UNAVAILABLE with a pushback of -1", { code: status.UNAVAILABLE, pushback: "-1" }],
  ["UNAVAILABLE with a malformed pushback", { code: status.UNAVAILABLE, pushback: "soon" }],
];
for (const [name, error] of final) {
  test(`${name} is not retried`, async (t) => {
    const { server, caller: calls } = await caller(t, { wake: [{ error }] });
    await assert.rejects(calls.call(rpcs.wake, request, inOneMinute), {
      name: "LeaseBrokerError",
      rpc: "Wake",
      code: status[error.code],
      reason: error.reason ?? null,
      details: "scripted",
      field: error.field ?? null,
    });
    assert.equal(server.arrivals.length, 1);
  });
}

for (const [sent, applied] of [["no", "no"], ["unknown", "unknown"], [undefined, "unknown"]] as const) {
  test(`an error with applied ${sent} says ${applied}`, async (t) => {
    const applies = sent === undefined ? {} : { applied: sent };
    const error = { code: status.ALREADY_EXISTS, reason: "ALREADY_EXISTS", ...applies };
    const { caller: calls } = await caller(t, { wake: [{ error }] });
    await assert.rejects(calls.call(rpcs.wake, request), { reason: "ALREADY_EXISTS", applied });
  });
}

test("an error speaks for all attempts", async (t) => {
  const lost = { code: status.UNAVAILABLE, reason: "STORE_UNAVAILABLE", pushback: "1", applied: "unknown" };
  const last = { code: status.NOT_FOUND, reason: "QUEUE_NOT_FOUND", applied: "no" };
  const { caller: calls } = await caller(t, { wake: [{ error: lost }, { error: last }] });
  await assert.rejects(calls.call(rpcs.wake, request, inOneMinute), { reason: "QUEUE_NOT_FOUND", applied: "unknown" });
});

test("a response with another count of results is an error", async (t) => {
  const server = await startServer(t, { enqueue: [done] });
  using client = new Client(server.address);
  await assert.rejects(client.enqueue("work", [{ payload: "x" }]), /0 results for 1 entries/);
});

test("the wait is that of the pushback, then that of RetryInfo", async (t) => {
  const script: Script = {
    wake: [
      { error: { code: status.UNAVAILABLE, pushback: "30", retryAfterMs: 900 } },
      { error: { code: status.UNAVAILABLE, retryAfterMs: 40 } },
      done,
    ],
  };
  const { caller: calls, retries } = await caller(t, script);
  await calls.call(rpcs.wake, request);
  assert.deepEqual(retries.map((retry) => retry.wait), [30, 40]);
});

test("a wait and an attempt of two months are not over at once", async (t) => {
  const twoMonths = 60 * 24 * 3_600_000;
  const script: Script = { wake: [{ error: { code: status.UNAVAILABLE, pushback: String(twoMonths) } }] };
  const { server, caller: calls } = await caller(t, script, () => sleep(50, "late"));
  const abort = new AbortController();
  const call = calls.call(rpcs.wake, request, { attemptTimeout: twoMonths, signal: abort.signal });
  while (server.arrivals.length === 0) await sleep(5);
  await sleep(50);
  abort.abort();
  await assert.rejects(call, Aborted);
  assert.equal(server.arrivals.length, 1);
});

test("a call ends when its time is over", async (t) => {
  const { caller: calls } = await caller(t, { wake: [{ error: { code: status.UNAVAILABLE } }] });
  const until = now() + 3_000;
  await assert.rejects(calls.call(rpcs.wake, request, { until: () => until }), { code: "UNAVAILABLE" });
});

test("an attempt without a response is given up and retried", async (t) => {
  const { server, caller: calls, retries } = await caller(t, { wake: [done, "never", done] });
  // An attempt may also end while it connects, so the connection is made before.
  await calls.call(rpcs.wake, request);
  await calls.call(rpcs.wake, request, { attemptTimeout: 4_000 });
  assert.deepEqual(retries.map((retry) => retry.code), ["DEADLINE_EXCEEDED"]);
  assert.equal(server.arrivals.length, 3);
});

test("a server that accepts connections and says nothing is connected to again", async (t) => {
  const server = await startServer(t, { wake: [done] });
  const sockets: Socket[] = [];
  let silent = true;
  const proxy = createServer((socket) => {
    sockets.push(socket);
    if (silent) return;
    const [host, port] = server.address.split(":");
    socket.pipe(createConnection(Number(port), host)).pipe(socket);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    proxy.close();
    for (const socket of sockets) socket.destroy();
  });
  const { port } = proxy.address() as AddressInfo;
  using client = new Client(`127.0.0.1:${port}`);
  const call = client.wake("work");
  while (sockets.length === 0) await new Promise(setImmediate);
  silent = false;
  await call;
  assert.equal(sockets.length, 2);
});

for (const prefix of ["", "dns:///"]) {
  test(`${prefix}127.0.0.1 is called without the proxy of the environment`, async (t) => {
    const server = await startServer(t, { wake: [done] });
    let connections = 0;
    const proxy = createServer((socket) => {
      connections += 1;
      socket.destroy();
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    process.env.http_proxy = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    t.after(() => {
      delete process.env.http_proxy;
      proxy.close();
    });
    using client = new Client(`${prefix}${server.address}`, { timeout: 10_000 });
    await client.wake("work");
    assert.equal(connections, 0);
  });
}

test("a signal ends a call in flight, and one that waits", async (t) => {
  const { server, caller: calls } = await caller(t, {
    wake: ["never"],
    enqueue: [{ error: { code: status.UNAVAILABLE, pushback: "60000" } }],
  });
  for (const name of ["Wake", "Enqueue"]) {
    const abort = new AbortController();
    const options = { signal: abort.signal };
    const call: Promise<unknown> =
      name === "Wake"
        ? calls.call(rpcs.wake, request, options)
        : calls.call(rpcs.enqueue, create(EnqueueRequestSchema), options);
    while (server.of(name).length === 0) await new Promise(setImmediate);
    setTimeout(() => {
      abort.abort();
    }, 50);
    await assert.rejects(call, Aborted);
  }
});

test("a refused token is asked for once more", async (t) => {
  const error = { code: status.UNAUTHENTICATED };
  let asked = 0;
  const token = () => `token-${(asked += 1)}`;
  const { server, caller: calls } = await caller(t, { wake: [{ error }, done, { error }] }, token);
  await calls.call(rpcs.wake, request);
  await assert.rejects(calls.call(rpcs.wake, request), { code: "UNAUTHENTICATED" });
  const headers = server.arrivals.map((arrival) => arrival.metadata.get("authorization")[0]);
  assert.deepEqual(headers, ["Bearer token-1", "Bearer token-2", "Bearer token-3", "Bearer token-4"]);
});

test("white space around a token is left out", async (t) => {
  for (const token of [" secret\n", () => "secret\r\n"]) {
    const { server, caller: calls } = await caller(t, { wake: [done] }, token);
    await calls.call(rpcs.wake, request);
    assert.deepEqual(server.arrivals[0]?.metadata.get("authorization"), ["Bearer secret"]);
  }
});

test("a token that no header can carry is refused without its text", async (t) => {
  for (const token of ["sec\nret", "secr\u00e9t", () => 5 as unknown as string]) {
    const { server, caller: calls } = await caller(t, { wake: [done] }, token);
    await assert.rejects(calls.call(rpcs.wake, request), (error: LeaseBrokerError) => {
      assert.deepEqual([error.name, error.code, error.applied], ["LeaseBrokerError", "UNAUTHENTICATED", "no"]);
      assert.match(error.details, /^the token (has a control character or one that is not ASCII|is not a text)$/);
      return true;
    });
    assert.equal(server.arrivals.length, 0);
  }
});

test("a token that does not arrive in time is UNAVAILABLE, and asked for again", async (t) => {
  let asked = 0;
  const token = () => ((asked += 1) === 1 ? new Promise<string>(() => undefined) : "late");
  const { caller: calls, retries } = await caller(t, { wake: [done] }, token);
  const answer = await calls.call(rpcs.wake, request, { attemptTimeout: 4_000 });
  assert.equal(answer.attempts, 2);
  assert.deepEqual(retries.map(({ code, error }) => [code, error]), [["UNAVAILABLE", "the token has not arrived within 4.0 s"]]);
});

test("a token file is read again after a refusal", async (t) => {
  const file = join(mkdtempSync(join(tmpdir(), "lease-broker-")), "token");
  writeFileSync(file, "old\n");
  const { server, caller: calls } = await caller(t, { wake: [done, { error: { code: status.UNAUTHENTICATED } }, done] }, { file });
  await calls.call(rpcs.wake, request);
  writeFileSync(file, "new\n");
  await calls.call(rpcs.wake, request);
  const headers = server.arrivals.map((arrival) => arrival.metadata.get("authorization")[0]);
  assert.deepEqual(headers, ["Bearer old", "Bearer old", "Bearer new"]);
});

test("the error of a token that cannot be read tells its source", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "lease-broker-"));
  const [empty, fifo] = [join(folder, "empty"), join(folder, "fifo")];
  writeFileSync(empty, "\n");
  execFileSync("mkfifo", [fifo]);
  const sources: [TokenSource, string][] = [
    [{ file: `${folder}/missing` }, `no token: Error: ENOENT: no such file or directory, stat '${folder}/missing'`],
    [{ file: folder }, `no token: Error: ${folder} is not a regular file`],
    [{ file: fifo }, `no token: Error: ${fifo} is not a regular file`],
    [{ file: empty }, `no token: Error: ${empty} is empty`],
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- A program can reject with anything.
    [() => Promise.reject(undefined), "no token: undefined: undefined"],
    [() => { throw new TypeError("fetch failed"); }, "no token: TypeError: fetch failed"],
  ];
  for (const [source, text] of sources) {
    const { caller: calls } = await caller(t, {}, source);
    await assert.rejects(calls.call(rpcs.wake, request, { givesUp: () => true }), (error: LeaseBrokerError) => {
      assert.deepEqual([error.code, error.details], ["UNAVAILABLE", text]);
      return true;
    });
  }
});

test("a token file that hangs takes one of Node's threads for files", async (t) => {
  let resolve: (found: Stats) => void = () => undefined;
  const promise = new Promise<Stats>((given) => { resolve = given; });
  const stat = t.mock.method(files, "stat", () => promise);
  const file = join(mkdtempSync(join(tmpdir(), "lease-broker-")), "token");
  const token = new Token({ file });
  const texts = Array.from({ length: 5 }, () => token.text(true));
  assert.equal(stat.mock.callCount(), 1);
  writeFileSync(file, "late");
  resolve(statSync(file));
  assert.deepEqual(await Promise.all(texts), Array(5).fill("late"));
});

test("a retried Enqueue has the same request id, the next one another", async (t) => {
  const keys = { message: { results: [{ key: "1" }] } };
  const server = await startServer(t, { enqueue: [{ error: { code: status.UNAVAILABLE } }, keys] });
  using client = new Client(server.address);
  assert.deepEqual(await client.enqueue("work", [{ payload: "x" }]), ["1"]);
  await client.enqueue("work", [{ payload: "x" }]);
  const ids = server.arrivals.map((arrival) => (arrival.request as EnqueueRequest).requestId);
  assert.equal(ids.length, 3);
  assert.equal(ids[0], ids[1]);
  assert.notEqual(ids[1], ids[2]);
  assert.match(String(server.arrivals[0]?.metadata.get("user-agent")[0]), /^lease-broker-node\/[0-9.]+ /);
});

test("a request that cannot be encoded is an error, and not sent again", async (t) => {
  const { caller: calls, retries } = await caller(t, { wake: [done] });
  const wrong = create(WakeRequestSchema, { queue: Object.create(null) as string });
  await assert.rejects(calls.call(rpcs.wake, wrong, inOneMinute), { code: "INVALID_ARGUMENT", applied: "no" });
  assert.equal(retries.length, 0);
});

const added = (request: unknown) => ({ results: (request as EnqueueRequest).items.map((_, index) => ({ key: String(index) })) });
const field = 'items[200].columns["n"]';
const afterFirstRows: [string, ScriptedError, Partial<LeaseBrokerError>][] = [
  ["a refused row", { code: status.INVALID_ARGUMENT, reason: "INVALID_FIELD", applied: "no", field }, {
    applied: "partly",
    field: 'items[1200].columns["n"]',
  }],
  ["a limit", { code: status.RESOURCE_EXHAUSTED, reason: "IDENTITY_LIMIT", applied: "no", pushback: "60000" }, { applied: "partly" }],
  ["an unknown outcome", { code: status.INTERNAL, reason: "INTERNAL", applied: "unknown" }, { applied: "unknown" }],
];
for (const [name, error, expected] of afterFirstRows) {
  test(`the error of ${name} after the first 1,000 rows has their keys`, async (t) => {
    const server = await startServer(t, { enqueue: [added, { error }] });
    using client = new Client(server.address, { timeout: "30s" });
    const rejection: unknown = await client.enqueue("work", Array<Row>(1_500).fill({})).catch((thrown: unknown) => thrown);
    assert.ok(rejection instanceof LeaseBrokerError, String(rejection));
    const { applied, temporary, field, keys, message } = rejection;
    assert.deepEqual({ applied, temporary, field }, { temporary: false, field: null, ...expected });
    assert.deepEqual([keys.length, keys.at(-1)], [1_000, "999"]);
    assert.match(message, /; the first 1000 rows were added$/);
  });
}

test("rows that are no iterable are refused", async () => {
  using client = new Client("127.0.0.1:1");
  // eslint-disable-next-line @typescript-eslint/require-await -- It has the rows of a program that reads them from somewhere.
  const later = (async function* () { yield {}; })();
  for (const rows of [later, {}, null, 5]) {
    await assert.rejects(client.enqueue("work", rows as unknown as Row[]), { name: "TypeError", message: /^rows must be an iterable of objects/ });
  }
});

test("a value that cannot be sent adds no row", async (t) => {
  const server = await startServer(t, { enqueue: [added] });
  using client = new Client(server.address);
  const rows = [...Array<Row>(1_200).fill({}), { payload: Symbol() } as unknown as Row];
  await assert.rejects(client.enqueue("work", rows), TypeError);
  assert.equal(server.arrivals.length, 0);
});

test("a release of claims is sent again only if it can succeed", async (t) => {
  const refused = { code: status.PERMISSION_DENIED, reason: "ROLE" };
  const later = { code: status.RESOURCE_EXHAUSTED, reason: "IDENTITY_LIMIT", pushback: "60000" };
  for (const [error, calls] of [[refused, 1], [later, 3]] as const) {
    const { server, caller: sender } = await caller(t, { releaseClaims: [{ error }] });
    const abandoned = new AbandonedClaims(checkOptions("work", "worker", quiet, {}), sender);
    abandoned.add("a");
    for (const forget of [false, true, true]) await abandoned.release({ forget });
    assert.equal(server.arrivals.length, calls);
  }
});
