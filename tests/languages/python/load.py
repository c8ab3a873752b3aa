"""Load on a queue, as `Load` in `tests/balancers/load.rs` describes it. Arguments: address, service config."""

import json
import sys
import threading
import time
import uuid

import grpc
from leasebroker.v1 import lease_broker_pb2 as pb, lease_broker_pb2_grpc as rpc

address, service_config = sys.argv[1:]
options = [("grpc.enable_retries", 1 if service_config else 0)]
if service_config:
    options.append(("grpc.service_config", service_config))
channel = grpc.insecure_channel(address, options)
stub = rpc.LeaseServiceStub(channel)
stop = threading.Event()
lock = threading.Lock()
calls, failures, added, completed = 0, [], [], []
# Tries of an Enqueue, which together take longer than the restart of a broker.
TRIES = 100


def ended():
    global calls
    with lock:
        calls += 1
        if calls == 1:
            print("begun", flush=True)


def call(method, request):
    for left in reversed(range(TRIES)):
        try:
            response = getattr(stub, method)(request, timeout=30)
            ended()
            return response
        except grpc.RpcError as error:
            time.sleep(0.05)
            repeats = service_config and method == "Enqueue" and error.code() == grpc.StatusCode.UNAVAILABLE
            if left == 0 or not repeats:
                with lock:
                    failures.append([method, error.code().value[0], error.details()])
                ended()
                return None


def request_id():
    return str(uuid.uuid4()) if service_config else ""


def produce():
    while not stop.is_set():
        payloads = [str(uuid.uuid4()) for _ in range(5)]
        items = [pb.NewItem(columns={"payload": pb.ColumnValue(string_value=payload)}) for payload in payloads]
        if call("Enqueue", pb.EnqueueRequest(queue="work", items=items, request_id=str(uuid.uuid4()))):
            added.extend(payloads)
        time.sleep(0.1)


def work(name):
    while not stop.is_set():
        claim = pb.ClaimBatchRequest(queue="work", worker_id=name, max_items=5, request_id=request_id())
        claim.wait_timeout.FromMilliseconds(1000)
        claimed = call("ClaimBatch", claim)
        if not claimed or not claimed.leases:
            continue
        completions = [pb.Completion(lease_id=lease.lease_id) for lease in claimed.leases]
        settled = call("Complete", pb.CompleteRequest(queue="work", completions=completions))
        if settled:
            applied = [result.outcome == pb.OUTCOME_APPLIED for result in settled.results]
            completed.extend(lease.item.key for lease, ok in zip(claimed.leases, applied) if ok)


threads = [threading.Thread(target=produce)]
threads += [threading.Thread(target=work, args=[f"worker-{n}"]) for n in range(4)]
for thread in threads:
    thread.start()
sys.stdin.read()
stop.set()
for thread in threads:
    thread.join()
print(json.dumps({"calls": calls, "failures": failures, "added": added, "completed": completed}))
