"""Matrices that tests store without a service: drafts in mapped files, as with a full arena."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sqlalchemy import insert

from wavetrim.service.storage.database.tables import matrices
from wavetrim.service.storage.matrices.draft import begin_draft as begin
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.npy import Layout


def open_store(database, folder, **limits):
    """A store in a folder's `matrices`, with room for all, unless its limits say otherwise."""
    room = {"max_matrix_bytes": 2**40, "max_storage_bytes": 2**40, **limits}
    return MatrixStore(database, folder / "matrices", **room)


def add_row(connection, matrix_id, size_bytes=129):
    """Add the row of a matrix."""
    added = insert(matrices).values(
        id=matrix_id, rows=1, columns=1, dtype="int8", fortran_order=False,
        offset_bytes=128, size_bytes=size_bytes, created_at=0.0,
    )  # fmt: skip
    connection.execute(added)


def begin_draft(store, rows, columns, dtype="float32", *, owner=""):
    """A draft of zeros."""
    matrix = store.describe(Layout(rows, columns, dtype), owner=owner)
    return run(begin(store, matrix))


def keep_matrix(store, rows, columns, dtype="float32", *, owner="", settle=None):
    """Store a matrix of zeros."""
    matrix, _ = run(begin_draft(store, rows, columns, dtype, owner=owner).publish(settle=settle))
    return matrix


def keep_array(store, array):
    """Store an array."""
    draft = begin_draft(store, *array.shape, str(array.dtype))
    elements = np.frombuffer(draft.view, array.dtype, offset=draft.matrix.offset_bytes)
    elements[:] = array.ravel()
    del elements
    matrix, _ = run(draft.publish())
    return matrix


def run(work):
    """Run in a thread of its own: the caller's may have an event loop that runs."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
