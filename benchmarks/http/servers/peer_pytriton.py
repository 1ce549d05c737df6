"""A peer: the same product served by NVIDIA's Triton, written with PyTriton.

`python -m benchmarks.http.servers.peer_pytriton --port 8000` serves models `matmul_float32` and
`matmul_float64`, whose inputs are A and B and whose output is C; on the GPU if CuPy finds one.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

Matrices = dict[str, Any]


def choose_product() -> Callable[[Any, Any], Any]:
    """A product by CuPy, or by NumPy without a GPU."""
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception:
        return np.matmul
    return lambda a, b: cupy.asnumpy(cupy.asarray(a) @ cupy.asarray(b))


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    port: int = parser.parse_args().port
    product = choose_product()

    def multiply(requests: Sequence[Matrices]) -> list[Matrices]:
        return [{"C": product(request["A"], request["B"])} for request in requests]

    config = TritonConfig(http_address="127.0.0.1", http_port=port, allow_grpc=False,
                          allow_metrics=False, log_verbose=0)  # fmt: skip
    with Triton(config=config) as triton:
        for dtype in (np.float32, np.float64):
            triton.bind(
                model_name=f"matmul_{np.dtype(dtype).name}",
                infer_func=multiply,
                inputs=[Tensor(name=name, dtype=dtype, shape=(-1, -1)) for name in "AB"],
                outputs=[Tensor(name="C", dtype=dtype, shape=(-1, -1))],
                config=ModelConfig(batching=False),
            )
        triton.serve()


if __name__ == "__main__":
    main()
