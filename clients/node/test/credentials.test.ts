/** TLS, client certificates and tokens with a scripted server, and the refusal of plaintext to other machines. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { ServerCredentials, status } from "@grpc/grpc-js";

import { hostOf, isLoopback } from "../src/addresses.js";
import { Client, plaintext, tls, Worker } from "../src/index.js";
import { Transport } from "../src/transport.js";
import { Outcome } from "../src/v1.js";
import { Journal } from "./support/journal.js";
import { type Script, startServer } from "./support/scripted_server.js";
import { quiet } from "./support/work.js";

/** Creates a certificate that has signed itself, for a name. */
function certificate(t: TestContext, name: string) {
  const folder = mkdtempSync(join(tmpdir(), "lease-broker-"));
  t.after(() => {
    rmSync(folder, { recursive: true });
  });
  const names = ["-subj", `/CN=${name}`, "-addext", `subjectAltName=DNS:${name}`];
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key", "-out", "cert"];
  execFileSync("openssl", ["req", "-x509", ...key, ...names], { cwd: folder, stdio: "ignore" });
  return { cert: readFileSync(join(folder, "cert")), key: readFileSync(join(folder, "key")) };
}

function startTlsServer(t: TestContext, script: Script) {
  const server = certificate(t, "broker.test");
  const client = certificate(t, "worker.test");
  const keyPair = { private_key: server.key, cert_chain: server.cert };
  const credentials = ServerCredentials.createSsl(client.cert, [keyPair], true);
  return { server: startServer(t, script, credentials), ca: server.cert, client };
}

test("a client calls a server with TLS, a client certificate and a token", async (t) => {
  const { server, ca, client: identity } = startTlsServer(t, { wake: [{ message: {} }] });
  const { address, arrivals } = await server;
  const credentials = tls({ ca, ...identity, serverName: "broker.test" });
  using client = new Client(address, { credentials, token: "secret" });
  await client.wake("work");
  assert.equal(arrivals[0]?.metadata.get("authorization")[0], "Bearer secret");
});

test("the certificate of an unknown authority is refused", async (t) => {
  const { server, client: identity } = startTlsServer(t, { wake: [{ message: {} }] });
  const credentials = tls({ ca: identity.cert, ...identity, serverName: "broker.test" });
  using client = new Client((await server).address, { credentials, timeout: 4_000 });
  await assert.rejects(client.wake("work"), { code: "UNAVAILABLE" });
});

test("the certificate of another name is refused", async (t) => {
  const { server, ca, client: identity } = startTlsServer(t, { wake: [{ message: {} }] });
  using client = new Client((await server).address, { credentials: tls({ ca, ...identity }), timeout: 4_000 });
  await assert.rejects(client.wake("work"), { code: "UNAVAILABLE" });
});

test("malformed certificates do not replace the old ones", async (t) => {
  const { cert: ca } = certificate(t, "broker.test");
  const identity = certificate(t, "worker.test");
  const folder = mkdtempSync(join(tmpdir(), "lease-broker-"));
  t.after(() => {
    rmSync(folder, { recursive: true });
  });
  const files = ["ca", "cert", "key"].map((name) => join(folder, name)) as [string, string, string];
  const write = (...texts: (Buffer | string)[]) => {
    files.forEach((file, index) => {
      writeFileSync(file, texts[index] ?? "");
    });
  };
  write(ca, identity.cert, identity.key);
  const options = { ca: { file: files[0] }, cert: { file: files[1] }, key: { file: files[2] } };
  const warnings: string[] = [];
  const transport = new Transport("127.0.0.1:1", tls(options), (text) => warnings.push(text));
  t.after(() => {
    transport.close();
  });
  const connection = await transport.route();
  const half = ca.subarray(0, 200);
  const wrong: [Buffer | string, Buffer | string, Buffer | string][] = [
    ["", identity.cert, identity.key],
    [half, identity.cert, identity.key],
    [Buffer.concat([ca, half]), identity.cert, identity.key],
    [ca, identity.cert, identity.key.subarray(0, 100)],
    // The certificate was replaced, and the key will be.
    [ca, ca, identity.key],
  ];
  for (const [index, texts] of wrong.entries()) {
    write(...texts);
    assert.throws(() => tls(options), Error);
    for (let look = 0; look < 2; look++) transport.lookAtFiles(0);
    assert.equal(await transport.route(), connection);
    assert.equal(warnings.length, index + 1);
  }
  write(ca, identity.cert, identity.key);
  transport.lookAtFiles(0);
  assert.notEqual(await transport.route(), connection);
});

