"""Classes of the protocol's messages, from `protocol.binpb`, which `make protocol` makes.

They are in a pool of their own, as the public client has messages of the same names in the default
pool.
"""

from functools import cache
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from wavetrim.service.errors import FieldProblem

PACKAGE: Final = "inference"
SERVICE: Final = f"{PACKAGE}.GRPCInferenceService"

_FILE: Final = Path(__file__).with_name("protocol.binpb")


@cache
def find_message(name: str) -> Any:
    """The class of a message, by its name without the package."""
    return message_factory.GetMessageClass(read_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


def parse_message(name: str, content: bytes) -> Any:
    """A message of this name.

    Raises:
        FieldProblem: The bytes are not such a message.
    """
    try:
        return find_message(name).FromString(content)
    except DecodeError as error:
        raise FieldProblem("message", f"{len(content)} bytes", f"a {PACKAGE}.{name}") from error


@cache
def read_pool() -> descriptor_pool.DescriptorPool:
    """The pool of all messages in `protocol.proto`."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(_FILE.read_bytes()).file:
        pool.Add(file)
    return pool
