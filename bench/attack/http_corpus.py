# SPDX-License-Identifier: Apache-2.0
"""Malformed and unusual HTTP requests, each with what may be answered.

An expectation is a list of statuses in order, with "|" between alternatives and ";" between whole lists: "200 200",
"400|501", "" for no answer. It is what is answered after the client has sent everything and half-closed; 100 Continue is
not counted. In most cases a second, plain request follows: it is answered exactly if the server agrees on where the first
one ended."""
import dataclasses

HOST = b"Host: 127.0.0.1\r\n"
NEXT = b"GET /version HTTP/1.1\r\n" + HOST + b"\r\n"
FRAMED = "200 200|401|403"  # of NEXT, in case /version asks for a key
REFUSED = "400"
EITHER = "200 200|401|403;400"  # the standard leaves it open; ";" between whole outcomes


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    data: bytes
    expected: str
    half_closes: bool = True  # False: the server closes by itself

    def allows(self, statuses):
        return any(
            len(want.split()) == len(statuses) and all(
                str(status) in one.split("|") for status, one in zip(statuses, want.split()))
            for want in self.expected.split(";"))


def get(target=b"/live", fields=b"", version=b"HTTP/1.1", host=HOST, method=b"GET"):
    return method + b" " + target + b" " + version + b"\r\n" + host + fields + b"\r\n"


def named(family, pairs, build):
    return [Case(f"{family}: {shown(value)}", build(value), expected) for value, expected in pairs]


def shown(value):
    return repr(value if len(value) < 60 else value[:40] + b"... %d bytes" % len(value))[2:-1]


def transfer_encodings():
    refused = [
        b"xchunked", b"chunkedx", b"chunked, identity", b"identity, chunked", b"gzip, chunked", b"gzip", b"identity",
        b"chunked, chunked", b"chunked;q=1", b'"chunked"', b"", b",chunked", b"chunked,", b"chun ked", b"chunked\x0b",
        b"\x0bchunked", b"chunked\x00", b"cHuNkEd1", b"chunked\xa0"
    ]
    values = [(value, "400|501") for value in refused] + [
        (value, FRAMED) for value in (b"chunked", b"Chunked", b"CHUNKED", b"  chunked", b"chunked  ", b"\tchunked")
    ]
    lines = [
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "400|501"),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "400|501"),
        (b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", "400|501"),
        (b"Transfer-Encoding : chunked\r\n", REFUSED),
        (b"Transfer-Encoding\t: chunked\r\n", REFUSED),
        (b" Transfer-Encoding: chunked\r\n", REFUSED),
        (b"Transfer-Encoding:\r\n chunked\r\n", REFUSED),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", REFUSED),
        (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", REFUSED),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", REFUSED),
        (b"Transfer_Encoding: chunked\r\n", "200 400"),  # another field: the body is none
        (b"X: y\rTransfer-Encoding: chunked\r\n", REFUSED),
        (b"X: y\nTransfer-Encoding: chunked\r\n", REFUSED)
    ]
    body = b"0\r\n\r\n" + NEXT
    return (
        named("transfer-encoding", values, lambda value: get(fields=b"Transfer-Encoding: " + value + b"\r\n") + body) +
        named("transfer-encoding", lines, lambda line: get(fields=line) + body) + [
            Case("transfer-encoding: in HTTP/1.0",
                 get(fields=b"Transfer-Encoding: chunked\r\n", version=b"HTTP/1.0") + body, REFUSED)
        ])


