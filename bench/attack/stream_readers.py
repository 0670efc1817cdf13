# SPDX-License-Identifier: Apache-2.0
"""Thousands of streams read at once, as cheaply as Python can: in processes of their own, bytes counted, not parsed."""
import concurrent.futures
import dataclasses
import multiprocessing
import select
import socket
import time

import client

NUM_READERS = 2
PATIENCE = 60  # seconds without a byte of any stream
TOKEN, END, ERROR = b'"content":"', b"data: [DONE]\n\n", b'{"error"'


@dataclasses.dataclass
class Stream:
    socket: socket.socket
    tail: bytes = b""
    last: float = 0.0
    num_tokens: int = 0
    status_line: bytes = b""
    has_failed: bool = False
    has_ended: bool = False
    gaps: list = dataclasses.field(default_factory=list)  # seconds between reads that brought tokens

    def add(self, data, now):
        text = self.tail + data
        # The first 32 bytes were looked at before: a word may be split over two reads, never counted twice.
        num_tokens = text.count(TOKEN) - self.tail.count(TOKEN)
        if num_tokens and self.last:
            self.gaps.append(now - self.last)
        self.last = now if num_tokens else self.last
        self.num_tokens += num_tokens
        self.status_line = self.status_line or data.split(b"\r\n")[0]
        self.has_failed |= ERROR in text
        self.has_ended = END in text
        self.tail = text[-32:]

    def problem(self):
        if self.has_ended and not self.has_failed:
            return None
        return f"{self.status_line.decode()}: {self.num_tokens} tokens, and behind them {self.tail}"


def read_streams(port, num_streams, num_tokens):
    """Of each stream: what is wrong with it, if anything, and its gaps."""
    context = multiprocessing.get_context("fork")
    share = -(-num_streams // NUM_READERS)
    starts = range(0, num_streams, share)
    with concurrent.futures.ProcessPoolExecutor(NUM_READERS, mp_context=context) as pool:
        parts = [pool.submit(read_share, port, range(first, min(first + share, num_streams)), num_tokens)
                 for first in starts]
        return [stream for part in parts for stream in part.result()]


def read_share(port, numbers, num_tokens):
    poller, streams = select.epoll(), {}
    for number in numbers:
        stream = Stream(socket.create_connection(("127.0.0.1", port)))
        body = client.chat(f"Count from {number} to 1000.", num_tokens, stream=True, ignore_eos=True)
        stream.socket.sendall(client.request_bytes("POST", "/v1/chat/completions", body, ["Connection: close"]))
        streams[stream.socket.fileno()] = stream
        poller.register(stream.socket, select.EPOLLIN)
    open_streams = dict(streams)
    while open_streams and (ready := poller.poll(PATIENCE)):
        for descriptor, _ in ready:
            stream = open_streams[descriptor]
            if data := received(stream.socket):
                stream.add(data, time.perf_counter())
            else:
                poller.unregister(descriptor)
                del open_streams[descriptor]
    for stream in streams.values():
        stream.socket.close()
    return [(stream.problem(), stream.gaps) for stream in streams.values()]


def received(connection):
    try:
        return connection.recv(1 << 16)
    except OSError:
        return b""
