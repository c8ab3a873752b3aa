"""OpenTelemetry, if the package opentelemetry-api is installed: handlers run in the trace context of their lease."""

from __future__ import annotations

from typing import Any

try:
    from opentelemetry import context as otel_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    _propagator: TraceContextTextMapPropagator | None = TraceContextTextMapPropagator()
except ImportError:
    _propagator = None

IS_INSTALLED = _propagator is not None
"""False: `attach` does nothing."""


def attach(trace_parent: str) -> Any:
    """Makes a W3C trace context the current one. Returns a token for `detach`, or None.

    A context that is not sampled is left out. A span below it would not be recorded, although the program may record
    its own.
    """
    if _propagator is None or not is_sampled(trace_parent):
        return None
    return otel_context.attach(_propagator.extract({"traceparent": trace_parent}))


def detach(token: Any) -> None:
    """Restores the context that was current before `attach`."""
    otel_context.detach(token)


def is_sampled(trace_parent: str) -> bool:
    """Returns True if the spans of a W3C trace context are recorded."""
    flags = trace_parent[53:55]
    return flags != "" and flags[1:] in "13579bdf"


def current_trace_parent() -> str:
    """Returns the W3C trace context of the current span, or an empty text if there is none."""
    carrier: dict[str, str] = {}
    if _propagator is not None:
        _propagator.inject(carrier)
    return carrier.get("traceparent", "")
