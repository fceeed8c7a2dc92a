"""A proxy between the clients of a server on loopback and the server, for what is not HTTP."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

HOST = "127.0.0.1"


class TcpProxy:
    """Passes everything on. A subclass sees it first: `asked` what a client sends, and `answered` what the server does.
    `mark`: an event that each connection has of its own, for both of them."""

    def __init__(self, server: int) -> None:
        self._server = server
        self._socket = socket.create_server((HOST, 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def asked(self, data: bytes, mark: threading.Event) -> None:
        """The server gets this next."""

    def answered(self, data: bytes, mark: threading.Event) -> bool:
        """Whether the client gets this. If not, its connection breaks."""
        return True

    def close(self) -> None:
        self._socket.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                server, mark = socket.create_connection((HOST, self._server)), threading.Event()
                for work in (self._from_client, self._from_server):
                    threading.Thread(target=work, args=(client, server, mark), daemon=True).start()

    def _from_client(self, client: socket.socket, server: socket.socket, mark: threading.Event) -> None:
        with suppress(OSError), server:
            while data := client.recv(1 << 16):
                self.asked(data, mark)
                server.sendall(data)

    def _from_server(self, client: socket.socket, server: socket.socket, mark: threading.Event) -> None:
        with suppress(OSError), client:
            while data := server.recv(1 << 16):
                if not self.answered(data, mark):
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)
