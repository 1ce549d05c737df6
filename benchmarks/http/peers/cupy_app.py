"""A peer: twenty lines of FastAPI and CuPy, as a user with a GPU would write them.

`uvicorn benchmarks.http.peers.cupy_app:app` serves it.
"""

import io

import cupy
import numpy as np
from fastapi import FastAPI, Request, Response

app = FastAPI()


@app.post("/matmul")
async def multiply(request: Request) -> Response:
    """Two .npy files in, their product, computed on the GPU, out."""
    body = io.BytesIO(await request.body())
    try:
        a, b = (np.load(body, allow_pickle=False) for _ in "ab")
    except (ValueError, EOFError) as error:
        return Response(f"no two .npy files: {error}", status_code=422)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        return Response(f"{a.shape} times {b.shape}", status_code=422)
    product = cupy.asnumpy(cupy.asarray(a) @ cupy.asarray(b))
    answer = io.BytesIO()
    np.save(answer, product)
    return Response(answer.getvalue(), media_type="application/x-npy")