test("heartbeats from the thread use TLS, and a new token after a refusal", async (t) => {
  const timeLeft = { seconds: 6n, nanos: 0 };
  const lease = { leaseId: "a", item: { key: "1", columns: {} }, attempt: 1, fencingToken: 1n, timeLeft };
  const result = { leaseId: "a", outcome: 1, timeLeft };
  const { server, ca, client: identity } = startTlsServer(t, {
    claimBatch: [{ message: { leases: [lease] } }, "never"],
    heartbeat: [{ error: { code: status.UNAUTHENTICATED } }, { message: { results: [result] } }],
    complete: [{ message: { results: [{ leaseId: "a", outcome: 1 }] } }],
    release: [{ message: {} }],
  });
  const scripted = await server;
  let asked = 0;
  const journal = new Journal();
  let end: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => (end = resolve));
  const worker = new Worker(scripted.address, "work", () => ended, {
    credentials: tls({ ca, ...identity, serverName: "broker.test" }),
    token: () => `token-${(asked += 1)}`,
    logger: quiet,
    onEvent: journal.observe,
  });
  await worker.start();
  await journal.waitFor("heartbeat", 2);
  end();
  await journal.waitFor("completed");
  await worker.stop();
  const tokens = scripted.of("Heartbeat").map((arrival) => arrival.metadata.get("authorization")[0]);
  assert.equal(tokens[0], "Bearer token-1");
  assert.notEqual(tokens.at(-1), tokens[0]);
});

test("a refused token ends the worker", async (t) => {
  const server = await startServer(t, { claimBatch: [{ error: { code: status.UNAUTHENTICATED } }], release: [{ message: {} }] });
  const worker = new Worker(server.address, "work", () => undefined, { token: "wrong", logger: quiet });
  await assert.rejects(worker.run(), { name: "LeaseBrokerError", code: "UNAUTHENTICATED" });
  assert.equal(server.of("ClaimBatch").length, 2);
});

for (const [name, token, beats] of [["without a token", {}, 1], ["with a token, after a second one", { token: "token" }, 2]] as const) {
  test(`a refused heartbeat ends a worker ${name}`, async (t) => {
    const timeLeft = { seconds: 3n, nanos: 0 };
    const lease = { leaseId: "a", item: { key: "1", columns: {} }, attempt: 1, fencingToken: 1n, timeLeft };
    const server = await startServer(t, {
      claimBatch: [{ message: { leases: [lease] } }, "never"],
      heartbeat: [{ error: { code: status.PERMISSION_DENIED } }],
      release: [{ message: { results: [{ leaseId: "a", outcome: 1 }] } }],
      releaseClaims: [{ message: {} }],
    });
    const handler = (_item: unknown, context: { signal: AbortSignal }) =>
      new Promise<void>((resolve) => { context.signal.addEventListener("abort", () => { resolve(); }); });
    const worker = new Worker(server.address, "work", handler, { ...token, logger: quiet, grace: 0 });
    await assert.rejects(worker.run(), { name: "LeaseBrokerError", code: "PERMISSION_DENIED", rpc: "Heartbeat" });
    assert.ok(server.of("Heartbeat").length >= beats);
  });
}

