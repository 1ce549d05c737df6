"""A client of wavetrim, the service that multiplies matrices on the GPU and the CPU at once.

    from wavetrim_client import Client

    with Client("http://127.0.0.1:8000") as client:
        c = client.matmul(a, b)

In the order of the data's way:

- `client` joins the calls of `products`, `jobs` and `matrices/stored` to one class, which `opening`
  opens. `async_client` runs the same calls in `threads`.
- `products` multiplies in one call, in shared memory (`leases/`) if the service is on this host;
  `jobs` posts products for later. `options` says how a product is computed.
- `matrices/` says what is sent and received, `wire/` how, and when a request is repeated.
- `records`, `job` (with its `progress` bar), `details` and `errors` are what comes back.
"""

from .async_client import AsyncClient, AsyncJob
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
from .job import Job
from .options import Accuracy, PlanOptions, PlanQuestion, ProductOptions
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
    "PlanQuestion",
    "ProductOptions",
    "ServiceBusy",
    "ServiceRefused",
    "ServiceTimeout",
    "ServiceUnreachable",
    "Unauthorized",
    "WaitTimeout",
    "__version__",
]
