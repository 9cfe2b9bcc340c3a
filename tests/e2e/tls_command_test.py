# SPDX-License-Identifier: Apache-2.0
"""`mpsd tls` killed in the middle and run many times at once, and its certificates
in the hands of Python's strict TLS."""

import contextlib
import json
import pathlib
import random
import shutil
import socket
import ssl
import stat
import tempfile
import threading
import time
import unittest

import harness

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
        self.assertEqual(["tls"], [p.name for p in self.state.iterdir()])

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
