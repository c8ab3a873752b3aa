/** Makes the trace context of a lease current while its handler runs, if `@opentelemetry/api` is installed. */

export interface Tracing {
  /** Calls a function within a W3C trace context. */
  run<T>(traceParent: string, call: () => T): T;
}

const TRACE_PARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
const NONE: Tracing = { run: (_traceParent, call) => call() };

/** Returns the tracing of this program. */
export async function loadTracing(): Promise<Tracing> {
  let api: typeof import("@opentelemetry/api");
  try {
    api = await import("@opentelemetry/api");
  } catch {
    return NONE;
  }
  return {
    run(traceParent, call) {
      const [, traceId, spanId, flags] = TRACE_PARENT.exec(traceParent) ?? [];
      if (traceId === undefined || spanId === undefined || flags === undefined) return call();
      const span = { traceId, spanId, traceFlags: parseInt(flags, 16), isRemote: true };
      return api.context.with(api.trace.setSpanContext(api.context.active(), span), call);
    },
  };
}
