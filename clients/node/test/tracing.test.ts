/** The trace context of a lease, with OpenTelemetry's API and a context manager. */

import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { context, type Context, type ContextManager, ROOT_CONTEXT, trace } from "@opentelemetry/api";

import { loadTracing } from "../src/tracing.js";

const storage = new AsyncLocalStorage<Context>();
const manager: ContextManager = {
  active: () => storage.getStore() ?? ROOT_CONTEXT,
  with: (context, call, self, ...args) => storage.run(context, () => call.apply(self as never, args)),
  bind: (_context, target) => target,
  enable: () => manager,
  disable: () => manager,
};

test("the trace context of a lease is current in the handler", async () => {
  context.setGlobalContextManager(manager);
  const tracing = await loadTracing();
  const traceParent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
  const span = await tracing.run(traceParent, async () => {
    await sleep(1);
    return trace.getSpanContext(context.active());
  });
  assert.deepEqual(span, { traceId: "a".repeat(32), spanId: "b".repeat(16), traceFlags: 1, isRemote: true });
  assert.equal(trace.getSpanContext(context.active()), undefined);
});

test("a malformed trace context is left out", async () => {
  const tracing = await loadTracing();
  assert.equal(tracing.run("", () => trace.getSpanContext(context.active())), undefined);
});

test("a trace context that is not sampled is left out", async () => {
  const tracing = await loadTracing();
  const traceParent = `00-${"a".repeat(32)}-${"b".repeat(16)}-00`;
  assert.equal(tracing.run(traceParent, () => trace.getSpanContext(context.active())), undefined);
});

test("the current span is the producer's trace context", async () => {
  const tracing = await loadTracing();
  const traceParent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
  assert.equal(tracing.current(), "");
  assert.equal(tracing.run(traceParent, () => tracing.current()), traceParent);
});
