"""A GPU that computes in host memory, for tests on a machine without any."""

import threading
import time
from functools import partial

from wavetrim.kernels.errors import DeviceFailure, PipelineCancelled
from wavetrim.kernels.pipeline.host_product import GpuTimings
from wavetrim.kernels.pipeline.resident_cache import Resident, ResidentCache


class NoStraightWay:
    """Leaves all products to `multiply`."""

    def find(self, *_):
        return self

    def run(self, *_):
        return False


class HostPipeline:
    """Multiplies in host memory, panel by panel; is called as `GpuPipeline` is.

    A resident operand is a copy of it, with which it multiplies.

    Attributes:
        fails: Whether each product and each fetch of an operand fails.
        row_seconds: Seconds that each row of C takes.
        gate: An event that each product waits for; None not to wait.
        runs: How many products have begun.
        submits: Whether products can be enqueued at once, by a `HostTeam`.
    """

    panel_rows = 128
    fails = False
    row_seconds = 0.0
    gate = None
    runs = 0
    resident_bytes = 0
    submits = False
    path = None
    straight = NoStraightWay()

    def __init__(self, index=0, **_):
        self.index = self.device_index = index
        self.rows = 0
        self.residents = ResidentCache(limit_bytes=self.resident_bytes)
        self.lock = threading.Lock()

    def keep(self, key, b):
        if self.fails:
            raise DeviceFailure("the GPU is lost")
        if b.nbytes > self.residents.limit_bytes:
            return False
        self.residents.shrink(self.residents.limit_bytes - b.nbytes)
        self.residents.add(key, Resident(None, b.nbytes, b.copy()))
        return True

    def multiply(self, product, cut):
        a, b, c, alpha, beta = product.a, product.b, product.c, product.alpha, product.beta
        progress, final, cancelled, begun = product.hooks
        if product.resident_b is not None:
            b = product.resident_b.memory
        if begun is not None:
            begun()
        self.runs += 1
        if self.gate is not None:
            self.gate.wait(30)
        if self.fails:
            raise DeviceFailure("the GPU is lost")
        self.rows = 0
        for start in range(0, c.shape[0], self.panel_rows):
            rows = range(start, min(start + self.panel_rows, c.shape[0]))
            if cancelled is not None and cancelled():
                raise PipelineCancelled("cancelled")
            time.sleep(self.row_seconds * len(rows))
            part = slice(rows.start, rows.stop)
            c[part] = alpha * (a[part] @ b) + (beta * c[part] if beta else 0)
            self.rows += len(rows)
            if progress is not None:
                progress(len(rows))
            if final is not None:
                final(range(rows.stop))
        return GpuTimings(0.5, 0.25, 0.75)

    def load(self, spec, *, sms=None):
        pass

    def close(self):
        pass


class HostTeam:
    """Takes the place of `Team`: the parts are computed while they are awaited."""

    def __init__(self, parts, *, exchanges):
        assert not exchanges
        self.parts = parts

    def enqueue(self, product, *, b_key=None, hooks=()):
        if not all(part.pipeline.submits for part in self.parts):
            return None
        return partial(self.compute, product, b_key, hooks or [product.hooks] * len(self.parts))

    def compute(self, product, b_key, hooks):
        return [
            part.pipeline.multiply(
                part.take_from(product)._replace(
                    resident_b=part.pipeline.residents.use(b_key), hooks=each
                ),
                part.cut,
            )
            for part, each in zip(self.parts, hooks, strict=True)
        ]
