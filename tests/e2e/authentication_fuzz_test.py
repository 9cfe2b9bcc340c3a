# SPDX-License-Identifier: Apache-2.0
"""Strangers at an open port of the real daemon: authorizations and ClientHellos
that are random, mutated and hostile, while a user works on. No stranger gets
in, the daemon lives, logs no secret, and has its descriptors back.

MPSD_FUZZ_CASES is the number of random cases a kind, MPSD_FUZZ_SEED repeats them."""

import collections
import contextlib
import json
import os
import pathlib
import random
import re
import selectors
import socket
import ssl
import struct
import subprocess
import sys
import time

import harness
import raw_http2

CASES = int(os.environ.get("MPSD_FUZZ_CASES", "400"))
SEED = int(os.environ.get("MPSD_FUZZ_SEED", str(random.randrange(1 << 32))))
# Part of what strangers send; nothing that the daemon writes may hold it.
CANARY = b"kanarienvogel"
INFO = b"/mpsd.v1.DaemonService/Info"
HEALTH = b"/grpc.health.v1.Health/Check"
UNAUTHENTICATED = 16
HEALTHY = b"\0\0\0\0\x02\x08\x01"  # the answer: SERVING
PATHS = [INFO, b"/mpsd.v1.JobService/List", b"/mpsd.v1.JobService/Submit",
         b"/mpsd.v1.JobService/Watch", b"/mpsd.v1.AccessService/WhoAmI",
         b"/mpsd.v1.AccessService/CreateToken", b"/mpsd.v1.ArtifactService/Upload",
         b"/grpc.health.v1.Health/Watch",
         b"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"]
# Two such paths in one request: which one counts?
CROOKED = [b"/" + HEALTH, HEALTH + b"/../../mpsd.v1.DaemonService/Info",
           INFO + b"?" + HEALTH, INFO + b"#" + HEALTH, HEALTH + b"\0" + INFO,
           HEALTH[1:], HEALTH + b"/", b"", b"/", b"*", HEALTH.upper(),
           b"/%67rpc.health.v1.Health/Check", INFO + b"/Check"]


