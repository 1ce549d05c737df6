"""A client of wavetrim, the service that multiplies matrices on the GPU and the CPU at once.

    from wavetrim_client import Client

    with Client("http://127.0.0.1:8000") as client:
        c = client.matmul(a, b)

In the order of the data's way:

- `client` multiplies in one call, in shared memory (`leases`) if the service is on this host. Its
  bases are `jobs`, which posts products for later, and `stored`, the matrices that stay.
  `async_client` runs the same calls in threads. `options` says how a product is computed.
- `arrays` reads what a caller gives, `npy` says how it is sent, `downloads` receives it; `wire/`
  carries it, and repeats a request that may be repeated.
- `records`, `job` and `errors` are what comes back.
"""

from .async_client import AsyncClient, AsyncJob
from .client import Client, __version__
from .errors import (
    ClientError,
    DownloadCorrupted,
    JobUnsuccessful,
    NotFound,
    ServiceBusy,
    ServiceRefused,
    ServiceTimeout,
    ServiceUnreachable,
    Unauthorized,
    WaitTimeout,
)
from .job import Job, as_completed
from .options import (
    Accuracy,
    JobOptions,
    MatmulOptions,
    PlanOptions,
    PlanQuestion,
    ProductOptions,
)
from .records import Details, Expected, Health, JobStatus, Matrix

__all__ = [
    "Accuracy",
    "AsyncClient",
    "AsyncJob",
    "Client",
    "ClientError",
    "Details",
    "DownloadCorrupted",
    "Expected",
    "Health",
    "Job",
    "JobOptions",
    "JobStatus",
    "JobUnsuccessful",
    "MatmulOptions",
    "Matrix",
    "NotFound",
    "PlanOptions",
    "PlanQuestion",
    "ProductOptions",
    "ServiceBusy",
    "ServiceRefused",
    "ServiceTimeout",
    "ServiceUnreachable",
    "Unauthorized",
    "WaitTimeout",
    "__version__",
    "as_completed",
]