def content_lengths():
    values = [
        (b"5", FRAMED), (b"05", FRAMED + ";400"), (b"0000000005", FRAMED + ";400"), (b"5  ", FRAMED), (b"\t5", FRAMED),
        (b"9999999999", "413"), (b"1048577", "413"), (b"2147483648", "413"), (b"4294967301", "413")
    ] + [(value, REFUSED)
         for value in (b"+5", b"-5", b"-0", b"5,5", b"5, 5", b"0x5", b"5.0", b"5e0", b"", b"1_0", b"5;", b"5 5",
                       b"\xd9\xa5", b"18446744073709551616", b"18446744073709551615", b"18446744073709551621",
                       b"99999999999", b"00000000005", b"5\x0b", b"5\x00", b"five", b"0b101", b"'5'", b"\xef\xbc\x95")]
    lines = [(b"Content-Length: 5\r\nContent-Length: 5\r\n", REFUSED),
             (b"Content-Length: 5\r\nContent-Length: 6\r\n", REFUSED),
             (b"Content-Length: 6\r\ncontent-length: 5\r\n", REFUSED), (b"Content-Length : 5\r\n", REFUSED),
             (b"Content-Length:5\r\n", FRAMED), (b"CONTENT-LENGTH: 5\r\n", FRAMED), (b"Content-Length\r\n", REFUSED),
             (b"Content_Length: 5\r\n", "200 400|501"), (b"Content-Length:\r\n 5\r\n", REFUSED)]
    return (named("content-length", values,
                  lambda value: get(fields=b"Content-Length: " + value + b"\r\n") + b"hello" + NEXT) +
            named("content-length", lines, lambda line: get(fields=line) + b"hello" + NEXT) + [
                Case("content-length: body cut short",
                     get(fields=b"Content-Length: 6\r\n") + b"hello", ""),
                Case("content-length: 0",
                     get(fields=b"Content-Length: 0\r\n") + NEXT, FRAMED)
            ])


def chunked_bodies():
    end = b"0\r\n\r\n"
    bodies = [(b"5\r\nhello\r\n" + end, FRAMED), (b"A\r\n0123456789\r\n" + end, FRAMED),
              (b"a\r\n0123456789\r\n" + end, FRAMED), (b"0005\r\nhello\r\n" + end, EITHER),
              (b"0" * 20 + b"5\r\nhello\r\n" + end, EITHER), (b"5;x=1\r\nhello\r\n" + end, EITHER),
              (b'5;x="y"\r\nhello\r\n' + end, EITHER), (b"5;\r\nhello\r\n" + end, EITHER),
              (b"5 \r\nhello\r\n" + end, EITHER), (b"0;x=1\r\n\r\n", EITHER), (b"000\r\n\r\n", EITHER)]
    bodies += [(body, "400|413")
               for body in (b"0x5\r\nhello\r\n" + end, b"-5\r\nhello\r\n" + end, b"+5\r\nhello\r\n" + end,
                            b"\r\n" + end, b"g\r\nhello\r\n" + end, b"5\nhello\r\n" + end, b"5\r\nhelloX\r\n" + end,
                            b"5\r\nhello" + end, b"5\r\nhello\n" + end, b"5\r\nhell\r\n" + end,
                            b" 5\r\nhello\r\n" + end, b"5\r\rhello\r\n" + end, b"ffffffffffffffff\r\nhello\r\n" + end,
                            b"10000000000000000\r\nhello\r\n" + end, b"10000000000000005\r\nhello\r\n" + end,
                            b"7fffffffffffffff\r\nhello\r\n" + end, b"200000\r\nhello\r\n" + end,
                            b"5\x00\r\nhello\r\n" + end, b"5\r\nhello\r\n0\n\n", b"0\r\nX: y\r\n\r\n",
                            b"0\r\nContent-Length: 5\r\n\r\n", b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
                            b'5;x="\r\n"\r\nhello\r\n' + end, b"5;x=\x00\r\nhello\r\n" + end,
                            (b"1;" + b"x" * 2000 + b"\r\na\r\n") * 600 + end, b"1\r\na\r\n" * 250_000 + end)]
    bodies += [(b"5\r\nhello\r\n0\r\n", ""), (b"5\r\nhel", ""), (b"5", ""), (b"", "")]
    cases = []
    for body, expected in bodies:
        rest = NEXT if expected else b""
        data = get(fields=b"Transfer-Encoding: chunked\r\n") + body + rest
        cases.append(Case(f"chunks: {shown(body)}", data, expected))
    return cases


def methods():
    pairs = [(b"GET", FRAMED), (b"HEAD", FRAMED), (b"OPTIONS", "204 200|401|403"), (b"POST", "405 200|401|403"),
             (b"PUT", "405 200|401|403"), (b"DELETE", "405 200|401|403"), (b"PATCH", "405 200|401|403"),
             (b"TRACE", "405 200|401|403"), (b"CONNECT", "400|405|501;405 200|401|403")]
    pairs += [(b"GE T", "400|501|505")] + [
        (method, "400|501")
        for method in (b"get", b"Get", b"GETS", b"G", b"G\x00T", b"", b" GET", b"\tGET", b"GET\t", b"\r\nGET", b"\nGET",
                       b"A" * 100, b"PROPFIND", b"M-SEARCH", b"G\xc9T", b"(GET)", b"\x16\x03\x01\x02\x00\x01\x00",
                       b"\x80\x2e\x01\x03\x01", b"SSH-2.0-x", b"\xff\xfe", b"{")
    ]
    return named("method", pairs, lambda method: get(method=method) + NEXT) + [
        Case("method: 5,000 bytes", get(method=b"A" * 5000), "414|400|501"),
        Case("method: HTTP/2's preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400|501|505")
    ]


