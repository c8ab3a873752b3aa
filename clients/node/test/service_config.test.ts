/** The service configs in `deploy`, used as they are by grpc-js without the library. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { create, type DescMessage, type DescMethodUnary, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { Client, credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";

import { rpcs } from "../src/transport.js";
import { ClaimBatchRequestSchema, CompleteRequestSchema, EnqueueRequestSchema } from "../src/v1.js";
import { startBroker } from "./support/broker.js";
import { startServer } from "./support/scripted_server.js";

const FILES = ["service-config.json", "service-config-balancer.json"];

type Call = <I extends DescMessage, O extends DescMessage>(
  rpc: DescMethodUnary<I, O>,
  request: MessageShape<I>,
) => Promise<MessageShape<O>>;

/** Returns a function that makes calls under the service config of a file. */
function connect(t: Parameters<typeof startServer>[0], file: string, address: string): Call {
  const text = readFileSync(join(__dirname, "../../../../deploy", file), "utf8");
  const client = new Client(address, credentials.createInsecure(), { "grpc.service_config": text });
  t.after(() => {
    client.close();
  });
  return (rpc, request) =>
    new Promise((resolve, reject: (error: ServiceError) => void) => {
      client.makeUnaryRequest(
        `/${rpc.parent.typeName}/${rpc.name}`,
        (message: MessageShape<typeof rpc.input>) => Buffer.from(toBinary(rpc.input, message)),
        (bytes) => fromBinary(rpc.output, bytes),
        request,
        // grpc-js does not read waitForReady in a service config.
        new Metadata({ waitForReady: true }),
        { deadline: Date.now() + 60_000 },
        (error, response) => {
          if (error !== null) reject(error);
          else if (response !== undefined) resolve(response);
        },
      );
    });
}

for (const file of FILES) {
  const unavailable = { error: { code: status.UNAVAILABLE, reason: "DRAINING", pushback: "20" } };
  const overloaded = { error: { code: status.RESOURCE_EXHAUSTED, reason: "OVERLOADED", pushback: "20" } };
  const failsTwice = [unavailable, overloaded, { message: {} }];

  for (const name of ["claimBatch", "heartbeat", "complete", "fail", "release", "releaseClaims"] as const) {
    test(`${file}: ${rpcs[name].name} is retried`, async (t) => {
      const server = await startServer(t, { [name]: failsTwice });
      const rpc: DescMethodUnary = rpcs[name];
      await connect(t, file, server.address)(rpc, create(rpc.input));
      assert.equal(server.arrivals.length, 3);
    });
  }

  test(`${file}: an overloaded Enqueue is retried`, async (t) => {
    const server = await startServer(t, { enqueue: [overloaded, overloaded, { message: {} }] });
    await connect(t, file, server.address)(rpcs.enqueue, create(EnqueueRequestSchema));
    assert.equal(server.arrivals.length, 3);
  });

  // UNAVAILABLE does not tell whether the items of an Enqueue were added.
  for (const name of ["enqueue", "wake"] as const) {
    test(`${file}: ${rpcs[name].name} is not retried`, async (t) => {
      const server = await startServer(t, { [name]: failsTwice });
      const rpc: DescMethodUnary = rpcs[name];
      const call = connect(t, file, server.address);
      await assert.rejects(call(rpc, create(rpc.input)), { code: status.UNAVAILABLE });
      assert.equal(server.arrivals.length, 1);
    });
  }

  test(`${file}: the pushback is the wait, and -1 ends the call`, async (t) => {
    const server = await startServer(t, {
      claimBatch: [{ error: { code: status.UNAVAILABLE, pushback: "700" } }, { message: {} }],
      complete: [{ error: { code: status.UNAVAILABLE, pushback: "-1" } }],
    });
    const call = connect(t, file, server.address);
    await call(rpcs.claimBatch, create(ClaimBatchRequestSchema));
    const [first, second] = server.of("ClaimBatch").map((arrival) => arrival.at);
    assert.ok(first !== undefined && second !== undefined && second - first >= 690);
    await assert.rejects(call(rpcs.complete, create(CompleteRequestSchema)), { code: status.UNAVAILABLE });
    assert.equal(server.of("Complete").length, 1);
  });

  test(`${file}: a broker that restarts is waited for`, async (t) => {
    const broker = await startBroker(t);
    if (broker === null) return;
    const call = connect(t, file, broker.address);
    const items = [{ columns: { payload: { kind: { case: "stringValue" as const, value: "x" } } } }];
    await call(rpcs.enqueue, create(EnqueueRequestSchema, { queue: "work", items, requestId: randomUUID() }));
    await broker.kill();
    const request = create(ClaimBatchRequestSchema, {
      queue: "work",
      workerId: "node",
      maxItems: 1,
      requestId: randomUUID(),
    });
    const claim = call(rpcs.claimBatch, request);
    await sleep(1_000);
    await broker.start();
    assert.equal((await claim).leases.length, 1);
  });
}
