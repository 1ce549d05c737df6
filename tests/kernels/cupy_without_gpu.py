"""A CuPy for processes that tests start: it lists GPUs, or says why there are none."""

UUIDS = ("0a1b2c3d-0000-0000-0000-000000000000", "0a9f0000-1111-2222-3333-444455556666")

_RUNTIME = """
class CUDARuntimeError(RuntimeError):
    status = {status}
UUIDS = {uuids}
def getDeviceCount():
    if not UUIDS:
        raise CUDARuntimeError({message!r})
    return len(UUIDS)
def getDeviceProperties(index):
    return dict(name=b"GPU", uuid=bytes.fromhex(UUIDS[index].replace("-", "")), major=9, minor=0,
        multiProcessorCount=100, totalGlobalMem=2**34)
def driverGetVersion(): return 13000
runtimeGetVersion = driverGetVersion
def deviceGetAttribute(attribute, index): return 10**6
"""


def write_cupy(folder, *, uuids=(), status=100, message=""):
    """Write the package into a folder, with these GPUs or an error; returns it as a PYTHONPATH."""
    (folder / "cupy" / "cuda").mkdir(parents=True)
    (folder / "cupy" / "__init__.py").touch()
    (folder / "cupy" / "cuda" / "__init__.py").touch()
    text = _RUNTIME.format(status=status, uuids=uuids, message=message)
    (folder / "cupy" / "cuda" / "runtime.py").write_text(text)
    return str(folder)
