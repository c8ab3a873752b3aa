package com.example.leasebroker;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import java.util.regex.Pattern;

/** Makes the trace context of a lease the current one, if OpenTelemetry's API is on the class path. */
final class Tracing {
  private static final boolean AVAILABLE = isAvailable();

  /** Version, trace id, span id, flags. */
  private static final Pattern TRACE_PARENT = Pattern.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}");

  /** Ends the current context when it is closed. */
  interface Scope extends AutoCloseable {
    @Override
    void close();
  }

  private Tracing() {}

  static Scope enter(String traceParent) {
    return AVAILABLE && isSampled(traceParent) ? Entered.enter(traceParent) : () -> {};
  }

  /** Below a context that is not sampled no span would be recorded, although the program may record its own. */
  private static boolean isSampled(String traceParent) {
    return TRACE_PARENT.matcher(traceParent).matches() && (Integer.parseInt(traceParent.substring(53), 16) & 1) == 1;
  }

  /** Returns the W3C trace context of the current span, or an empty text. */
  static String current() {
    return AVAILABLE ? Entered.current() : "";
  }

  private static boolean isAvailable() {
    try {
      Class.forName("io.opentelemetry.api.trace.Span", false, Tracing.class.getClassLoader());
      return true;
    } catch (ClassNotFoundException absent) {
      return false;
    }
  }

  /** Is loaded only if the API is there. */
  private static final class Entered {
    static Scope enter(String traceParent) {
      String[] parts = traceParent.split("-");
      SpanContext parent = SpanContext.createFromRemoteParent(parts[1], parts[2], TraceFlags.fromHex(parts[3], 0), TraceState.getDefault());
      var scope = Span.wrap(parent).makeCurrent();
      return scope::close;
    }

    static String current() {
      SpanContext span = Span.current().getSpanContext();
      return span.isValid() ? "00-" + span.getTraceId() + "-" + span.getSpanId() + "-" + span.getTraceFlags().asHex() : "";
    }
  }
}