def targets():
    found, missing = FRAMED, "404 200|401|403"
    pairs = [(b"/live?x=1", found), (b"/live?%", found), (b'/live?"<>', found), (b"/live?" + b"a" * 3000, found),
             (b"/live?a?b#c", found + ";400")]
    pairs += [(target, missing)
              for target in (b"/page", b"/page/", b"/page/../live", b"/LIVE", b"/live/", b"//live", b"/./live",
                             b"/x/../live", b"/%6cive", b"/live%00", b"/live%2e", b"/live;x", b"/\\live", b"/v1/models/../../etc/passwd",
                             b"/v1/models/%2e%2e%2f", b"/v1/models/", b"/v1/responses/", b"/v1/responses/resp_x",
                             b"/v1/responses//input_items", b"/v1/responses/../models", b"/" + b"a" * 3000)]
    pairs += [(target, "400") for target in (b"http://127.0.0.1/live", b"*", b"live", b"127.0.0.1:80", b"/live\x7f",
                                             b"/liv\xe9", b"/live\t", b"/live\x00", b"\\live", b"?", b"#")]
    pairs += [(b"/live#fragment", missing + ";400"), (b"/" + b"a" * 4090, "414"), (b"/" + b"a" * 9000, "414|431"),
              (b"", "400"), (b"/li ve", "400|505")]
    return named("target", pairs, lambda target: get(target) + NEXT)


def versions():
    refused = [
        b"HTTP/0.9", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/3", b"HTTP/11", b"HTTP/1.", b"HTTP/.1", b"HTTP/1", b"HTTP/1.1 ",
        b"http/1.1", b"HTTP/ 1.1", b"HTTP /1.1", b"XTTP/1.1", b"", b"HTTP/1.10", b"HTTP/01.1", b"HTTP/1.1x",
        b"HTTP/1,1", b"HTTPS/1.1", b"HTTP/-1.1"
    ]
    return named("version", [(value, "400|505") for value in refused], lambda value: get(version=value) + NEXT) + [
        Case("version: HTTP/1.0",
             get(version=b"HTTP/1.0") + NEXT, "200"),
        Case("version: HTTP/1.0 that keeps alive",
             get(version=b"HTTP/1.0", fields=b"Connection: keep-alive\r\n") + NEXT, FRAMED),
        Case("version: HTTP/1.0 without Host", get(version=b"HTTP/1.0", host=b""), "200|400|403|421"),
        Case("version: none at all", b"GET /live\r\n\r\n", "400|505")
    ]


def header_bytes():
    cases = []
    for byte in (*range(32), 127, 128, 255):
        value = bytes([byte])
        expected = REFUSED if byte in (0, 10, 13) else FRAMED if byte in (9, 128, 255) else EITHER
        cases.append(Case(f"field value: byte {byte}", get(fields=b"X: a" + value + b"b\r\n") + NEXT, expected))
    for byte in b'\x00\x01\x0b\x7f\x80\xff ()<>@,;\\"/[]?={}\t':
        cases.append(Case(f"field name: byte {byte}", get(fields=b"X" + bytes([byte]) + b"Y: z\r\n") + NEXT, REFUSED))
    lines = [(b": x\r\n", REFUSED), (b"X\r\n", REFUSED), (b"X: y\r\n z\r\n", REFUSED), (b"X: y\r\n\tz\r\n", REFUSED),
             (b"X: y\r\r\n", REFUSED), (b"\r\r\n", REFUSED), (b"X: y\n", REFUSED), (b"X:\r\n", FRAMED),
             (b"X:y:z\r\n", FRAMED), (b"Host: 127.0.0.1\r\n", REFUSED), (b"host: evil.example\r\n", REFUSED),
             (b"Authorization: a\r\nAuthorization: b\r\n", REFUSED),
             (b"Content-Type: a\r\nContent-Type: b\r\n", REFUSED), (b"Origin: a\r\nOrigin: b\r\n", REFUSED),
             (b"Expect: 100-continue\r\nExpect: 100-continue\r\n", REFUSED), (b"Content-Encoding: gzip\r\n", "415"),
             (b"Content-Encoding: identity\r\n", FRAMED), (b"Connection: close\r\n", "200"),
             (b"Connection: close, keep-alive\r\n", "200"), (b"Connection: keep-alive\r\nConnection: close\r\n", "200"),
             (b"Connection: ,\r\n", FRAMED), (b"Connection: upgrade\r\nUpgrade: h2c\r\n", FRAMED),
             (b"X: y\r\n" * 63, FRAMED), (b"X: y\r\n" * 64, "431"), (b"X: y\r\n" * 1500, "431"),
             (b"X: " + b"y" * 8000 + b"\r\n", FRAMED), (b"X: " + b"y" * 9000 + b"\r\n", "431"),
             (b"X" * 9000 + b": y\r\n", "431"), (b"X-Request-Id: " + b"\xff" * 100 + b"\r\n", FRAMED),
             (b"traceparent: 00-zz\r\n", FRAMED), (b"traceparent: " + b"0" * 5000 + b"\r\n", FRAMED)]
    return cases + named("field", lines, lambda line: get(fields=line) + NEXT) + [
        Case("field: no Host",
             get(host=b"") + NEXT, REFUSED),
        Case("field: a folded first line", b"GET /live HTTP/1.1\r\n " + HOST + b"\r\n", REFUSED)
    ]


