# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: the real mpsd, mpsctl and workers out of
MPSD_BIN_DIR, in temporary folders, and a tiny random model to train."""

import json
import math
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib

BIN = pathlib.Path(os.environ.get("MPSD_BIN_DIR", "build/release/bin")).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT = float(os.environ.get("MPSD_E2E_TIMEOUT", "60"))  # s, of any one wait

MESSAGES = [("2+2?", "4"), ("Sky?", "blue"), ("Grass?", "green"),
            ("3-1?", "2"), ("Snow?", "white"), ("1+2?", "3"),
            ("Coal?", "black"), ("5-4?", "1")]


# Who submits through the socket: the account that the tests run as.
ACCOUNT = pwd.getpwuid(os.geteuid()).pw_name


def environment(**more):
    """That of a user without any setting of mpsd. One thread a worker: the
    model is too small for two, which would wait for each other on a busy
    machine."""
    plain = {k: v for k, v in os.environ.items()
             if not k.startswith(("MPSD_", "FAKE_WORKER_", "GRPC_"))}
    return {**plain, "HOME": "/nonexistent", "USER": "ann",
            "OMP_NUM_THREADS": "1", **more}


_twins = []  # the sockets by which this process holds its free ports


def free_port():
    """A port of the loopback for a server that is still to be started. The
    system gives ports of this range to nobody who asks for just any port, so
    no connection takes it meanwhile. Its twin for UDP is held, which tells
    the tests beside this one that it has been chosen."""
    while True:
        port = random.SystemRandom().randrange(10000, 30000)
        twin = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            twin.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:  # somebody has it
            twin.close()
            continue
        _twins.append(twin)
        return port


def row(question, answer):
    return json.dumps({"messages": [{"role": "user", "content": question},
                                    {"role": "assistant", "content": answer}]})


def write_model(folder):
    """A two-layer Llama of 24k parameters with a tokenizer of ASCII letters."""
    folder.mkdir(parents=True)
    for source in (ROOT / "tests/golden/llama2/model",
                   ROOT / "tests/e2e/testdata"):
        for file in source.iterdir():
            shutil.copy(file, folder / file.name)
    return folder


def write_job(folder, name="job.json", rows=None, **changes):
    """job.json with its data beside it. A change to `training` or `lora` adds
    to what is there; others replace it. None takes a field away."""
    rows = [row(*m) for m in MESSAGES] if rows is None else rows
    (folder / "train.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "eval.jsonl").write_text(row("Blood?", "red") + "\n")
    spec = {
        "name": "tiny", "model": "model", "device": "cpu",
        "dataset": {"train": ["train.jsonl"], "eval": ["eval.jsonl"]},
        "lora": {"r": 4, "lora_alpha": 8, "lora_dropout": 0.1,
                 "target_modules": "all-linear"},
        "training": {"max_steps": 8, "per_device_train_batch_size": 4,
                     "learning_rate": 0.01, "max_length": 64,
                     "save_steps": 4},
    }
    for key, value in changes.items():
        if isinstance(spec.get(key), dict) and isinstance(value, dict):
            spec[key] = {**spec[key], **value}
        elif value is None:
            spec.pop(key, None)
        else:
            spec[key] = value
    path = folder / name
    path.write_text(json.dumps(spec, indent=2))
    return path


def safetensors(path):
    """{name: values} of a safetensors file; checks that header and sizes fit.
    Only float32, as adapters are stored."""
    data = pathlib.Path(path).read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    tensors, end = {}, 0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", (name, entry["dtype"])
        begin, end_of = entry["data_offsets"]
        count = math.prod(entry["shape"])
        assert end_of - begin == 4 * count, name
        raw = data[8 + length + begin:8 + length + end_of]
        tensors[name] = struct.unpack(f"<{count}f", raw)
        end = max(end, end_of)
    assert len(data) == 8 + length + end, "bytes behind the last tensor"
    return tensors


def write_png(path, colour, size=8):
    """A square of one colour (red, green, blue), and a dot that is not."""
    write_pixels(path, bytes(3) + bytes(colour) * (size * size - 1), size)


def write_pixels(path, pixels, size):
    """A square PNG; `pixels` are red, green, blue, row by row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stride = size * 3
    raw = b"".join(b"\0" + pixels[at:at + stride]
                   for at in range(0, size * stride, stride))

    def chunk(kind, data):
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", crc)

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
                     + chunk(b"IDAT", zlib.compress(raw, 1))
                     + chunk(b"IEND", b""))


