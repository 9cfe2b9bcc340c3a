# SPDX-License-Identifier: Apache-2.0
"""mpsctl where something breaks: its output, its connection, itself; and uploads
that break off: the client, the connection or the daemon goes away in the middle,
and what came is not sent again."""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

import harness


class Line:
    """A socket before the daemon's that counts what a client sends."""

    def __init__(self, path, daemon, lose_answer=False):
        """`lose_answer`: the first Submit reaches the daemon, its answer does
        not come back: once the job is queued the connection breaks."""
        self.path, self.daemon = path, daemon
        self.lose_answer = lose_answer
        self.sent = self.submits = 0
        self.hold_at = None   # bytes after which nothing gets through
        self.held = threading.Event()
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(path))
        self.server.listen()
        self.open = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.server.accept()
                daemon = socket.socket(socket.AF_UNIX)
                daemon.connect(str(self.daemon.state_dir / "mpsd.sock"))
            except OSError:
                if self.server.fileno() < 0:
                    return
                client.close()
                continue
            self.open += [client, daemon]
            cut = threading.Event()
            for carry, ends in ((self.send, (client, daemon, cut)),
                                (self.answer, (daemon, client, cut))):
                threading.Thread(target=carry, daemon=True, args=ends).start()

    def send(self, client, daemon, cut):
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                self.sent += len(data)
                if self.hold_at is not None and self.sent >= self.hold_at:
                    self.held.set()
                    while self.hold_at is not None:
                        time.sleep(0.01)
                if b"JobService/Submit" in data:
                    self.submits += 1
                    if self.lose_answer and self.submits == 1:
                        cut.set()
                daemon.sendall(data)
                if cut.is_set():
                    while not self.daemon.ctl_json("list"):
                        time.sleep(0.01)
                    break
        self.shut(client, daemon)

    def answer(self, daemon, client, cut):
        with contextlib.suppress(OSError):
            while data := daemon.recv(1 << 16):
                if not cut.is_set():
                    client.sendall(data)
        if not cut.is_set():
            self.shut(client, daemon)

    @staticmethod
    def shut(*ends):
        for end in ends:
            with contextlib.suppress(OSError):  # it broke off by itself
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.hold_at = None
        self.server.close()
        for end in self.open:
            end.close()


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
        for action in (signal.SIG_DFL, signal.SIG_IGN):  # its parent's
            reader, writer = os.pipe()
            os.close(reader)
            with os.fdopen(writer, "wb") as pipe:
                result = subprocess.run(
                    self.command(daemon, "list"), stdout=pipe,
                    stderr=subprocess.PIPE, check=False,
                    env=harness.environment(), timeout=harness.TIMEOUT,
                    preexec_fn=lambda a=action: signal.signal(
                        signal.SIGPIPE, a))
            self.assertEqual(-signal.SIGPIPE, result.returncode)
            self.assertEqual(b"", result.stderr)

    def test_a_submit_whose_answer_is_lost_is_one_job(self):
        daemon = self.daemon(worker="fake_worker")
        proxy = Line(self.folder / "proxy.sock", daemon, lose_answer=True)
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


SIZE = 48 << 20


class UploadTest(harness.SharedDaemonTest):
    OPTIONS = ("--blob-grace-seconds", "3600")
    WORKER = "fake_worker"

    def setUp(self):
        super().setUp()
        self.job = harness.write_job(self.folder)
        self.data = self.folder / "train.jsonl"
        self.data.write_bytes(os.urandom(SIZE))
        self.line = self.make_line("line.sock")

    def make_line(self, name):
        line = Line(self.folder / name, self.mpsd)
        self.addCleanup(line.close)
        return line

    def submit(self, line):
        return harness.begin(
            "mpsctl", "--server", line.path, "--json", "submit", "--detach",
            self.job, env=harness.environment(HOME=str(self.folder)))

    def parts(self):
        folder = self.mpsd.state_dir / "blobs/partial"
        return {p.name: p.stat().st_size for p in folder.iterdir()}

    def writes(self):
        """Whether the daemon still has an upload open: it notices later that
        its stream is gone."""
        table = pathlib.Path(f"/proc/{self.mpsd.process.pid}/fd")
        if not table.exists():
            time.sleep(2)
            return False
        for entry in table.iterdir():
            with contextlib.suppress(FileNotFoundError):  # just closed
                if "/blobs/partial/" in os.readlink(entry):
                    return True
        return False

    def expect_stored(self, process):
        out, err = process.communicate(timeout=harness.TIMEOUT)
        self.assertEqual(0, process.returncode, err)
        job = json.loads(out)
        stored = self.mpsd.state_dir / "jobs" / job["id"] / "inputs"
        self.assertEqual(self.data.read_bytes(),
                         (stored / "train.jsonl").read_bytes())
        self.assertEqual({}, self.parts())
        return err

    def test_a_killed_client_resumes(self):
        self.line.hold_at = SIZE // 2
        killed = self.submit(self.line)
        self.assertTrue(self.line.held.wait(harness.TIMEOUT))
        killed.kill()
        killed.communicate()
        self.line.close()
        self.eventually(lambda: sum(self.parts().values()) > SIZE // 4)
        self.eventually(lambda: not self.writes())
        kept = sum(self.parts().values())
        again = self.make_line("again.sock")
        self.expect_stored(self.submit(again))
        self.assertLess(again.sent, SIZE - kept + (4 << 20))

    def test_a_killed_daemon_resumes(self):
        self.line.hold_at = SIZE // 2
        process = self.submit(self.line)
        self.assertTrue(self.line.held.wait(harness.TIMEOUT))
        self.eventually(lambda: sum(self.parts().values()) > SIZE // 4)
        self.mpsd.kill()
        kept = sum(self.parts().values())
        self.line.hold_at = None
        before = self.line.sent
        self.mpsd.start()
        self.expect_stored(process)
        self.assertLess(self.line.sent - before, SIZE - kept + (4 << 20))

    def test_a_part_that_was_spoilt_is_sent_anew(self):
        self.line.hold_at = SIZE // 2
        process = self.submit(self.line)
        self.assertTrue(self.line.held.wait(harness.TIMEOUT))
        self.mpsd.kill()
        for path in (self.mpsd.state_dir / "blobs/partial").iterdir():
            with path.open("r+b") as part:
                part.write(b"spoilt by a power cut")
        self.line.hold_at = None
        self.mpsd.start()
        self.expect_stored(process)
