"""Lets `mlagents_envs` run with protobuf 4 and NumPy 1.26, without Python's slow protobuf 3.

Its generated messages build descriptors by hand, which protobuf refuses since 4.0. They contain
each file's serialized descriptor, too, from which protobuf's builder makes the same classes.
"""

import ast
import importlib
import importlib.abc
import importlib.util
import pathlib
import sys

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.internal import builder

MESSAGES = "mlagents_envs.communicator_objects."
ALIASES = {"bool": bool, "float": float, "int": int, "object": object}  # NumPy has them no more


def prepare() -> None:
    """Call it before the first import of `mlagents_envs`."""
    for name, value in ALIASES.items():
        if name not in vars(np):
            setattr(np, name, value)
    sys.meta_path.insert(0, Messages())


class Messages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the modules of messages."""

    def find_spec(self, fullname, path, target=None):
        """Finds the modules of messages alone."""
        if not (fullname.startswith(MESSAGES) and fullname.endswith("_pb2")):
            return None
        file = pathlib.Path(path[0], fullname.removeprefix(MESSAGES) + ".py")
        return importlib.util.spec_from_file_location(fullname, file, loader=self)

    def exec_module(self, module):
        """Makes the classes of a module."""
        code = ast.parse(pathlib.Path(module.__spec__.origin).read_text())
        (value,) = (node.value for node in ast.walk(code)
                    if isinstance(node, ast.keyword) and node.arg == "serialized_pb")  # fmt: skip
        constant = value.args[0] if isinstance(value, ast.Call) else value  # _b("...")
        data = constant.value
        data = data.encode("latin1") if isinstance(data, str) else data
        for needed in descriptor_pb2.FileDescriptorProto.FromString(data).dependency:
            name = needed.removesuffix(".proto").replace("/", ".") + "_pb2"
            importlib.import_module(name)
        file = descriptor_pool.Default().AddSerializedFile(data)
        builder.BuildMessageAndEnumDescriptors(file, vars(module))
        builder.BuildTopDescriptorsAndMessages(file, module.__name__, vars(module))
