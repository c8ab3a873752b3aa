"""OpenTelemetry, if the package opentelemetry-api is installed: handlers run in the trace context of their lease."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

try:
    from opentelemetry import context as otel_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    _propagator: TraceContextTextMapPropagator | None = TraceContextTextMapPropagator()
except ImportError:
    _propagator = None

IS_INSTALLED = _propagator is not None
"""False: `use_trace_parent` does nothing."""


@contextlib.contextmanager
def use_trace_parent(trace_parent: str) -> Iterator[None]:
    """Makes a W3C trace context the current one."""
    if _propagator is None or not trace_parent:
        yield
        return
    token = otel_context.attach(_propagator.extract({"traceparent": trace_parent}))
    try:
        yield
    finally:
        otel_context.detach(token)


def current_trace_parent() -> str:
    """Returns the W3C trace context of the current span, or an empty text if there is none."""
    carrier: dict[str, str] = {}
    if _propagator is not None:
        _propagator.inject(carrier)
    return carrier.get("traceparent", "")
