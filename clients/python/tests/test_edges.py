"""Callbacks, options, queues and middleware, against a scripted server."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from scripted import ScriptedServer, error, ok
from test_settler import claims, complete, extend, fail, lease

from lease_broker import (
    AsyncClient,
    Client,
    Context,
    Event,
    Item,
    LeaseBrokerError,
    Worker,
    plaintext,
    transport,
    v1,
)
from lease_broker.calls import Caller
from lease_broker.handlers import Returned, wrap


def release(request: v1.ReleaseRequest, _context: Any) -> v1.ReleaseResponse:
    return v1.ReleaseResponse(results=[v1.SettleResult(outcome=v1.OUTCOME_APPLIED) for _ in request.releases])


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server that extends and applies everything."""
    yield from settling_server()


def settling_server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    for rpc, answer in (("Heartbeat", extend), ("Complete", complete), ("Fail", fail), ("Release", release)):
        server.answer(rpc, answer)
    server.answer("ReleaseClaims", ok(v1.ReleaseClaimsResponse()))
    yield server
    server.close()


def leases(server: ScriptedServer, *keys: str) -> None:
    """Leases these items by the first claim of each queue."""
    seen: set[str] = set()

    def answer(request: v1.ClaimBatchRequest, _context: Any) -> v1.ClaimBatchResponse:
        if request.queue in seen:
            time.sleep(0.1)
            return v1.ClaimBatchResponse()
        seen.add(request.queue)
        return v1.ClaimBatchResponse(leases=[lease(f"{request.queue}-{key}") for key in keys])

    server.answer("ClaimBatch", answer)


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Waits until a condition is met."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "the condition was not met"
        time.sleep(0.01)