test("a refusal with a wait does not end the worker", async (t) => {
  const refusals = [
    { error: { code: status.UNAUTHENTICATED, reason: "CREDENTIALS_INVALID", retryAfterMs: 10 } },
    { error: { code: status.RESOURCE_EXHAUSTED, reason: "IDENTITY_LIMIT", retryAfterMs: 10 } },
  ];
  const lease = { leaseId: "one", item: { key: "1" }, timeLeft: { seconds: 60n } };
  const applied = { message: { results: [{ outcome: Outcome.APPLIED }] } };
  const server = await startServer(t, {
    claimBatch: [...refusals, ...refusals, { message: { leases: [lease] } }, "never"],
    complete: [...refusals, applied],
    releaseClaims: [{ message: {} }],
  });
  const journal = new Journal();
  const worker = new Worker(server.address, "work", () => undefined, { token: "known", logger: quiet, onEvent: journal.observe });
  await worker.start();
  await journal.waitFor("completed");
  await worker.stop();
  assert.ok(server.of("ClaimBatch").length >= 5);
  assert.equal(server.of("Complete").length, 3);
});

test("plaintext to another machine is refused", () => {
  assert.throws(() => new Client("db.example:50051"), /not an address of this machine/);
  assert.throws(() => new Worker(["127.0.0.1:1", "10.0.0.1:1"], "work", () => undefined), /10\.0\.0\.1:1/);
  new Client("db.example:50051", { credentials: plaintext({ allowPlaintext: true }) }).close();
});

test("a list of addresses has names and IP addresses", () => {
  assert.throws(() => new Client([]), /the list is empty/);
  assert.throws(() => new Client(["localhost:1", "dns:///localhost:2"]), /and not dns:\/\/\/localhost:2/);
  assert.throws(() => new Client(["localhost", "127.0.0.1:2"]), /and not localhost/);
  new Client(["[::1]:1", "127.0.0.1:2", "localhost:3"]).close();
});

test("an address of another form is refused with the right form", () => {
  const wrong = ["127.0.0.1", "localhost", "::1:50051", "127.0.0.1:99999", "127.0.0.1:0", " 127.0.0.1:1", "127.0.0.1:1,127.0.0.1:2", ""];
  for (const address of [...wrong, "dns:///localhost", "dns://localhost:1", "127.0.0.1:1/", undefined as unknown as string]) {
    const expected = new RangeError(`address: expected host:port, such as 127.0.0.1:50051, and not ${address}`);
    assert.throws(() => new Client(address), expected);
    assert.throws(() => new Worker(address, "work", () => undefined), expected);
    assert.throws(() => new Client(["127.0.0.1:1", address]), /^RangeError: address: /);
  }
  const scheme = new RangeError("address: pass 127.0.0.1:7443 without http://; TLS is turned on by credentials: tls(…)");
  assert.throws(() => new Client("http://127.0.0.1:7443"), scheme);
  assert.throws(() => new Client(["127.0.0.1:1", "https://broker:7443/"]), /pass broker:7443 without https:\/\/;/);
  for (const address of ["LOCALHOST:1", "dns:///localhost:1", "dns:localhost:1", "[::1]:1", "unix:/run/broker.sock"]) new Client(address).close();
});

test("addresses of this machine are recognized", () => {
  const hosts = { "a:1": "a", "dns:///a.b:1": "a.b", "dns:a:1": "a", "[::1]:1": "::1", "ipv6:[::1]:1": "::1", localhost: "localhost" };
  for (const [address, host] of Object.entries(hosts)) assert.equal(hostOf(address), host);
  for (const address of ["127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1", "unix:/run/b.sock", "dns:///localhost:1"]) {
    assert.ok(isLoopback(address), address);
  }
  for (const address of ["10.0.0.1:1", "localhost.example:1", "127.0.0.1.example:1", "ipv4:127.0.0.1:1,10.0.0.1:2"]) {
    assert.ok(!isLoopback(address), address);
  }
});
