# SPDX-License-Identifier: Apache-2.0
"""Uploads that break off: the client, the connection or the daemon goes away in
the middle, and what came is not sent again."""

import contextlib
import json
import os
import pathlib
import socket
import threading
import time

import harness

SIZE = 48 << 20


class Line:
    """A socket before the daemon's that counts what a client sends."""

    def __init__(self, path, daemon):
        self.path, self.target = path, daemon.state_dir / "mpsd.sock"
        self.sent = 0
        self.hold_at = None   # bytes after which nothing gets through
        self.break_at = None  # bytes after which the connection breaks, once
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
                daemon.connect(str(self.target))
            except OSError:
                if self.server.fileno() < 0:
                    return
                client.close()
                continue
            self.open += [client, daemon]
            for one, other, counts in ((client, daemon, True),
                                       (daemon, client, False)):
                threading.Thread(target=self.carry, daemon=True,
                                 args=(one, other, counts)).start()

    def carry(self, source, target, counts):
        try:
            while data := source.recv(1 << 16):
                if counts:
                    self.sent += len(data)
                    if self.hold_at is not None and self.sent >= self.hold_at:
                        self.held.set()
                        while self.hold_at is not None:
                            time.sleep(0.01)
                    if self.break_at is not None and self.sent >= self.break_at:
                        self.break_at = None
                        break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.hold_at = None
        self.server.close()
        for end in self.open:
            end.close()


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

    def test_a_killed_client_goes_on(self):
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

    def test_a_broken_connection_is_made_again(self):
        self.line.break_at = SIZE // 2
        errors = self.expect_stored(self.submit(self.line))
        self.assertIn("lost the connection", errors)
        self.assertLess(self.line.sent, SIZE * 3 // 2)

    def test_a_killed_daemon_goes_on(self):
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

    def test_what_is_there_is_not_read_again(self):
        later = time.time() - 60
        os.utime(self.data, (later, later))
        time.sleep(2.5)  # until no change can hide behind the file's time
        self.expect_stored(self.submit(self.line))
        cache = self.folder / ".cache/mpsctl/hashes"
        self.assertEqual(0o600, cache.stat().st_mode & 0o777)
        self.assertIn(str(self.data), cache.read_text())
        before = self.line.sent
        self.expect_stored(self.submit(self.line))
        self.assertLess(self.line.sent - before, 1 << 20)
