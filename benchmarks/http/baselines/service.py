"""The service, as the benchmark starts it."""

from benchmarks.http.baselines.baseline import Setup
from benchmarks.http.baselines.server_process import ServerAbsent, ServerProcess, Started
from deploy.readiness import find_free_port


class Service:
    """The service, started once for all of its baselines."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._process: ServerProcess | None = None
        self._refusal: str | None = None
        self.port = 0
        self.unix = setup.folder / "wavetrim.sock"

    @property
    def pid(self) -> int:
        """The id of the service's process."""
        assert self._process is not None, "it was started"
        return self._process.pid

    def start(self) -> None:
        """Start it, unless it runs.

        Raises:
            ServerAbsent: It does not become ready.
        """
        if self._refusal is not None:
            raise ServerAbsent(self._refusal)
        if self._process is not None:
            return
        folder, self.port = self._setup.folder, find_free_port()
        command = ["serve", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--data-dir", str(folder / "data")]
        self._process = ServerProcess(
            folder / "service.log",
            "wavetrim",
            *command,
            environment={
                "WAVETRIM_UNIX_SOCKET": str(self.unix),
                "WAVETRIM_PROFILE_DIR": str(self._setup.profiles),
                "WAVETRIM_KERNEL_CACHE_DIR": str(self._setup.kernels),
                "WAVETRIM_API_KEY": None,
                "WAVETRIM_DATABASE_URL": None,
            },
        )
        try:
            self._process.wait_answering(self.port, "/healthz/ready")
        except ServerAbsent as error:
            self._refusal = str(error)
            raise

    def start_tcp(self) -> Started:
        """Start it, and return where it listens on TCP."""
        self.start()
        return ("127.0.0.1", self.port), self.stop

    def start_unix(self) -> Started:
        """Start it, and return its Unix socket."""
        self.start()
        if not self.unix.is_socket():
            raise ServerAbsent("the service made no Unix socket")
        return str(self.unix), self.stop

    def stop(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self._process.stop()
            self._process = None
