"""The service, as the benchmark starts it."""

from benchmarks.http.baselines.baseline import Setup
from benchmarks.http.baselines.server_process import (
    ServerAbsent,
    ServerProcess,
    SharedServer,
    Started,
)


class Service(SharedServer):
    """The service, which also listens on a Unix socket."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(self._launch_service, "/healthz/ready")
        self._setup = setup
        self.unix = setup.folder / "wavetrim.sock"

    def start_unix(self) -> Started:
        """Start it, unless it runs, and return its Unix socket."""
        self.start()
        if not self.unix.is_socket():
            raise ServerAbsent("the service made no Unix socket")
        return str(self.unix), self.stop

    def _launch_service(self, port: int) -> ServerProcess:
        folder = self._setup.folder
        return ServerProcess(
            folder / "service.log",
            "wavetrim",
            *("serve", "--host", "127.0.0.1", "--port", str(port)),
            *("--data-dir", str(folder / "data")),
            environment={
                "WAVETRIM_UNIX_SOCKET": str(self.unix),
                "WAVETRIM_PROFILE_DIR": str(self._setup.profiles),
                "WAVETRIM_KERNEL_CACHE_DIR": str(self._setup.kernels),
                "WAVETRIM_API_KEY": None,
                "WAVETRIM_DATABASE_URL": None,
            },
        )