@pytest.mark.parametrize("kind", ["raises", "blocks"])
def test_on_cancel_does_not_stop_the_heartbeats(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for module in ("keeper", "state"):
        monkeypatch.setattr(f"lease_broker.{module}.beat_period", lambda _lease: 0.1)
    monkeypatch.setattr("lease_broker.state._TIME_LIMIT_GRACE", 60.0)
    leases(server, "1", "2")
    released, called = threading.Event(), threading.Event()

    def callback() -> None:
        called.set()
        if kind == "raises":
            raise RuntimeError("callback")
        released.wait(60)

    def handler(item: Item, context: Context) -> None:
        context.on_cancel(callback)
        context.cancelled.wait(60)
        if item.key == "work-2":
            released.wait(60)

    worker = Worker(server.address, "work", handler, concurrency=2, time_limit=0.2, wait=0)
    worker.start()
    assert called.wait(60)
    beats = len(server.requests["Heartbeat"])
    until(lambda: len(server.requests["Heartbeat"]) > beats + 2)
    assert worker.health()
    released.set()
    worker.stop()
    assert worker.counters()["completed"] == 2


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_handler_that_hangs_is_replaced_when_another_one_ends(server: ScriptedServer, kind: str) -> None:
    # On a busy machine a handler that returns immediately can also exceed its time limit. Then a later one does not.
    keys = map(str, itertools.count(1))

    def claim(_request: Any, _context: Any) -> v1.ClaimBatchResponse:
        return v1.ClaimBatchResponse(leases=[lease(next(keys))])

    server.answer("ClaimBatch", claim)
    ends = {"1": threading.Event(), "2": threading.Event()}

    def hang(item: Item) -> None:
        if item.key in ends:
            ends[item.key].wait(60)

    async def hang_in_task(item: Item) -> None:
        while item.key in ends and not ends[item.key].is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    handler = hang if kind == "thread" else hang_in_task
    worker = Worker(server.address, "work", handler, time_limit=0.1, stuck_after=0.1, wait=0.1)

    def work() -> None:
        until(lambda: worker.counters().get("stuck") == 2)
        assert not worker.health()
        ends["1"].set()
        until(lambda: worker.counters().get("completed"))
        assert worker.health()
        ends["2"].set()
        worker.request_stop()

    async def main() -> None:
        await asyncio.gather(worker.run_async(), asyncio.to_thread(work))

    asyncio.run(main())


def test_observer_that_blocks_does_not_stop_the_worker(server: ScriptedServer) -> None:
    leases(server, "1")
    released = threading.Event()

    def wait(_event: Event) -> None:
        released.wait(60)

    worker = Worker(server.address, "work", lambda _: None, wait=0, on_event=wait)
    worker.start()
    until(lambda: worker.counters().get("completed"))
    released.set()
    worker.stop()


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_observer_that_raises_is_ignored_from_then_on(
    server: ScriptedServer,
    error: type[BaseException],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lease_broker.events._MAX_WAITING", 0)
    leases(server, "1")

    def observe(_event: Event) -> None:
        raise error("observer")

    worker = Worker(server.address, "work", lambda _: None, wait=0, on_event=observe)
    worker.start()
    until(lambda: worker.counters().get("completed"))
    worker.stop()
    assert caplog.text.count("the observer of events raised an error") == 1


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_on_cancel_that_raises_is_logged(error: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    context, called = Context(), threading.Event()

    def callback() -> None:
        raise error("callback")

    context.on_cancel(callback)
    context.on_cancel(called.set)
    context._cancel("shutdown", 0)
    assert called.wait(60)
    assert caplog.text.count("on_cancel has raised an error") == 1


@pytest.mark.parametrize(("token", "beats"), [(None, 1), ("token", 2)])
def test_heartbeat_that_is_refused_ends_the_worker(token: str | None, beats: int) -> None:
    server = ScriptedServer()
    server.answer("ReleaseClaims", ok(v1.ReleaseClaimsResponse()))
    server.answer("ClaimBatch", *claims(lease("1", 3)))
    server.answer("Heartbeat", error(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED", -1))
    server.answer("Release", release)

    def handler(_item: Item, context: Context) -> None:
        context.cancelled.wait(60)
        context.check()

    worker = Worker(server.address, "work", handler, token=token, wait=0, grace=0)
    worker.start()
    assert worker.wait(60)
    with pytest.raises(LeaseBrokerError, match="Heartbeat: PERMISSION_DENIED"):
        worker.stop()
    server.close()
    assert len(server.requests["Heartbeat"]) >= beats


def test_stop_in_a_handler_is_refused(server: ScriptedServer) -> None:
    leases(server, "1")
    raised: list[BaseException] = []

    def handler(_item: Item) -> None:
        try:
            worker.stop()
        except RuntimeError as error:
            raised.append(error)

    worker = Worker(server.address, "work", handler, wait=0)
    worker.start()
    until(lambda: worker.counters().get("completed"))
    worker.stop()
    assert "use request_stop" in str(raised[0])


def test_run_in_an_event_loop_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="use run_async"):
            Worker("127.0.0.1:1", "work", handle).run()

    asyncio.run(main())


def test_fatal_error_ends_wait_and_stops_the_worker(server: ScriptedServer) -> None:
    server.answer("ClaimBatch", error(grpc.StatusCode.NOT_FOUND, "QUEUE_NOT_FOUND", -1))
    worker = Worker(server.address, "work", lambda _: None)
    worker.start()
    assert worker.wait(60)
    until(lambda: worker.counters().get("stopped"))
    assert not worker.health()
    with pytest.raises(LeaseBrokerError, match="QUEUE_NOT_FOUND"):
        worker.stop()


def test_unexpected_error_of_a_thread_stops_the_worker(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    leases(server, "1")

    def broken(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("lease_broker.state.State.watch", broken)
    worker = Worker(server.address, "work", lambda _: None, wait=0)
    worker.start()
    assert worker.wait(60)
    monkeypatch.undo()
    with pytest.raises(MemoryError):
        worker.stop()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"concurrency": 2.5}, "concurrency is 2.5"),
        ({"batch": "3"}, "batch is 3"),
        ({"worker_id": ""}, "worker_id is empty"),
        ({"lease": 0}, "lease is 0"),
        ({"lease": float("nan")}, "lease is nan"),
        ({"time_limit": "5"}, "time_limit is '5'"),
        ({"wait": float("inf")}, "wait is inf"),
        ({"wait": None}, "wait is None"),
        ({"wait": 61}, "wait is 61"),
        ({"stuck_after": None}, "stuck_after is None"),
        ({"concurrency": None}, "concurrency is None"),
        ({"grace": float("inf")}, "grace is inf"),
        ({"groups": "42"}, "groups is '42'"),
        ({"groups": ["42"] * 101}, "groups has 101 entries"),
    ],
)
def test_option_out_of_its_range_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Worker("127.0.0.1:1", "work", lambda _: None, **options)


def test_odd_grace_of_a_stop_is_refused(server: ScriptedServer) -> None:
    leases(server)
    worker = Worker(server.address, "work", lambda _: None, wait=0)
    worker.start()
    for stop in (worker.stop, worker.request_stop):
        with pytest.raises(ValueError, match="grace is '5'"):
            stop("5")  # type: ignore[arg-type]
    assert not worker.wait(0)
    worker.stop(5)


@pytest.mark.parametrize("queue", ["", None, 5])
def test_queue_without_a_name_is_refused(queue: Any) -> None:
    with pytest.raises(ValueError, match=r"queue is .*; pass its name"):
        Worker("127.0.0.1:1", queue, lambda _: None)


@pytest.mark.parametrize("timeout", [None, -1, "5"])
def test_timeout_that_is_no_duration_is_refused(timeout: Any) -> None:
    with pytest.raises(ValueError, match="timeout is"):
        Client("127.0.0.1:1", timeout=timeout)


def test_timeout_can_be_a_timedelta(server: ScriptedServer) -> None:
    server.answer("Wake", ok(v1.WakeResponse()))
    with Client(server.address, timeout=timedelta(minutes=1)) as client:
        client.wake("work")


def test_absent_address_is_refused() -> None:
    missing: Any = None
    with pytest.raises(ValueError, match="address None: it must be a str or a list of them"):
        Worker(missing, "work", lambda _: None)


async def handle(_item: Item) -> None:
    """Returns immediately."""


@pytest.mark.parametrize(
    ("handler", "middleware", "error"),
    [
        (None, [], "queue mails has no handler"),
        (handle, [], "an async handler needs a running event loop"),
        (lambda _: None, [lambda _handler: None], "a middleware has returned NoneType and not a handler"),
        (lambda _: None, [lambda _handler: handle], "an async middleware needs an async handler"),
        (lambda: None, [], "the handler .*lambda.* cannot be called with an item: too many positional arguments"),
        (lambda _item, *, context: None, [], "cannot be called with an item: missing a required.* argument: 'context'"),
        (lambda _item, _context, _pool: None, [], "cannot be called with an item and a context: missing"),
    ],
)
def test_start_that_raises_has_started_nothing(
    server: ScriptedServer, handler: Any, middleware: Any, error: str
) -> None:
    leases(server, "1")
    threads = set(threading.enumerate())
    worker = Worker(server.address, "work", lambda _: None, wait=0)
    decorate = worker.queue("mails", middleware=middleware)
    if handler is not None:
        decorate(handler)
    with pytest.raises((ValueError, RuntimeError, TypeError), match=error):
        worker.start()
    started = [thread for thread in set(threading.enumerate()) - threads if "lease-broker" in thread.name]
    worker.stop()
    assert not started
    assert not server.requests


@pytest.mark.parametrize(
    ("handler", "seen"),
    [
        (lambda item: [item], ["item"]),
        (lambda item, context: [item, context], ["item", "context"]),
        (lambda item, context=None: [item, context], ["item", "context"]),
        (lambda item, pool="pool": [item, pool], ["item", "pool"]),
        (lambda *both: [*both], ["item", "context"]),
    ],
)
def test_second_parameter_with_a_default_is_the_context_by_its_name(handler: Any, seen: list[str]) -> None:
    context: Any = "context"
    assert wrap(handler, [])("item", context) == seen


class AsyncCall:
    async def __call__(self, _item: Item) -> None:
        """Returns immediately."""


@pytest.mark.parametrize("handler", [handle, AsyncCall()])
def test_middleware_sees_that_a_handler_is_async(handler: Any) -> None:
    seen: list[bool] = []

    def middleware(inner: Any) -> Any:
        seen.append(inspect.iscoroutinefunction(inner))
        return inner

    asyncio.run(wrap(handler, [middleware])(Item("1"), Context()))
    assert seen == [True]


async def await_handler(item: Item, context: Context) -> Any:
    return await call_handler(item, context)


async def call_handler(_item: Item, _context: Context) -> None:
    """Returns immediately."""


@functools.wraps(call_handler)
def decorated(*arguments: Any) -> Any:
    return call_handler(*arguments)


@pytest.mark.parametrize("handler", [call_handler, decorated])
def test_async_middleware_surrounds_an_async_handler(handler: Any) -> None:
    assert wrap(handler, [lambda _handler: await_handler]) is await_handler


def test_name_of_a_file_is_no_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    with pytest.raises(ValueError, match=r"pass pathlib.Path"):
        Client("127.0.0.1:1", token=str(tmp_path / "token"))


def test_rows_of_more_than_three_mib_are_several_calls(server: ScriptedServer) -> None:
    server.answer(
        "Enqueue", lambda request, _: v1.EnqueueResponse(results=[v1.EnqueueResult(key="k")] * len(request.items))
    )
    with Client(server.address) as client:
        assert client.enqueue("work", [{"payload": "x" * 1024 * 1024}] * 5) == ["k"] * 5
    assert [len(request.items) for request in server.requests["Enqueue"]] == [2, 2, 1]


def plain_decorator(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapper


@pytest.mark.parametrize("way", ["start", "run_async"])
def test_async_handler_behind_a_plain_decorator_runs(server: ScriptedServer, way: str) -> None:
    leases(server, "1")
    ran: list[str] = []

    @plain_decorator
    async def handler(item: Item) -> None:
        await asyncio.sleep(0.01)
        ran.append(item.key)

    worker = Worker(server.address, "work", handler, wait=0)
    if way == "start":
        worker.start()
        until(lambda: worker.counters().get("completed"))
    else:

        async def main() -> None:
            task = asyncio.create_task(worker.run_async())
            while not worker.counters().get("completed"):
                await asyncio.sleep(0.01)
            worker.request_stop()
            await task

        asyncio.run(main())
    worker.stop()
    assert ran == ["work-1"]


def test_async_handler_behind_a_plain_decorator_is_cancelled(server: ScriptedServer) -> None:
    leases(server, "1")

    @plain_decorator
    async def handler(_item: Item) -> None:
        await asyncio.sleep(60)

    worker = Worker(server.address, "work", handler, wait=0, time_limit=0.2)
    worker.start()
    until(lambda: worker.counters().get("failed"))
    worker.stop()
    assert server.requests["Fail"][0].failures[0].error_message == "time limit of 0.2 s"


@pytest.mark.parametrize("has_loop", [True, False])
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_awaitable_that_raises_does_not_end_the_loop(
    server: ScriptedServer, error: type[BaseException], has_loop: bool
) -> None:
    leases(server, "1", "2", "3")

    async def work(item: Item) -> None:
        if item.key != "work-3":
            raise error

    worker = Worker(server.address, "work", lambda item: work(item), wait=0)

    def ends() -> bool:
        return sum(worker.counters().get(name, 0) for name in ("completed", "failed")) == 3

    async def main() -> None:
        worker.start()
        await asyncio.to_thread(until, ends)
        await asyncio.to_thread(worker.stop)

    if has_loop:
        asyncio.run(main())
    else:
        worker.start()
        until(ends)
        worker.stop()
    assert (worker.counters()["completed"], worker.counters()["failed"]) == (1, 2)


def test_run_stops_the_worker_if_the_handler_of_a_signal_raises(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases(server)
    worker = Worker(server.address, "work", lambda _: None, wait=0)

    def wait(_timeout: float) -> bool:
        raise TimeoutError

    monkeypatch.setattr(worker, "wait", wait)
    with pytest.raises(TimeoutError):
        worker.run()
    assert worker.counters()["stopped"] == 1


def test_mapping_is_written_into_columns(server: ScriptedServer) -> None:
    leases(server, "1")

    def handler(_item: Item) -> Returned:
        return {"total": 5}

    worker = Worker(server.address, "work", handler, wait=0)
    worker.start()
    until(lambda: worker.counters().get("completed"))
    worker.stop()
    assert server.requests["Complete"][0].completions[0].columns["total"].int64_value == 5


def test_types_of_handlers_are_checked() -> None:
    worker = Worker("127.0.0.1:1", "work")

    # mypy reports an `ignore` that is of no use, so each of them shows an error.
    @worker.handler  # type: ignore[type-var]
    def wrong_result(item: Item) -> int:
        return 1

    @worker.handler  # type: ignore[type-var]
    def wrong_argument(item: int) -> None:
        return

    @worker.handler
    async def right(items: list[Item], context: Context) -> None:
        return


def test_client_for_asyncio_does_not_block_the_loop(server: ScriptedServer) -> None:
    answered = threading.Event()

    def answer(_request: Any, _context: Any) -> v1.EnqueueResponse:
        assert answered.wait(60)
        return v1.EnqueueResponse(results=[v1.EnqueueResult(key="1")])

    server.answer("Enqueue", answer)

    async def main() -> list[str]:
        async with AsyncClient(server.address) as client:
            adding = asyncio.create_task(client.enqueue("work", [{}]))
            while not server.requests["Enqueue"]:
                await asyncio.sleep(0.01)
            answered.set()
            return await adding

    assert asyncio.run(main()) == ["1"]


def test_queues_of_a_worker_share_its_connections(server: ScriptedServer) -> None:
    leases(server, "1")
    peers: set[str] = set()
    claim = server._answers["ClaimBatch"].pop()

    def note_peer(request: Any, context: grpc.ServicerContext) -> Any:
        peers.add(context.peer())
        return claim(request, context)

    server.answer("ClaimBatch", note_peer)
    ran: list[str] = []
    worker = Worker(server.address, "work", lambda item: ran.append(item.key), wait=0)

    @worker.queue("mails", concurrency=4)
    async def send(item: Item) -> None:
        ran.append(item.key)

    def stop() -> None:
        until(lambda: worker.counters().get("completed") == 2)
        worker.request_stop()

    threading.Thread(target=stop).start()
    worker.run()
    assert sorted(ran) == ["mails-1", "work-1"]
    assert len(peers) == 1
    assert worker.counters("mails")["completed"] == 1
    assert worker.counters()["completed"] == 2


def test_middleware_surrounds_the_handler(server: ScriptedServer) -> None:
    leases(server, "1")
    steps: list[str] = []

    def named(name: str) -> Any:
        def middleware(handler: Callable[[Any, Context], Any]) -> Callable[[Any, Context], Any]:
            def wrapper(item: Item, context: Context) -> Any:
                steps.append(f"{name} {item.key}")
                result = handler(item, context)
                steps.append(f"{name} after")
                return result

            return wrapper

        return middleware

    worker = Worker(server.address, "work", lambda _: None, wait=0, middleware=[named("outer"), named("inner")])
    worker.start()
    until(lambda: worker.counters().get("completed"))
    worker.stop()
    assert steps == ["outer work-1", "inner work-1", "inner after", "outer after"]


def test_broker_without_an_answer_is_passed_over(server: ScriptedServer) -> None:
    frozen = ScriptedServer()
    stop = threading.Event()
    frozen.answer("Enqueue", lambda _request, _context: stop.wait(60))
    server.answer("Enqueue", ok(v1.EnqueueResponse(results=[v1.EnqueueResult(key="1")])))
    try:
        connection = transport.Transport([frozen.address, server.address], plaintext())
        caller = Caller(connection)
        for _ in range(6):
            caller.call("Enqueue", v1.EnqueueRequest(queue="work", items=[v1.NewItem()]), attempt_timeout=5)
        connection.close()
    finally:
        stop.set()
        frozen.close()
    assert len(frozen.requests["Enqueue"]) == 1


def test_name_is_resolved_again(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"broker.example": "127.0.0.9"}
    port = server.address.rpartition(":")[2]

    def resolve(host: str, port: int, **_options: Any) -> list[Any]:
        return [(None, None, None, None, (numbers[host], port))]

    monkeypatch.setattr("socket.getaddrinfo", resolve)
    monkeypatch.setattr(transport, "_RESOLVE_INTERVAL", 0.2)
    server.answer("Wake", ok(v1.WakeResponse()))

    def move(_request: Any) -> None:
        numbers["broker.example"] = "127.0.0.1"

    client = Client(f"dns:///broker.example:{port}", credentials=plaintext(allow_plaintext=True), timeout=60)
    threading.Timer(0.5, move, [None]).start()
    client.wake("work")
    client.close()


@pytest.mark.parametrize(("flags", "trace_id"), [("01", 0xAB), ("00", 0)])
def test_handler_runs_in_the_trace_of_a_sampled_lease(server: ScriptedServer, flags: str, trace_id: int) -> None:
    from opentelemetry import trace

    message = lease("1")
    message.trace_parent = f"00-{0xAB:032x}-{1:016x}-{flags}"
    server.answer("ClaimBatch", ok(v1.ClaimBatchResponse(leases=[message])), ok(v1.ClaimBatchResponse()))
    traces: list[int] = []
    worker = Worker(
        server.address, "work", lambda _: traces.append(trace.get_current_span().get_span_context().trace_id), wait=0
    )
    worker.start()
    until(lambda: traces)
    worker.stop()
    assert traces == [trace_id]


class PipeWithoutReader:
    """A standard output that nobody reads."""

    def flush(self) -> None:
        raise BrokenPipeError


@pytest.mark.parametrize("stdout", [None, PipeWithoutReader()])
def test_process_without_an_output_ends_although_handlers_hang(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, stdout: object
) -> None:
    codes: list[int] = []
    monkeypatch.setattr("os._exit", codes.append)
    monkeypatch.setattr("logging.shutdown", lambda: None)
    monkeypatch.setattr("lease_broker.queue_worker.CANCEL_GRACE", 0)
    leases(server, "1")
    released = threading.Event()

    def handler(_item: Item) -> None:
        released.wait(60)

    worker = Worker(server.address, "work", handler, wait=0, grace=0)
    worker.start()
    until(lambda: worker.counters().get("started"))
    monkeypatch.setattr("sys.stdout", stdout)
    worker._stop_or_exit()
    released.set()
    assert codes == [1]


def test_child_of_a_fork_uses_neither_worker_nor_client(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases(server)
    worker, client = Worker(server.address, "work", lambda _item: None, wait=0), Client(server.address)
    worker.start()
    with monkeypatch.context() as child:
        child.setattr("os.getpid", lambda: -1)
        for use in (worker.stop, worker.request_stop, worker.wait, client.close):
            with pytest.raises(RuntimeError, match="the process has forked"):
                use()
    worker.stop()
    client.close()
