"""A server that answers as a test says."""

from __future__ import annotations

import datetime
import ipaddress
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from lease_broker import v1

_REQUESTS: dict[str, Any] = {
    "ClaimBatch": v1.ClaimBatchRequest,
    "Heartbeat": v1.HeartbeatRequest,
    "Complete": v1.CompleteRequest,
    "Fail": v1.FailRequest,
    "Release": v1.ReleaseRequest,
    "ReleaseClaims": v1.ReleaseClaimsRequest,
    "Wake": v1.WakeRequest,
    "Enqueue": v1.EnqueueRequest,
}

Answer = Callable[[Any, grpc.ServicerContext], Any]


class ScriptedServer(grpc.GenericRpcHandler):
    """A gRPC server, by default on a free port. A call takes the next answer of its rpc. The last one is repeated."""

    def __init__(
        self,
        credentials: grpc.ServerCredentials | None = None,
        address: str = "127.0.0.1:0",
        answers: Mapping[str, Answer] | None = None,
    ) -> None:
        """`answers`: those of calls that can arrive as soon as the server listens."""
        self.requests: dict[str, list[Any]] = defaultdict(list)
        self.headers: list[dict[str, str]] = []
        self._answers: dict[str, deque[Answer]] = defaultdict(deque)
        self._lock = threading.Lock()
        for rpc, answer in (answers or {}).items():
            self.answer(rpc, answer)
        self._server = grpc.server(ThreadPoolExecutor(10))
        self._server.add_generic_rpc_handlers((self,))
        if credentials is None:
            port = self._server.add_insecure_port(address)
        else:
            port = self._server.add_secure_port(address, credentials)
        self.address = f"127.0.0.1:{port}"
        self._server.start()

    def answer(self, rpc: str, *answers: Answer) -> None:
        """Adds answers."""
        self._answers[rpc].extend(answers)

    def close(self) -> None:
        """Stops the server."""
        self._server.stop(0).wait()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        rpc = handler_call_details.method.rpartition("/")[2]

        def handle(request: Any, context: grpc.ServicerContext) -> Any:
            with self._lock:
                self.requests[rpc].append(request)
                self.headers.append({key: str(value) for key, value in context.invocation_metadata()})
                answers = self._answers[rpc]
                answer = answers[0] if len(answers) == 1 else answers.popleft()
            return answer(request, context)

        return grpc.unary_unary_rpc_method_handler(
            handle,
            request_deserializer=_REQUESTS[rpc].FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )


def ok(message: Any) -> Answer:
    """Returns this message."""
    return lambda _request, _context: message


def error(
    code: grpc.StatusCode,
    reason: str | None = None,
    pushback_ms: int | None = None,
    retry_after: float | None = None,
    applied: str | None = None,
    field: str | None = None,
) -> Answer:
    """Ends with a status, as the broker does."""

    def answer(_request: Any, context: grpc.ServicerContext) -> Any:
        trailers: list[tuple[str, str | bytes]] = []
        if pushback_ms is not None:
            trailers.append(("grpc-retry-pushback-ms", str(pushback_ms)))
        details = []
        if reason is not None:
            metadata = {} if applied is None else {"applied": applied}
            details.append(error_details_pb2.ErrorInfo(reason=reason, domain="leasebroker", metadata=metadata))
        if retry_after is not None:
            info = error_details_pb2.RetryInfo()
            info.retry_delay.FromMilliseconds(int(retry_after * 1000))
            details.append(info)
        if field is not None:
            violation = error_details_pb2.BadRequest.FieldViolation(field=field)
            details.append(error_details_pb2.BadRequest(field_violations=[violation]))
        if details:
            status = status_pb2.Status(code=code.value[0], message="scripted")
            for detail in details:
                packed = any_pb2.Any()
                packed.Pack(detail)
                status.details.append(packed)
            trailers.append(("grpc-status-details-bin", status.SerializeToString()))
        context.set_trailing_metadata(tuple(trailers))
        context.abort(code, "scripted")

    return answer


class Certificate:
    """A self-signed certificate with its key, as PEM texts."""

    def __init__(self, *names: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        now = datetime.datetime.now(datetime.timezone.utc)
        alternatives: list[x509.GeneralName] = []
        for name in names:
            try:
                alternatives.append(x509.IPAddress(ipaddress.ip_address(name)))
            except ValueError:
                alternatives.append(x509.DNSName(name))
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .sign(key, hashes.SHA256())
        )
        self.certificate = certificate.public_bytes(serialization.Encoding.PEM)
        self.key = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
