# SPDX-License-Identifier: Apache-2.0
"""gRPC calls of a client that checks nothing that it sends: any bytes as header,
twice or never. Its own HTTP/2, since libraries refuse such headers."""

import re
import socket
import ssl
import struct

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
CONTINUATION = 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
FRAME = 16384


class Closed(Exception):
    """The daemon has closed the connection, or refused the handshake."""


def client_context(authority):
    context = ssl.create_default_context(cafile=str(authority))
    context.set_alpn_protocols(["h2"])
    return context


def text(value):
    """A string of HPACK, as it is."""
    if len(value) < 127:
        return bytes([len(value)]) + value
    out, rest = bytearray([127]), len(value) - 127
    while rest >= 128:
        out.append(rest & 127 | 128)
        rest >>= 7
    return bytes(out + bytes([rest])) + value


def block(headers):
    """The headers, none of them indexed."""
    return b"".join(b"\0" + text(name) + text(value) for name, value in headers)


def request(path, *more):
    """The headers of a call, with more of them at the end."""
    return [(b":method", b"POST"), (b":scheme", b"https"), (b":path", path),
            (b":authority", b"localhost"), (b"content-type", b"application/grpc"),
            (b"te", b"trailers"), *more]


class Connection:
    def __init__(self, port, context, timeout=60, settings=b""):
        """Without a context in plain text."""
        try:
            plain = socket.create_connection(("127.0.0.1", port), timeout)
        except OSError as error:
            raise Closed(str(error)) from error
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.socket = plain if context is None else context.wrap_socket(
                plain, server_hostname="localhost")
            # No dynamic table: each header of an answer is spelled out.
            self._send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
                       self._frame(SETTINGS, 0, 0,
                                   struct.pack(">HI", 1, 0) + settings))
        except OSError as error:
            plain.close()
            raise Closed(str(error)) from error
        self.buffer, self.stream = b"", -1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    @staticmethod
    def _frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + \
            struct.pack(">I", stream) + payload

    def _send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Closed(str(error)) from error

    def _receive(self, count):
        while len(self.buffer) < count:
            try:
                more = self.socket.recv(65536)
            except TimeoutError:
                raise
            except OSError as error:
                raise Closed(str(error)) from error
            if not more:
                raise Closed("end of the stream")
            self.buffer += more
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def read_frame(self):
        head = self._receive(9)
        size = int.from_bytes(head[:3], "big")
        stream = int.from_bytes(head[5:9], "big") & 0x7FFFFFFF
        return head[3], head[4], stream, self._receive(size)

    def begin(self, headers, message=b"", end=True):
        """Sends a call; its stream."""
        self.stream += 2
        data = block(headers)
        pieces = [data[i:i + FRAME] for i in range(0, len(data), FRAME)]
        out = b""
        for i, piece in enumerate(pieces):
            out += self._frame(CONTINUATION if i else HEADERS,
                               END_HEADERS if i == len(pieces) - 1 else 0,
                               self.stream, piece)
        if message is not None:
            body = b"\0" + struct.pack(">I", len(message)) + message
            out += self._frame(DATA, END_STREAM if end else 0, self.stream, body)
        self._send(out)
        return self.stream

    def call(self, headers, message=b""):
        """(grpc-status or None, the answer's bytes) of a call. None: the daemon
        reset the stream. Closed: it ended the connection."""
        stream = self.begin(headers, message)
        answer, status = b"", None
        while True:
            kind, flags, of, payload = self.read_frame()
            if kind == GOAWAY:
                raise Closed("GOAWAY")
            if kind == SETTINGS and not flags & ACK:
                self._send(self._frame(SETTINGS, ACK, 0, b""))
            elif kind == PING and not flags & ACK:
                self._send(self._frame(PING, ACK, 0, payload))
            if of != stream:
                continue
            if kind == RESET:
                return status, answer
            if kind == DATA:
                answer += payload
            if kind in (HEADERS, CONTINUATION):
                found = re.search(rb"\x0bgrpc-status(?:\x01(\d)|\x02(\d\d))",
                                  payload)
                if found:
                    status = int(found[1] or found[2])
            if kind in (HEADERS, DATA) and flags & END_STREAM:
                return status, answer
