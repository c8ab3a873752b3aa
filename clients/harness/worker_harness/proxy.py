"""A TCP proxy between a worker and a broker that can be made to fail.

Modes: `pass_all`, `cut` (closes the present connections), `refuse` (closes the present and all new connections),
`pause` (forwards nothing; when the pause ends everything arrives), `hole` (drops everything; connections that exist
during the hole never recover), `swallow` (drops the Nth answer that carries data and closes its connection), `delay`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

_FRAME_HEADER = 9
_DATA_FRAME = 0


class Proxy:
    """Listens on a loopback port and forwards to `target`."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._changed = threading.Condition()
        self._mode = "pass"
        self._delay = 0.0
        self._answers_until_swallow = 0
        self.swallowed = 0
        """The number of answers that were dropped."""
        self._connections: set[Connection] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def pass_all(self) -> None:
        """Forwards everything."""
        self._set("pass")

    def cut(self) -> None:
        """Closes the present connections."""
        self._set("pass", close=True)

    def refuse(self) -> None:
        """Closes the present connections and each new one."""
        self._set("refuse", close=True)

    def pause(self) -> None:
        """Forwards nothing until the next mode."""
        self._set("pause")

    def hole(self) -> None:
        """Drops everything until the next mode, and everything of the connections of this time afterwards."""
        self._set("hole")

    def swallow(self, number: int = 1) -> None:
        """Drops the Nth answer that carries data, counted from now over all connections, and closes its connection."""
        with self._changed:
            self._answers_until_swallow = number

    def delay(self, seconds: float) -> None:
        """Forwards each piece this much later."""
        self._delay = seconds

    def wait_for_swallowed(self, number: int, seconds: float = 30) -> None:
        """Waits until this many answers were dropped."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.swallowed >= number, seconds):
                raise AssertionError(f"{self.swallowed} answers were dropped after {seconds} s, expected {number}")

    def close(self) -> None:
        """Closes everything."""
        self._set("refuse", close=True)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _set(self, mode: str, close: bool = False) -> None:
        with self._changed:
            self._mode = mode
            for connection in list(self._connections):
                if mode == "hole":
                    connection.dead = True
                if close:
                    connection.close()
            self._changed.notify_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._mode == "refuse":
                client.close()
                continue
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            connection = Connection(client, server, dead=self._mode == "hole")
            with self._changed:
                self._connections.add(connection)
            for way in (self._forward_requests, self._forward_answers):
                threading.Thread(target=way, args=(connection,), daemon=True).start()

    def _forward_requests(self, connection: Connection) -> None:
        self._forward(connection, connection.server, iter_bytes(connection.client))

    def _forward_answers(self, connection: Connection) -> None:
        self._forward(connection, connection.client, self._kept_frames(connection))

    def _kept_frames(self, connection: Connection) -> Iterator[bytes]:
        """Yields the frames of the server's answers up to the one to swallow."""
        for frame in iter_frames(connection.server):
            if frame[3] == _DATA_FRAME and len(frame) > _FRAME_HEADER:
                with self._changed:
                    armed = self._answers_until_swallow > 0
                    self._answers_until_swallow -= 1 if armed else 0
                    if armed and self._answers_until_swallow == 0:
                        self.swallowed += 1
                        self._changed.notify_all()
                        return
            yield frame

    def _forward(self, connection: Connection, to: socket.socket, pieces: Iterator[bytes]) -> None:
        try:
            for piece in pieces:
                with self._changed:
                    self._changed.wait_for(lambda: self._mode != "pause" or connection.closed)
                if self._delay:
                    time.sleep(self._delay)
                if not connection.dead:
                    to.sendall(piece)
        except OSError:
            pass
        finally:
            # The end of a dead connection must not reach the other side either.
            if not connection.dead or connection.closed:
                connection.close()
                with self._changed:
                    self._connections.discard(connection)


class Connection:
    """A connection of a client with its connection to the server."""

    def __init__(self, client: socket.socket, server: socket.socket, dead: bool) -> None:
        self.client = client
        self.server = server
        self.dead = dead
        """True: nothing is forwarded any more."""
        self.closed = False

    def close(self) -> None:
        """Closes both sides."""
        self.closed = True
        for side in (self.client, self.server):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()


def iter_bytes(source: socket.socket) -> Iterator[bytes]:
    """Yields what arrives, until the end."""
    while piece := source.recv(65536):
        yield piece


def iter_frames(source: socket.socket) -> Iterator[bytes]:
    """Yields the HTTP/2 frames that arrive, each with its header, until the end."""
    buffer = b""
    for piece in iter_bytes(source):
        buffer += piece
        while len(buffer) >= _FRAME_HEADER:
            size = _FRAME_HEADER + int.from_bytes(buffer[:3], "big")
            if len(buffer) < size:
                break
            yield buffer[:size]
            buffer = buffer[size:]
