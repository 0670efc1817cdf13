# SPDX-License-Identifier: Apache-2.0
"""Requests and kills of one server: kills come while no request is under way."""
import contextlib
import threading


class Gate:
    """Requests pass side by side; a kill is alone. While one waits for those inside to end, others wait for it: else a
    kill among many agents would come when they are done."""

    def __init__(self, server, num_kills, every):
        self.server, self.kills_left, self.every = server, num_kills, every
        self.condition, self.num_inside, self.num_passed = threading.Condition(), 0, 0
        self.is_killing = False

    @contextlib.contextmanager
    def passed(self):
        with self.condition:
            self.condition.wait_for(lambda: not self.is_killing)
            self.num_passed += 1
            if self.kills_left and self.num_passed % self.every == 0:
                self.kill()
            self.num_inside += 1
        try:
            yield
        finally:
            with self.condition:
                self.num_inside -= 1
                self.condition.notify_all()

    def kill(self):
        self.kills_left -= 1
        self.is_killing = True
        try:
            self.condition.wait_for(lambda: self.num_inside == 0)
            self.server.kill_and_start_again()
        finally:
            self.is_killing = False
            self.condition.notify_all()
