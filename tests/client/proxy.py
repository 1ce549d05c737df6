"""A proxy between client and service, which loses answers or holds them back."""

import contextlib
import socket
import threading


class Proxy:
    """A proxy of a service, on another port or Unix socket.

    Args:
        service: The service's port, or its Unix socket.
        line: How the requests begin whose answers are lost or held back.
        lose: How many of these answers are lost: the connection breaks.
        hold: Whether one that is not lost is held back.
        head_first: Whether its head is passed on at once.

    Attributes:
        url: Its address.
        lost: Status of each answer that was lost.
        holds: Set once an answer is held back.
        released: Set by the test: the answer is passed on.
    """

    def __init__(self, service, line, *, lose, hold, head_first):
        self._service, self._line = service, line
        self._lose, self._hold, self._head_first = lose, hold, head_first
        self.lost: list[int] = []
        self.holds = threading.Event()
        self.released = threading.Event()
        if isinstance(service, int):
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        else:
            path = service.with_name(f"{service.name}.proxy")
            path.unlink(missing_ok=True)
            self.listener = socket.create_server(str(path), family=socket.AF_UNIX)
            self.url = f"unix:{path}"

    def run(self):
        """Serve connections until the listener is shut down."""
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self.listener.accept()[0],)).start()

    def _serve(self, caller):
        asked = threading.Event()
        with caller, self._connect() as far:
            asking = threading.Thread(target=self._pass_requests, args=(caller, far, asked))
            asking.start()
            with contextlib.suppress(OSError):
                self._pass_answers(caller, far, asked)
            with contextlib.suppress(OSError):
                caller.shutdown(socket.SHUT_RDWR)
            asking.join()

    def _connect(self):
        if isinstance(self._service, int):
            return socket.create_connection(("127.0.0.1", self._service))
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self._service))
        return connection

    def _pass_requests(self, caller, far, asked):
        with contextlib.suppress(OSError):
            while piece := caller.recv(65536):
                if piece.startswith(self._line):
                    asked.set()
                far.sendall(piece)
            far.shutdown(socket.SHUT_RDWR)

    def _pass_answers(self, caller, far, asked):
        while piece := far.recv(65536):
            if asked.is_set():
                asked.clear()
                if len(self.lost) < self._lose:
                    self.lost.append(int(piece.split()[1]))
                    return
                if self._hold:
                    if self._head_first:
                        head, end, piece = piece.partition(b"\r\n\r\n")
                        caller.sendall(head + end)
                    self.holds.set()
                    self.released.wait()
            caller.sendall(piece)


@contextlib.contextmanager
def run_proxy(service, line, *, lose=0, hold=False, head_first=False):
    """Run a `Proxy` until the block ends."""
    proxy = Proxy(service, line, lose=lose, hold=hold, head_first=head_first)
    thread = threading.Thread(target=proxy.run)
    with proxy.listener:
        thread.start()
        try:
            yield proxy
        finally:
            proxy.released.set()
            proxy.listener.shutdown(socket.SHUT_RDWR)
            thread.join()
