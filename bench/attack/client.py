# SPDX-License-Identifier: Apache-2.0
"""An HTTP/1.1 client that shows bytes and times and can leave badly: raw asyncio sockets."""
import asyncio
import contextlib
import dataclasses
import json
import socket
import struct
import time


class BadAnswer(Exception):
    """Bytes that are no well-formed HTTP answer, or a part of one."""


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict  # names in lower case
    body: bytes = b""

    def json(self):
        return json.loads(self.body)


def request_bytes(method, path, body=None, headers=(), host="127.0.0.1"):
    """`body`: bytes, or what becomes JSON; `headers`: complete lines."""
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body, ensure_ascii=False).encode()
    lines = [f"{method} {path} HTTP/1.1", *([f"Host: {host}"] if host is not None else []), *headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


def parse_head(head):
    lines = head.decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
        raise BadAnswer(f"status line {lines[0][:60]!r}")
    pairs = (line.partition(":") for line in lines[1:] if line)
    return Answer(int(rest[:3]), {name.lower(): value.strip() for name, _, value in pairs})


def key_line(key):
    return f"Authorization: Bearer {key}"


class Connection:
    """One connection, used again until the server closes it."""

    @classmethod
    async def open(cls, port, receive_buffer=None):
        connection = cls()
        raw = socket.socket()
        if receive_buffer:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        raw.setblocking(False)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
        connection.raw = raw
        connection.reader, connection.writer = await asyncio.open_connection(sock=raw, limit=1 << 20)
        return connection

    async def request(self, method, path, body=None, headers=(), host="127.0.0.1"):
        """The whole answer."""
        await self.send(request_bytes(method, path, body, headers, host))
        return await self.answer(method)

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, method="POST"):
        answer = await self.head()
        answer.body = b"".join([piece async for piece in self.pieces(answer, method)])
        return answer

    async def head(self):
        while True:
            try:
                answer = parse_head(await self.reader.readuntil(b"\r\n\r\n"))
            except asyncio.IncompleteReadError as error:
                raise BadAnswer(f"ended in the header: {error.partial[:60]!r}") from None
            if answer.status != 100:
                return answer

    async def pieces(self, answer, method="POST"):
        """The body as it comes: chunks, or all at once."""
        if method == "HEAD" or answer.status == 204:
            return
        try:
            if answer.headers.get("transfer-encoding") != "chunked":
                yield await self.reader.readexactly(int(answer.headers["content-length"]))
                return
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                yield (await self.reader.readexactly(size + 2))[:-2]
            if await self.reader.readexactly(2) != b"\r\n":
                raise BadAnswer("after the last chunk")
        except (asyncio.IncompleteReadError, KeyError, ValueError) as error:
            raise BadAnswer(f"body: {error!r}") from None

    async def events(self, answer):
        """Pairs of the time and the text of each event; the text is "[DONE]" or JSON."""
        rest = b""
        async for piece in self.pieces(answer):
            now = time.perf_counter()
            *complete, rest = (rest + piece).split(b"\n\n")
            for event in complete:
                if data := [line[6:] for line in event.split(b"\n") if line.startswith(b"data: ")]:
                    yield now, data[0].decode()

    async def read_for(self, seconds, size):
        """Reads so many bytes, or until the time is up or the server has closed."""
        with contextlib.suppress(asyncio.TimeoutError, asyncio.IncompleteReadError, OSError):
            await asyncio.wait_for(self.reader.readexactly(size), seconds)

    def close(self):
        self.writer.close()

    def reset(self):
        """Leaves with RST instead of FIN."""
        self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


async def ask(port, method, path, body=None, headers=(), host="127.0.0.1", limit=30):
    """One answer over a connection of its own."""
    connection = await Connection.open(port)
    try:
        return await asyncio.wait_for(connection.request(method, path, body, headers, host), limit)
    finally:
        connection.close()


def is_complete(payloads):
    """Whether the events of a stream end as one that ran to its end."""
    if not payloads:
        return False
    if payloads[-1] == "[DONE]":
        return all(not payload.startswith('{"error"') for payload in payloads)
    return json.loads(payloads[-1]).get("type") in ("response.completed", "response.incomplete", "message_stop")


def text_of(payloads):
    """The text that a stream of chat events has brought."""
    choices = (choice for payload in payloads if payload != "[DONE]"
               for choice in json.loads(payload).get("choices", ()))
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def chat(content, max_tokens=None, **more):
    body = {"messages": [{"role": "user", "content": content}], **more}
    return body | ({"max_tokens": max_tokens} if max_tokens else {})


async def gather(limit, coroutines):
    """Results in order; at most `limit` of them run at once."""
    gate = asyncio.Semaphore(limit)

    async def one(coroutine):
        async with gate:
            return await coroutine

    return await asyncio.gather(*map(one, coroutines))
