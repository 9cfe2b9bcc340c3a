# SPDX-License-Identifier: Apache-2.0
"""The API's port as an old client and a renewed certificate find it,
and the socket as another account of the machine does; `mpsd tls` killed in the
middle and run many times at once, and its certificates in the hands of Python's
strict TLS."""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import tempfile
import threading
import time
import unittest
import warnings

import harness
import raw_http2

OLD = [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2]
OTHER = 4711  # the number of an account and of a group that do not exist


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

    # The one suite of TLS 1.2 that the port has wants a key that no client shares.
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
        token = daemon.says("admin", "token", "create", "--user", "ann", "--role",
                            "viewer").strip()
        # Ten seconds are given to a connection without one.
        call = raw_http2.request(b"/mpsd.v1.AccessService/WhoAmI",
                                 (b"authorization", b"Bearer " + token.encode()))
        context = raw_http2.client_context(self.state / "tls" / "ca.crt")
        with raw_http2.Connection(self.port, context) as before:
            self.assertEqual(0, before.call(call)[0])
            harness.run("mpsd", "tls", "renew", "--days", "20", "--state-dir",
                        self.state)
            os.kill(daemon.process.pid, signal.SIGHUP)
            self.eventually(lambda: 18 < self.days_left() < 21)
            self.assertAlmostEqual(20, self.exported_expiry(daemon), delta=2)
            # The connection that was open lives on.
            self.assertEqual(0, before.call(call)[0])

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


FILES = {"ca.crt": 0o644, "ca.key": 0o600, "server.crt": 0o644,
         "server.key": 0o600}


class TlsCommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mpsd"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.state = self.folder / "state"
        self.tls = self.state / "tls"

    def start(self, *args):
        return harness.begin("mpsd", "tls", *args, "--state-dir", self.state)

    def run_tls(self, *args):
        begin = time.monotonic()
        process = self.start(*args)
        out, err = process.communicate(timeout=harness.TIMEOUT)
        self.duration = time.monotonic() - begin
        self.assertEqual(0, process.returncode, err)
        return out

    def shown(self):
        return json.loads(self.run_tls("show", "--json"))

    def check_whole(self):
        self.assertEqual(0o700, stat.S_IMODE(self.tls.stat().st_mode))
        for name, mode in FILES.items():
            self.assertEqual(mode, stat.S_IMODE((self.tls / name).stat().st_mode))
        self.assertEqual([], self.shown()["problems"])

    def killed(self, *args):
        """Kills the command at some moment of its life; whether it lived to end."""
        process = self.start(*args)
        time.sleep(random.uniform(0.2, 2) * self.duration)
        process.kill()
        process.communicate()
        return process.returncode == 0

    def test_a_killed_init_leaves_nothing_half(self):
        self.run_tls("init")
        shutil.rmtree(self.tls)
        ended = whole = remains = 0
        for _ in range(60):
            if self.killed("init"):
                ended += 1
            remains += any(p.name.startswith(".tls-new.")
                           for p in self.state.iterdir())
            if self.tls.exists():
                whole += 1
                self.check_whole()
                shutil.rmtree(self.tls)
        print(f"of 60 {ended} ended, {whole} left a folder, {remains} remains")
        self.run_tls("init")
        self.check_whole()
        self.assertEqual({"tls", "tls.lock"},
                         {p.name for p in self.state.iterdir()})

    def test_a_killed_change_leaves_a_whole_folder(self):
        self.run_tls("init")
        first = self.shown()["fingerprint"]
        for args in [("renew",), ("init", "--force")]:
            for _ in range(40):
                self.killed(*args)
                self.check_whole()  # times the next one, too
            if args == ("renew",):
                self.assertEqual(first, self.shown()["fingerprint"])
        self.run_tls("renew")
        self.assertEqual(set(FILES), {p.name for p in self.tls.iterdir()})

    def test_many_at_once_make_one_authority(self):
        processes = [self.start("init") for _ in range(8)]
        results = [(p, *p.communicate(timeout=harness.TIMEOUT)) for p in processes]
        made = [out for _, out, _ in results if out.startswith("Made")]
        self.assertEqual(1, len(made), results)
        for process, out, err in results:
            self.assertTrue(out.startswith(("Made", "These certificates exist"))
                            or "try again" in err, (out, err))
            self.assertEqual(process.returncode, 69 if err else 0)
        self.assertIn(self.shown()["fingerprint"], made[0])
        self.check_whole()

    def served(self):
        """The port of a server of Python's."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.tls / "server.crt", self.tls / "server.key")
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    plain, _ = listener.accept()
                    with contextlib.suppress(OSError), \
                            context.wrap_socket(plain, server_side=True) as client:
                        client.sendall(b"hello")

        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1]

    def ask(self, port, name):
        context = ssl.create_default_context(cafile=str(self.tls / "ca.crt"))
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        with socket.create_connection(("127.0.0.1", port), 10) as plain, \
                context.wrap_socket(plain, server_hostname=name) as client:
            return client.recv(4096).decode()

    def test_strict_clients_take_the_servers_certificate(self):
        self.run_tls("init", "--name", "gpu.example.com", "--name", "2001:db8::1")
        port = self.served()
        for name in self.shown()["server"]["names"]:
            self.assertEqual("hello", self.ask(port, name))
        with self.assertRaisesRegex(ssl.SSLCertVerificationError, "not valid for"):
            self.ask(port, "evil.example.com")
