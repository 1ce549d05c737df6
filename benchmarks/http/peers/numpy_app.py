"""A peer: eight lines of FastAPI and NumPy, as a user would write them.

`uvicorn benchmarks.http.peers.numpy_app:app` serves it.
"""

import io

import numpy as np
from fastapi import FastAPI, Request, Response

app = FastAPI()


@app.post("/matmul")
async def multiply(request: Request) -> Response:
    """Two .npy files in, their product out."""
    body = io.BytesIO(await request.body())
    a, b = np.load(body), np.load(body)
    answer = io.BytesIO()
    np.save(answer, a @ b)
    return Response(answer.getvalue(), media_type="application/x-npy")
