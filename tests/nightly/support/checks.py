# SPDX-License-Identifier: Apache-2.0
"""What a nightly part has checked, printed as it goes."""
import contextlib


class Checks:
    def __init__(self):
        self.is_good = True

    def __call__(self, condition, what):
        print(("ok      " if condition else "WRONG   ") + what, flush=True)
        self.is_good &= bool(condition)

    @contextlib.contextmanager
    def refused(self, kind, what):
        """The block raises an exception of this class whose text says `what`."""
        try:
            yield
        except kind as error:
            self(what in str(error), f"{kind.__name__}: {str(error)[:160]}")
        else:
            self(False, f"{kind.__name__} that says {what!r}, and not a success")