def percentile(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def calmest(times, share):
    """The percentile of the calmest fifth: other work slows some, mpsd all."""
    size = max(1, len(times) // 5)
    return min(percentile(times[at:at + size], share)
               for at in range(0, len(times) - size + 1, size))


def is_text(written):
    """Whether there are no control characters, and nothing but UTF-8."""
    try:
        return not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f]", written.decode())
    except UnicodeDecodeError:
        return False


class SteadyCaller:
    def __init__(self, port, authority, token):
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(pathlib.Path(__file__).with_name(
                "steady_caller.py")), str(port), str(authority)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(token + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ready\n"

    def finish(self):
        said, _ = self.process.communicate(timeout=harness.TIMEOUT)
        return json.loads(said)


class AuthenticationFuzzTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        print(f"MPSD_FUZZ_CASES={CASES} MPSD_FUZZ_SEED={SEED}", flush=True)
        self.random = random.Random(SEED)
        self.port = harness.free_port()
        self.state = self.folder / "state"
        self.tls = self.state / "tls"
        self.make_certificates()
        self.fuzzed = self.daemon("--listen", f"127.0.0.1:{self.port}",
                                  "--log-level", "debug", worker="fake_worker")
        made = self.fuzzed.says("admin", "token", "create", "--user", "ann", "--role",
                                "user", "--expires", "1d")
        self.token = re.search(r"mpsd_[A-Za-z0-9]{20,}", made)[0]
        self.context = raw_http2.client_context(self.tls / "ca.crt")
        with self.connect() as connection:
            self.assertEqual(0, connection.call(raw_http2.request(
                INFO, self.bearer(self.token.encode())))[0])
        self.before = self.descriptors()
        self.answers = collections.Counter()  # by grpc-status

    def connect(self, context=None):
        return raw_http2.Connection(self.port, context or self.context)

    @staticmethod
    def bearer(token):
        return b"authorization", b"Bearer " + token

    def descriptors(self):
        if not os.path.isdir("/proc/self"):
            return 0
        return len(os.listdir(f"/proc/{self.fuzzed.process.pid}/fd"))

    @contextlib.contextmanager
    def steady_user(self):
        """A user works on meanwhile, and waits for no answer."""
        caller = SteadyCaller(self.port, self.tls / "ca.crt", self.token)
        try:
            yield
        finally:
            times = caller.finish()
        self.assertEqual([], times["faults"])
        slowest = {}
        for kind in ("calls", "connects"):
            self.assertGreater(len(times[kind]), 0)
            slowest[kind] = calmest(times[kind], 0.99)
            median, worst = percentile(times[kind], 0.5), max(times[kind])
            print(f"{len(times[kind])} {kind} meanwhile, in s: median "
                  f"{median:.5f}, p99 of the calmest fifth {slowest[kind]:.5f}"
                  f", slowest {worst:.5f}", flush=True)
        self.assertLess(slowest["calls"], 0.05)

    def check_daemon(self):
        """It lives, has its descriptors back and wrote no secret."""
        self.assertIsNone(self.fuzzed.process.poll(), self.fuzzed.said())
        self.eventually(lambda: self.descriptors() <= self.before + 4,
                        lambda: "descriptors are lost")
        self.assertEqual(0, self.fuzzed.terminate(), self.fuzzed.said())
        # What strangers say fills no disk, and forges no line.
        said = self.fuzzed.output.read_bytes()
        self.assertLess(len(said), 100_000 + 10 * CASES)
        self.assertTrue(is_text(said), said[-2000:])
        key = (self.tls / "server.key").read_bytes().splitlines()[1]
        for path in [self.fuzzed.output, *self.state.rglob("*")]:
            if not path.is_file() or path.parent == self.tls:
                continue
            # What gRPC serves holds the key.
            written = path.read_bytes()
            for secret in (CANARY, self.token.encode()):
                self.assertNotIn(secret, written, path)
            if path.suffix in (".log", ".out"):
                self.assertNotIn(key, written, path)

    def near_token(self):
        """A token that differs from the real one in little."""
        token, r = bytearray(self.token.encode()), self.random
        at = r.randrange(len(token))
        kind = r.randrange(8)
        if kind == 0:
            token[at] ^= 1 << r.randrange(8)
        elif kind == 1:
            del token[at:at + r.randrange(1, 4)]
        elif kind == 2:
            token.insert(at, r.randrange(256))
        elif kind == 3:
            token = token.swapcase()
        elif kind == 4:
            token = token[:at]
        elif kind == 5:
            token += r.choice([b"\0", b"=", b"x", b",", b";", b"\0" + token])
        elif kind == 6:
            token = token[len(b"mpsd_"):]
        else:
            token = token[::-1]
        return bytes(token)

    def stranger(self):
        """Headers by which no user is known: none holds the token."""
        r, near = self.random, self.near_token()
        anything = r.randbytes(r.choice([0, 1, 16, 54, 300])) + CANARY
        scheme = r.choice([b"Bearer ", b"bearer", b"Bearer  ", b"Basic ", b"",
                           b"Bearer\t", b"Token ", b"Bearer Bearer ", b"\0Bearer "])
        keys = [b"authorization", b"Authorization", b"authorization-bin",
                b"proxy-authorization", b"cookie", b"x-forwarded-user", b"mpsd-uid",
                b"x509_common_name", b"transport_security_type", b"mpsd-user",
                b"owner", b":authority", b"grpc-tags-bin", b"\xff\xfe", b""]
        values = [b"root", b"0", b"ann", scheme + near, anything, scheme + anything,
                  scheme + CANARY * r.choice([1, 100, 1000, 10000])]
        headers = []
        for _ in range(r.choice([0, 1, 1, 1, 2, 3, 40])):
            headers.append((r.choice(keys + [b"authorization"] * 10),
                            r.choice(values)))
        if r.random() < 0.1:
            headers += [(b"authorization", b"Bearer " + near)] * 300
        return headers

    def check_refused(self, connection, headers, message=b""):
        """Makes the call; whether the connection can be used again."""
        try:
            status, answer = connection.call(headers, message)
        except raw_http2.Closed:
            self.answers["closed"] += 1
            return False
        self.answers[status] += 1
        known = status == 0 and answer != HEALTHY
        self.assertFalse(known, f"let in by {headers}: {answer}")
        return True

    def test_authorizations(self):
        connection = self.connect()
        with self.steady_user():
            for _ in range(CASES):
                path = self.random.choice(PATHS + CROOKED)
                headers = raw_http2.request(path, *self.stranger())
                if self.random.random() < 0.1:
                    headers.append((b":path", self.random.choice(PATHS + [HEALTH])))
                if self.random.random() < 0.05:
                    self.random.shuffle(headers)
                message = self.random.randbytes(self.random.choice([0, 0, 9, 5000]))
                if not self.check_refused(connection, headers, message):
                    connection.socket.close()
                    connection = self.connect()
        connection.socket.close()
        print(f"{CASES} authorizations: {dict(self.answers)}", flush=True)
        self.assertGreater(self.answers[UNAUTHENTICATED], CASES / 4)
        self.check_daemon()

    def test_the_path_that_counts_is_the_path_that_is_checked(self):
        for first, second in [(HEALTH, INFO), (INFO, HEALTH)]:
            headers = [(b":path", first) if name == b":path" else (name, value)
                       for name, value in raw_http2.request(first)]
            at = headers.index((b":path", first))
            for where in (0, at + 1, len(headers)):
                both = headers[:]
                both.insert(where, (b":path", second))
                with self.connect() as connection:
                    self.check_refused(connection, both)
        for path in CROOKED:
            with self.connect() as connection:
                self.check_refused(connection, raw_http2.request(path))
        self.check_daemon()

    def test_a_connection_that_was_let_in_lets_no_stranger_in(self):
        good = self.bearer(self.token.encode())
        with self.connect() as connection:
            for _ in range(50):
                self.assertEqual(0, connection.call(
                    raw_http2.request(INFO, good))[0])
                status, _ = connection.call(raw_http2.request(
                    INFO, self.bearer(self.near_token().replace(b"\0", b"0"))))
                self.assertEqual(UNAUTHENTICATED, status)
                self.assertEqual(UNAUTHENTICATED, connection.call(
                    raw_http2.request(INFO))[0])
        self.check_daemon()

    def test_a_request_without_end(self):
        """A stranger's message is refused before it is whole."""
        with self.connect() as connection:
            for path in PATHS:
                stream = connection.begin(raw_http2.request(path), None)
                answered = False
                while not answered:
                    kind, _, of, payload = connection.read_frame()
                    answered = of == stream and kind == raw_http2.HEADERS
                self.assertIn(b"grpc-status\x0216", payload, path)
        self.check_daemon()

    def hello(self):
        """What a client says first."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.context.wrap_bio(incoming, outgoing,
                                       server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        return outgoing.read()

    def hellos(self):
        """Each one cut and changed in each byte, then random ones."""
        r, hello = self.random, self.hello()
        step = max(1, len(hello) * 2 // CASES)
        for at in range(0, len(hello), step):
            yield hello[:at]
            yield hello[:at] + bytes([hello[at] ^ r.randrange(1, 256)]) + \
                hello[at + 1:]
        for _ in range(CASES):
            changed = bytearray(self.hello())
            kind = r.randrange(7)
            if kind == 0:
                for _ in range(r.randrange(1, 30)):
                    changed[r.randrange(len(changed))] = r.randrange(256)
            elif kind == 1:
                at = r.randrange(len(changed))
                changed[at:at] = r.randbytes(r.choice([1, 2, 100, 20000]))
            elif kind == 2:
                at = r.randrange(len(changed))
                del changed[at:at + r.randrange(1, 60)]
            elif kind == 3:  # one byte a record
                changed = b"".join(b"\x16\x03\x01\0\x01" + bytes([byte])
                                   for byte in changed[5:])
            elif kind == 4:
                changed = changed + changed
            elif kind == 5:
                changed = r.choice([
                    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\n"
                    b"SM\r\n\r\n\0\0\0\x04\0\0\0\0\0", b"\x80\x2e\x01\0\x02" * 20,
                    b"\x15\x03\x03\0\x02\x02\x28", b"\x17\x03\x03\x40\0" + CANARY,
                    b"SSH-2.0-x\r\n"])
            else:
                changed = b"\x16\x03\x01" + struct.pack(">H", r.randrange(1 << 16)) \
                    + r.randbytes(r.randrange(3000))
            yield bytes(changed)

    def greet(self, sent, calmly=False):
        """A connection that says `sent`; it may be refused meanwhile. Unless
        calmly, it may be reset at its end, or half closed."""
        client = socket.create_connection(("127.0.0.1", self.port), 10)
        if not calmly and self.random.random() < 0.3:  # reset, not closed
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                              struct.pack("ii", 1, 0))
        with contextlib.suppress(OSError):
            client.sendall(sent)
            if not calmly and self.random.random() < 0.5:
                client.shutdown(socket.SHUT_WR)
        return client

    def test_hellos(self):
        count, waiting = 0, selectors.DefaultSelector()
        with self.steady_user():
            for sent in self.hellos():
                count += 1
                waiting.register(self.greet(sent), selectors.EVENT_READ)
                # Some wait for an answer, others go before one comes.
                while len(waiting.get_map()) > 40:
                    for key, _ in waiting.select(0.01) or [
                            (next(iter(waiting.get_map().values())), 0)]:
                        with contextlib.suppress(OSError):
                            key.fileobj.setblocking(False)
                            key.fileobj.recv(65536)
                        waiting.unregister(key.fileobj)
                        key.fileobj.close()
        print(f"{count} hellos", flush=True)
        for key in list(waiting.get_map().values()):
            key.fileobj.close()
        self.check_daemon()

    def test_handshakes_that_stop_in_the_middle(self):
        hello = self.hello()
        count = min(2000, max(300, CASES // 10))
        with contextlib.ExitStack() as stack, self.steady_user():
            until = time.monotonic() + max(3, min(60, CASES / 200))
            begun = 0
            held = []
            while time.monotonic() < until:
                cut = self.random.choice([0, 1, 5, 100, len(hello)])
                held.append(stack.enter_context(self.greet(hello[:cut], True)))
                begun += 1
                if len(held) > count:
                    held.pop(0).close()
                time.sleep(0.002)
        print(f"{begun} stopped handshakes, {count} at a time", flush=True)
        self.check_daemon()
