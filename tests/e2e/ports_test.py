# SPDX-License-Identifier: Apache-2.0
"""The API's port as a stranger, an old client and a renewed certificate find it,
and the socket as another account of the machine does."""

import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import time
import unittest
import warnings

import harness
import raw_http2

OLD = [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2]
OTHER = 4711  # the number of an account and of a group that nobody has


class PortsTest(harness.SharedDaemonTest):
    WORKER = "fake_worker"

    @classmethod
    def options(cls, state):
        cls.state, cls.port = state, harness.free_port()
        harness.make_certificates(state)
        return "--listen", f"127.0.0.1:{cls.port}"

    def context(self, version):
        context = ssl.create_default_context(
            cafile=str(self.state / "tls" / "ca.crt"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = version
        # All ciphers that OpenSSL knows, however weak.
        context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
        context.set_alpn_protocols(["h2"])
        return context

    def connect(self, version=ssl.TLSVersion.TLSv1_3):
        plain = socket.create_connection(("127.0.0.1", self.port),
                                         timeout=harness.TIMEOUT)
        try:
            return self.context(version).wrap_socket(
                plain, server_hostname="localhost")
        except BaseException:
            plain.close()
            raise

    def days_left(self):
        with self.connect() as connection:
            end = connection.getpeercert()["notAfter"]
        return (ssl.cert_time_to_seconds(end) - time.time()) / 86400

    def exported_expiry(self, daemon):
        expiry = daemon.metric("mpsd_certificate_expiry_timestamp_seconds")
        return (expiry - time.time()) / 86400

    def test_tls_before_1_3_is_refused(self):
        for version in OLD:
            with self.subTest(version.name), self.assertRaises(
                    (ssl.SSLError, ConnectionError)):
                self.connect(version).close()
        with self.connect() as connection:
            self.assertEqual("TLSv1.3", connection.version())
            self.assertEqual("h2", connection.selected_alpn_protocol())

    # The one suite of TLS 1.2 that the port has wants a key that nobody shares.
    def test_a_shared_key_opens_nothing(self):
        program = shutil.which("openssl")
        if program is None:
            self.skipTest("no openssl here")
        for key in ("00", "0" * 64):
            said = subprocess.run(
                [program, "s_client", "-connect", f"127.0.0.1:{self.port}",
                 "-tls1_2", "-alpn", "h2", "-psk", key, "-psk_identity", "me",
                 "-cipher", "PSK-AES256-GCM-SHA384:@SECLEVEL=0"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=harness.TIMEOUT, check=False)
            self.assertNotEqual(0, said.returncode, said.stdout)
            self.assertIn("(NONE)", said.stdout)

    def test_a_renewed_certificate_is_served(self):
        daemon = self.mpsd
        self.assertAlmostEqual(397, self.exported_expiry(daemon), delta=2)
        # A call needs no token to ask for the health.
        health = raw_http2.request(b"/grpc.health.v1.Health/Check")
        context = raw_http2.client_context(self.state / "tls" / "ca.crt")
        with raw_http2.Connection(self.port, context) as before:
            self.assertEqual(0, before.call(health)[0])
            harness.run("mpsd", "tls", "renew", "--days", "20", "--state-dir",
                        self.state)
            os.kill(daemon.process.pid, signal.SIGHUP)
            self.eventually(lambda: 18 < self.days_left() < 21)
            self.assertAlmostEqual(20, self.exported_expiry(daemon), delta=2)
            # The connection that was open lives on.
            self.assertEqual(0, before.call(health)[0])

    def test_a_broken_renewal_changes_nothing(self):
        daemon = self.mpsd
        certificate = self.state / "tls" / "server.crt"
        whole = certificate.read_bytes()
        for broken in (b"", whole[:len(whole) // 2], b"\0" * 4096):
            certificate.write_bytes(broken)
            os.kill(daemon.process.pid, signal.SIGHUP)
            daemon.await_said("the API keeps its certificate")
            self.assertGreater(self.days_left(), 300)
        time.sleep(2)
        self.assertGreater(self.days_left(), 300)
        certificate.write_bytes(whole)

    def test_fifty_that_hang_in_the_handshake_hold_nobody_up(self):
        daemon = self.mpsd
        hanging = []
        for i in range(50):
            connection = socket.create_connection(("127.0.0.1", self.port))
            hanging.append(connection)
            # Some say nothing, some begin a ClientHello.
            if i % 2:
                connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
        start = time.monotonic()
        with self.connect() as connection:
            self.assertEqual("TLSv1.3", connection.version())
        daemon.says("info")
        # The server ends each of them; its time for a handshake is 10 s, which
        # whoever waited for them would have waited, too.
        self.assertLess(time.monotonic() - start, 9)
        end = start + harness.TIMEOUT
        for connection in hanging:
            connection.settimeout(max(0.1, end - time.monotonic()))
            try:
                while connection.recv(1 << 16):
                    pass
            except ConnectionError:
                pass
            connection.close()

    def test_strangers_write_nothing_into_the_log(self):
        daemon = self.mpsd
        daemon.await_said(" serves ")  # the last line of a start
        before = len(daemon.said())
        for _ in range(20):
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                self.connect(ssl.TLSVersion.TLSv1_2).close()
        self.assertEqual("", daemon.said()[before:])

    def as_other(self, daemon, *args, groups=()):
        def become():
            os.setgroups(list(groups))
            os.setgid(OTHER + 1)
            os.setuid(OTHER)
        return subprocess.run(
            [str(harness.BIN / "mpsctl"), "--server",
             f"unix:{daemon.state_dir / 'mpsd.sock'}", *args],
            capture_output=True, text=True, timeout=harness.TIMEOUT,
            env=harness.environment(HOME="/nonexistent"), check=False,
            preexec_fn=become, cwd="/")

    @unittest.skipUnless(os.geteuid() == 0, "only root can be another account")
    def test_a_group_uses_the_socket_and_nothing_else(self):
        for above in (self.folder, *self.folder.parents):
            if above != pathlib.Path("/") and not above.stat().st_mode & 1:
                above.chmod(above.stat().st_mode | 0o011)
        daemon = self.daemon("--socket-group", str(OTHER), "--model-root",
                             str(self.model), worker="fake_worker")
        if self.as_other(daemon, "--version").returncode != 0:
            self.skipTest("another account cannot run the programs here")
        self.assertNotEqual(0, self.as_other(daemon, "list").returncode)
        member = self.as_other(daemon, "list", groups=[OTHER])
        self.assertEqual(0, member.returncode, member.stderr)
        own = daemon.submit(harness.write_job(
            self.folder, model=str(self.model)))
        refused = self.as_other(daemon, "cancel", own["id"], groups=[OTHER])
        self.assertNotEqual(0, refused.returncode)
        self.assertIn(f"you (uid-{OTHER}) are a user", refused.stderr)
        mode = daemon.state_dir.stat().st_mode & 0o777
        self.assertEqual(0o710, mode)
        for name in ("mpsd.db", "lock", "jobs", "log", "blobs"):
            self.assertEqual(
                0, (daemon.state_dir / name).stat().st_mode & 0o077, name)