def undisturbed_run(test_class, training):
    """The folder of a run of write_job(training=…) by the worker alone, which
    goes with the tests of the class."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mpsd"))
    test_class.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
    write_model(folder / "model")
    job = write_job(folder, training=training)
    alone = subprocess.run(
        [str(BIN / "mpsd-worker"), "--job", str(job), "--out",
         str(folder / "out")], capture_output=True, text=True,
        env=environment(), timeout=TIMEOUT, check=False)
    if alone.returncode != 0:
        raise AssertionError("mpsd-worker alone: " + alone.stderr)
    return folder / "out"


def children(pid):
    """Pids of the processes that `pid` started."""
    if not os.path.isdir("/proc/self"):
        listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True,
                                 capture_output=True, text=True).stdout
        pairs = (line.split() for line in listing.splitlines())
        return [int(child) for child, parent in pairs if int(parent) == pid]
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def slow_disk(milliseconds):
    """Options of a Daemon whose workers wait so long at every flush, 14 of
    which are a checkpoint. A run that saves often then takes seconds on the
    quickest machine, too: a test that is held up still acts within it."""
    if sys.platform == "darwin":
        return ()
    return ("--environment", f"LD_PRELOAD={BIN / 'libslow_sync.so'}",
            "--environment", f"SLOW_SYNC_MS={milliseconds}")


class Daemon:
    """One mpsd on a state folder; can be stopped, killed and started again."""

    def __init__(self, state_dir, *options, worker=None, env=None,
                 selftest=False):
        self.state_dir = pathlib.Path(state_dir)
        self.command = [
            str(BIN / "mpsd"), "--state-dir", str(state_dir),
            "--metrics-address", "127.0.0.1:0", "--device-lock", "off",
            "--retry-backoff-seconds", "0.05", *options]
        # It takes a second to start, in every new folder; the tests of the
        # self-test ask for it.
        if not selftest:
            self.command.append("--skip-selftest")
        if worker is not None:
            self.command += ["--worker", str(BIN / worker)]
        # A worker has none of mpsd's variables that mpsd was not told to give.
        for name, value in (env or {}).items():
            if name.startswith("FAKE_WORKER_"):
                self.command += ["--environment", f"{name}={value}"]
        self.env = environment(**(env or {}))
        self.output = self.state_dir.parent / "mpsd.out"
        self.process = None

    def start(self, stderr=None):
        with open(self.output, "ab") as output:
            self.process = subprocess.Popen(
                self.command, stdout=output, stderr=stderr or output,
                env=self.env, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + TIMEOUT
        while self.ctl("info").returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("mpsd does not start: " + self.said())
            time.sleep(0.02)
        return self

    def said(self):
        return self.output.read_text(errors="replace")

    def await_said(self, words):
        """Waits until the log says so: mpsd waits for nobody who writes it,
        so a line may come after what it tells of."""
        deadline = time.monotonic() + TIMEOUT
        while words not in (said := self.said()):
            if time.monotonic() > deadline:
                raise AssertionError(f"never '{words}': {said}")
            time.sleep(0.02)

    def ctl(self, *args):
        """Runs mpsctl against this daemon."""
        return subprocess.run(
            [str(BIN / "mpsctl"), "--state-dir", str(self.state_dir), *args],
            capture_output=True, text=True, env=environment(), timeout=TIMEOUT,
            check=False)

    def ctl_json(self, *args):
        result = self.ctl("--json", *args)
        if result.returncode != 0:
            raise AssertionError(f"mpsctl {args}: {result.stderr}")
        return [json.loads(line) for line in result.stdout.splitlines()]

    def submit(self, job, *options):
        """The job as it was queued."""
        job, = self.ctl_json("submit", str(job), "--detach", *options)
        return job

    def show(self, job_id):
        job, = self.ctl_json("show", job_id)
        return job

    def watch(self, job_id):
        return Watch(["--state-dir", str(self.state_dir)], job_id)

    def finish(self, job_id):
        """The job once it has ended."""
        with self.watch(job_id) as watch:
            return watch.finish()

    def workers(self):
        return children(self.process.pid)

    def terminate(self):
        """SIGTERM; the exit status."""
        self.process.terminate()
        return self.process.wait(TIMEOUT)

    def kill(self):
        self.process.kill()
        self.process.wait(TIMEOUT)

    def close(self):
        if self.process is None or self.process.poll() is not None:
            return
        for worker in self.workers():
            _signal(worker, signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()


class Watch:
    """`mpsctl watch --json` of one job, an event at a time."""

    def __init__(self, server, job_id, env=None):
        """`server`: the options that lead to the daemon."""
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [str(BIN / "mpsctl"), *server, "--json", "watch", job_id],
            stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env=env or environment())
        self.guard = None
        self.begin_wait()
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.guard.cancel()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()

    def begin_wait(self):
        """What is waited for from now on has to come within thrice TIMEOUT,
        and each event within TIMEOUT: a busy machine makes a run long."""
        self.end = time.monotonic() + 3 * TIMEOUT
        self.guard_next()

    def guard_next(self):
        if self.guard is not None:
            self.guard.cancel()
        self.guard = threading.Timer(
            max(0, min(TIMEOUT, self.end - time.monotonic())),
            self.process.kill)
        self.guard.start()

    def next(self):
        """The next object, None when mpsctl has ended."""
        line = self.process.stdout.readline()
        if not line:
            return None
        self.guard_next()
        event = json.loads(line)
        self.events.append(event)
        return event

    def until(self, wanted):
        """The first event from now on of which wanted(event) holds."""
        self.begin_wait()
        while (event := self.next()) is not None:
            if wanted(event):
                return event
        raise AssertionError(f"no such event, the last are {self.events[-3:]}"
                             f" {self.said()}")

    def until_checkpoint(self, step):
        return self.until(lambda e: e.get("checkpoint", {}).get("step", -1)
                          >= step)

    def finish(self):
        """The job, once it has ended; then `code` is mpsctl's exit code."""
        self.begin_wait()
        while self.next() is not None:
            pass
        self.code = self.process.wait()
        if not self.events or "id" not in self.events[-1]:
            raise AssertionError(f"no end in time: {self.said()}")
        return self.events[-1]

    def steps(self):
        return [e["progress"]["step"] for e in self.events if "progress" in e]

    def said(self):
        self.errors.seek(0)
        return self.errors.read()


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class EndToEndTest(unittest.TestCase):
    """A temporary folder with a model in it, and daemons that end with the
    test."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mpsd"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.model = write_model(self.folder / "model")

    def daemon(self, *options, **more):
        daemon = Daemon(self.folder / "state", *options, **more)
        self.addCleanup(daemon.close)
        return daemon.start()

    def pause(self, daemon):
        """Stops the one worker of a daemon where it is; its pid."""
        worker, = daemon.workers()
        os.kill(worker, signal.SIGSTOP)
        self.addCleanup(_signal, worker, signal.SIGKILL)
        return worker

    def download(self, daemon, job_id, *options):
        output = self.folder / f"download-{job_id}{'-'.join(options)}"
        result = daemon.ctl("download", job_id, "--output", str(output),
                            *options)
        self.assertEqual(0, result.returncode, result.stderr)
        return output
