"""The harness's own calls to the brokers. They use the generated messages and none of the libraries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import grpc
from lease_broker import v1

TRACE_PARENT = "00-{trace:032x}-00000000000000ff-01"


class Api:
    """A connection to one broker."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None = None) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        if credentials is None:
            self._channel = grpc.insecure_channel(address, options)
        else:
            self._channel = grpc.secure_channel(address, credentials, options)

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def enqueue(self, queue: str, payloads: Sequence[dict[str, Any]], traces: Sequence[int] = ()) -> list[str]:
        """Adds an item per payload and returns the keys. `traces`: the ids of the items' traces, if they have one."""
        keys: list[str] = []
        for first in range(0, len(payloads), 1000):
            items = [
                v1.NewItem(columns={"payload": v1.ColumnValue(string_value=json.dumps(payload))})
                for payload in payloads[first : first + 1000]
            ]
            for item, trace in zip(items, traces, strict=False):
                item.trace_parent = TRACE_PARENT.format(trace=trace)
            answer = self._call("Enqueue", v1.EnqueueRequest(queue=queue, items=items), v1.EnqueueResponse)
            keys += [result.key for result in answer.results]
        return keys

    def _call(self, rpc: str, request: Any, response: Any) -> Any:
        method = self._channel.unary_unary(
            f"/leasebroker.v1.LeaseService/{rpc}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        return method(request, timeout=30, wait_for_ready=True)
