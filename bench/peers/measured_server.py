# SPDX-License-Identifier: Apache-2.0
"""`troupe serve` beside a peer on the same GPU: its memory bounded, its products chosen by measurement."""
import contextlib
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from live_server import Server  # noqa: E402


@contextlib.contextmanager
def measured_server(troupe, model, options, memory, ready_seconds=180, library_path=None):
    """A live server with at most `memory` of the GPU ("8GiB"; 0: all that is free).

    It measures its products at its start, which needs a directory to keep them in. Nothing else is kept there: pages on a
    disk would be another server than the one that is compared.
    """
    with tempfile.TemporaryDirectory() as store:
        options = [*options, "--memory", memory, "--store-directory", store, "--cache-disk-space", "0",
                   "--weights-disk-space", "0"]
        with Server(troupe, options, model, ready_seconds=ready_seconds, library_path=library_path) as server:
            server.store = pathlib.Path(store)
            yield server
