"""How pytest runs the notebooks' kernels: quietly, and over sockets of their own."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from pathlib import Path

import nbval.kernel
import pytest
from traitlets import default

# TensorFlow's start-up lines carry times and process ids; both settings are needed to
# silence them. The second also keeps sums in one order, whatever the number of threads.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

if os.name == "posix":
    SOCKETS = tempfile.TemporaryDirectory(prefix="kernels-")

    class SocketKernelManager(nbval.kernel.KernelManager):
        """Kernels that are started at once over TCP can pick the same port, and one of them
        then never answers (jupyter_client issue 487). Unix sockets cannot collide."""

        @default("transport")
        def _transport(self) -> str:
            return "ipc"

        @default("ip")
        def _ip(self) -> str:
            return str(Path(SOCKETS.name) / uuid.uuid4().hex[:12])

    nbval.kernel.KernelManager = SocketKernelManager


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with a reason, what this machine cannot run."""
    if shutil.which("g++"):
        return
    skip = pytest.mark.skip(reason="needs a C++ compiler: there is no g++ here")
    for item in items:
        cell = getattr(item, "cell", None)  # nbval's items have one
        if cell and "needs-compiler" in cell.metadata.get("tags", []):
            item.add_marker(skip)