def pipelines():
    bad = b"GET /live HTTP/1.1\r\nX\r\n\r\n"
    wrong = get(b"/v1/chat/completions", b"Content-Type: application/json\r\nContent-Length: 2\r\n", method=b"POST") + b"{}"
    last = get(fields=b"Connection: close\r\n")
    cases = [
        Case(f"pipeline: {number:,} requests",
             get() * (number - 1) + last, " ".join(["200"] * min(number, 1000)), half_closes=False)
        for number in (2, 10, 100, 999, 1000, 1001, 1200)
    ]
    return cases + [
        Case("pipeline: a bad one in the middle",
             get() + bad + get(), "200 400"),
        Case("pipeline: a refused body in the middle",
             get() + wrong + get(), "200 400 200"),
        Case("pipeline: close in the middle",
             get() + get(fields=b"Connection: close\r\n") + get(), "200 200"),
        Case("pipeline: unfinished at the end",
             get() + get()[:-1], "200"),
        Case("pipeline: empty lines between",
             get() + b"\r\n" + get(), "200 400;200 200"),
        Case("pipeline: HEAD and GET",
             get(method=b"HEAD") + get(), "200 200")
    ]


def expectations():
    body = b"Content-Length: 5\r\n"
    values = [(b"100-continue", FRAMED), (b"100-Continue", FRAMED), (b"100-continue, x", "417"), (b"200-ok", "417"),
              (b"100-continue;q=1", "417"), (b"x" * 1000, "417")]
    return named("expect", values, lambda value: get(fields=body + b"Expect: " + value + b"\r\n") + b"hello" + NEXT) + [
        Case("expect: without a body",
             get(fields=b"Expect: 100-continue\r\n") + NEXT, FRAMED),
        Case("expect: in HTTP/1.0",
             get(version=b"HTTP/1.0", fields=body + b"Expect: 100-continue\r\n") + b"hello", "200"),
        Case("expect: a body that is too large", get(fields=b"Expect: 100-continue\r\nContent-Length: 9000000\r\n"),
             "413"),
        Case("expect: the body never comes", get(fields=body + b"Expect: 100-continue\r\n"), ""),
        Case("expect: chunks",
             get(fields=b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n") + b"0\r\n\r\n" + NEXT, FRAMED)
    ]


def half_closes():
    whole = get(fields=b"Content-Length: 5\r\n") + b"hello"
    pairs = [(b"", ""), (b"G", ""), (b"GET /live HTTP/1.1", ""), (get()[:-1], ""), (get()[:-2], ""), (whole[:-1], ""),
             (whole[:-5], ""), (whole, "200"), (b"\r", "400;"), (b"\r\n", "400;"), (b"\x00", "400")]
    return named("half-close", pairs, lambda data: data)


def corpus():
    families = (transfer_encodings, content_lengths, chunked_bodies, methods, targets, versions, header_bytes,
                pipelines, expectations, half_closes)
    return [case for family in families for case in family()]
