"""Sends each rpc to each queue as each caller, and prints the status codes as JSON. Uses the gRPC library of Python."""

import json
import sys

import grpc

ADMIN = {
    "CancelLeases", "ListItems", "PauseQueue", "ResumeQueue", "SetQueueLimits", "ListGroups", "PauseGroup", "ResumeGroup",
    "StartOperation",
}


def codes(target, ca, caller, rpcs, queues):
    """Returns one list per rpc, with the name of the code for each queue."""
    pair = [open(path, "rb").read() for path in caller.get("certificate", [])]
    certificate, key = pair or (None, None)
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    options = [("grpc.ssl_target_name_override", "localhost"), ("grpc.enable_retries", 0)]
    metadata = [("authorization", "Bearer " + caller["token"])] if "token" in caller else []

    def code(channel, rpc, queue):
        # Every request has the name of the queue as its first field.
        message = b"\x0a" + bytes([len(queue)]) + queue.encode()
        service = "AdminService" if rpc in ADMIN else "LeaseService"
        call = channel.unary_unary(f"/leasebroker.v1.{service}/{rpc}")
        try:
            call(message, metadata=metadata, timeout=20)
            return "OK"
        except grpc.RpcError as error:
            print(rpc, queue, error.details(), file=sys.stderr)
            return error.code().name

    with grpc.secure_channel(target, credentials, options) as channel:
        return [[code(channel, rpc, queue) for queue in queues] for rpc in rpcs]


target, ca, calls = sys.argv[1:]
calls = json.loads(calls)
authority = open(ca, "rb").read()
results = [codes(target, authority, caller, calls["rpcs"], calls["queues"]) for caller in calls["callers"]]
print(json.dumps(results))
