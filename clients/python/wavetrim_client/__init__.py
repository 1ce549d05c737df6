"""A client of wavetrim, the service that multiplies matrices on the GPU and the CPU at once.

    from wavetrim_client import Client

    with Client("http://127.0.0.1:8000") as client:
        c = client.matmul(a, b)

In the order of the data's way: `client` and `async_client` are the two faces of one `session`
(`opening`), whose calls are written once; `products` are those in one call, with `options`, in
`leases/` where the service is on this host, `jobs` those for later. `matrices/` says what is sent
and received, `wire/` how, and when again. `records`, `job` (with its bar of `progress`), `details`
and `errors` are what comes back.
"""

from .async_client import AsyncClient
from .client import Client
from .details import Details
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
from .job import AsyncJob, Job
from .options import Accuracy, PlanOptions, ProductOptions
from .records import Health, JobStatus, Matrix
from .version import __version__

__all__ = [
    "Accuracy",
    "AsyncClient",
    "AsyncJob",
    "Client",
    "ClientError",
    "Details",
    "DownloadCorrupted",
    "Health",
    "Job",
    "JobStatus",
    "JobUnsuccessful",
    "Matrix",
    "NotFound",
    "PlanOptions",
    "ProductOptions",
    "ServiceBusy",
    "ServiceRefused",
    "ServiceTimeout",
    "ServiceUnreachable",
    "Unauthorized",
    "WaitTimeout",
    "__version__",
]
