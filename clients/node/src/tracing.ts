/** Makes the trace context of a lease current while its handler runs, if `@opentelemetry/api` is installed. */

export interface Tracing {
  /** Calls a function within a W3C trace context. */
  run<T>(traceParent: string, call: () => T): T;
  /** Returns the W3C trace context of the current span, or an empty text. */
  current(): string;
}

const TRACE_PARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
const NONE: Tracing = { run: (_traceParent, call) => call(), current: () => "" };

/** Returns the tracing of this program. */
export async function loadTracing(): Promise<Tracing> {
  const load = () => import("@opentelemetry/api");
  let api: Awaited<ReturnType<typeof load>>;
  try {
    api = await load();
  } catch {
    return NONE;
  }
  return {
    run(traceParent, call) {
      const [, traceId, spanId, flags] = TRACE_PARENT.exec(traceParent) ?? [];
      const traceFlags = parseInt(flags ?? "0", 16);
      // Below a context that is not sampled no span would be recorded, although the program may record its own.
      if (traceId === undefined || spanId === undefined || (traceFlags & api.TraceFlags.SAMPLED) === 0) return call();
      const span = { traceId, spanId, traceFlags, isRemote: true };
      return api.context.with(api.trace.setSpanContext(api.context.active(), span), call);
    },
    current() {
      const span = api.trace.getSpanContext(api.context.active());
      if (span === undefined || !api.isSpanContextValid(span)) return "";
      return `00-${span.traceId}-${span.spanId}-${span.traceFlags.toString(16).padStart(2, "0")}`;
    },
  };
}
