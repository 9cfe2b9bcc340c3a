# SPDX-License-Identifier: Apache-2.0
"""mpsctl where something breaks: its output, its connection, itself."""

import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

import harness


class BreakingProxy:
    """Stands before a daemon's socket. The first Submit reaches the daemon, its
    answer does not come back: once the job is queued the connection breaks."""

    def __init__(self, path, daemon):
        self.path, self.daemon = path, daemon
        self.submits = 0
        self.ends = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.close()
        for end in self.ends:
            end.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self.daemon.state_dir / "mpsd.sock"))
            self.ends += [client, server]
            cut = threading.Event()
            threading.Thread(target=self.send, args=(client, server, cut),
                             daemon=True).start()
            threading.Thread(target=self.answer, args=(client, server, cut),
                             daemon=True).start()

    def send(self, client, server, cut):
        while data := receive(client):
            if b"JobService/Submit" in data:
                self.submits += 1
                if self.submits == 1:
                    cut.set()
            forward(server, data)
            if cut.is_set():
                while not self.daemon.ctl_json("list"):
                    time.sleep(0.01)
                break
        for end in (client, server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:  # it broke off by itself
                pass

    @staticmethod
    def answer(client, server, cut):
        while data := receive(server):
            if not cut.is_set():
                forward(client, data)


def forward(end, data):
    try:
        end.sendall(data)
    except OSError:  # it is gone
        pass


def receive(end):
    try:
        return end.recv(1 << 16)
    except OSError:
        return b""


class ClientTest(harness.SharedDaemonTest):
    WORKER = "fake_worker"

    def command(self, daemon, *args):
        return [str(harness.BIN / "mpsctl"), "--state-dir",
                str(daemon.state_dir), *args]

    def test_output_that_cannot_be_written_is_an_error(self):
        daemon = self.mpsd
        daemon.submit(harness.write_job(self.folder))
        closed = ["sh", "-c", 'exec "$0" "$@" >&-',
                  *self.command(daemon, "list")]
        commands = [closed]
        if os.path.exists("/dev/full"):
            commands.append(["sh", "-c", 'exec "$0" "$@" >/dev/full',
                             *self.command(daemon, "list")])
        for command in commands:
            result = subprocess.run(command, capture_output=True, text=True,
                                    env=harness.environment(),
                                    timeout=harness.TIMEOUT, check=False)
            self.assertEqual(6, result.returncode, result.stderr)
            self.assertIn("cannot write all of the output", result.stderr)

    def test_a_reader_that_is_gone_ends_it_as_a_filter_ends(self):
        daemon = self.mpsd
        daemon.submit(harness.write_job(self.folder))
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            result = subprocess.run(self.command(daemon, "list"), stdout=pipe,
                                    stderr=subprocess.PIPE, check=False,
                                    env=harness.environment(),
                                    timeout=harness.TIMEOUT)
        self.assertEqual(-signal.SIGPIPE, result.returncode)
        self.assertEqual(b"", result.stderr)

    def test_a_submit_whose_answer_is_lost_is_one_job(self):
        daemon = self.daemon(worker="fake_worker")
        proxy = BreakingProxy(self.folder / "proxy.sock", daemon)
        self.addCleanup(proxy.close)
        job = harness.write_job(self.folder)
        result = daemon.ctl("--server", str(proxy.path), "submit", str(job),
                            "--detach")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertEqual(2, proxy.submits)
        listed = daemon.ctl_json("list")
        self.assertEqual(1, len(listed))
        self.assertIn(f"Job {listed[0]['id']} submitted", result.stdout)
        self.assertIn("sending the job again", result.stderr)

    def test_a_daemon_that_is_killed_during_a_submit_has_one_job(self):
        daemon = self.daemon(worker="fake_worker")
        job = harness.write_job(self.folder)
        jobs = 0
        for _ in range(10):
            submit = daemon.begin("submit", job, "--detach")
            time.sleep(random.uniform(0, 0.08))
            daemon.kill()
            time.sleep(random.uniform(0, 0.3))
            daemon.start()
            _, error = submit.communicate(timeout=harness.TIMEOUT)
            self.assertIn(submit.returncode, (0, 3, 7), error)
            if submit.returncode == 7:  # it went before anything was submitted
                self.assertIn("cannot do it now", error)
            jobs += submit.returncode == 0
            self.assertEqual(jobs, len(daemon.ctl_json("list")), error)

    def test_a_killed_download_leaves_nothing_or_all(self):
        daemon = self.mpsd
        job_id = daemon.succeed(harness.write_job(self.folder))["id"]
        output = self.folder / "out"
        fetch = self.command(daemon, "download", job_id, "-o", str(output))
        for _ in range(2):
            shutil.rmtree(output, ignore_errors=True)
            begin = time.monotonic()
            subprocess.run(fetch, check=True, stdout=subprocess.DEVNULL,
                           env=harness.environment())
            whole = time.monotonic() - begin
        names = sorted(p.name for p in output.rglob("*"))
        self.assertIn("adapter_config.json", names)
        for _ in range(25):
            shutil.rmtree(output, ignore_errors=True)
            download = subprocess.Popen(fetch, stdout=subprocess.DEVNULL,
                                        env=harness.environment())
            time.sleep(random.uniform(0, 1.2 * whole))
            download.kill()
            download.wait()
            if output.exists():
                self.assertEqual(names,
                                 sorted(p.name for p in output.rglob("*")))
