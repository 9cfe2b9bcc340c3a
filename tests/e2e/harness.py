# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: the real mpsd, mpsctl and workers out of
MPSD_BIN_DIR, in temporary folders, and a tiny random model to train."""

import concurrent.futures
import fcntl
import json
import math
import os
import pathlib
import pty
import pwd
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest
import urllib.request
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


def run(program, *args, env=None):
    """One of our programs, run to its end."""
    return subprocess.run(
        [str(BIN / program), *map(str, args)], capture_output=True, text=True,
        env=env or environment(), stdin=subprocess.DEVNULL, timeout=TIMEOUT,
        check=False)


def begin(program, *args, env=None):
    """One of our programs under way, its output in pipes."""
    return subprocess.Popen(
        [str(BIN / program), *map(str, args)], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=env or environment(),
        stdin=subprocess.DEVNULL)


def eventually(holds, said=lambda: "it does not come"):
    """Waits until holds() is true; what it is then. `said` returns why it never
    was."""
    deadline = time.monotonic() + TIMEOUT
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise AssertionError(said())
        time.sleep(0.02)
    return found


def at_once(act, arguments):
    """What act() returns for each argument, a thread each."""
    arguments = list(arguments)
    with concurrent.futures.ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(act, arguments))


_twins = []  # the sockets by which this process holds its free ports


def free_port():
    """A port of the loopback for a server that is still to be started. The
    system gives no port of this range to a program that asks for just any port,
    so no connection takes it meanwhile. Its twin for UDP is held, by which tests
    that run at the same time know that it has been chosen."""
    while True:
        port = random.SystemRandom().randrange(10000, 30000)
        twin = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            twin.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:  # it is taken
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


def write_job(folder, name="job.json", rows=None, called="tiny", **changes):
    """job.json with its data next to it; `called` is the job's name. A change to
    `training` or `lora` adds to what is there; others replace it. None takes a
    field away."""
    rows = [row(*m) for m in MESSAGES] if rows is None else rows
    (folder / "train.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "eval.jsonl").write_text(row("Blood?", "red") + "\n")
    spec = {
        "name": called, "model": "model", "device": "cpu",
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
    assert len(data) == 8 + length + end, "bytes after the last tensor"
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
    goes with the tests of the class. Its adapter becomes their `expected`."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mpsd"))
    test_class.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
    write_model(folder / "model")
    job = write_job(folder, training=training)
    alone = run("mpsd-worker", "--job", job, "--out", folder / "out")
    if alone.returncode != 0:
        raise AssertionError("mpsd-worker alone: " + alone.stderr)
    test_class.expected = (
        folder / "out/adapter/adapter_model.safetensors").read_bytes()
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
    """Options of a Daemon whose workers wait this long at every flush, 14 of
    which are a checkpoint. A run that saves often then takes seconds on the
    quickest machine, too: a test that is held up still acts within it."""
    if sys.platform == "darwin":
        return ()
    return ("--environment", f"LD_PRELOAD={BIN / 'libslow_sync.so'}",
            "--environment", f"SLOW_SYNC_MS={milliseconds}")


def make_certificates(state_dir):
    """Those of a daemon that is still to be started."""
    made = run("mpsd", "tls", "init", "--state-dir", state_dir)
    if made.returncode != 0:
        raise AssertionError("mpsd tls init: " + made.stderr)


class Client:
    """mpsctl with the options that lead it to a daemon, and its environment,
    that of a user without any setting if None."""

    def __init__(self, options=(), env=None):
        self.options, self.environment = options, env

    def ctl(self, *args):
        return run("mpsctl", *self.options, *args, env=self.environment)

    def begin(self, *args):
        return begin("mpsctl", *self.options, *args, env=self.environment)

    def says(self, *args, code=0):
        """What an mpsctl says that ends with this code; of one that fails, the
        errors."""
        result = self.ctl(*args)
        if result.returncode != code:
            raise AssertionError(f"mpsctl {args} ends with {result.returncode}:"
                                 f" {result.stdout}{result.stderr}")
        return result.stderr if code else result.stdout

    def ctl_json(self, *args):
        return [json.loads(line)
                for line in self.says("--json", *args).splitlines()]

    def submit(self, job, *options):
        """The job as it was queued."""
        job, = self.ctl_json("submit", job, "--detach", *options)
        return job

    def show(self, job_id):
        job, = self.ctl_json("show", job_id)
        return job

    def state(self, job_id):
        return self.show(job_id)["state"]

    def watch(self, job_id):
        return Watch(self.options, job_id, self.environment)

    def finish(self, job_id):
        """The job once it has ended."""
        with self.watch(job_id) as watch:
            return watch.finish()

    def succeed(self, job, *options):
        """The job, submitted and run to its end, which is a success."""
        ended = self.finish(self.submit(job, *options)["id"])
        if ended["state"] != "SUCCEEDED":
            raise AssertionError(f"{ended['state']}: {ended['message']}")
        return ended


class Daemon(Client):
    """One mpsd on a state folder; can be stopped, killed and started again."""

    def __init__(self, state_dir, *options, worker=None, env=None,
                 selftest=False):
        super().__init__(("--state-dir", str(state_dir)))
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
        # A worker has none of mpsd's variables but those that mpsd is set to give.
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
        eventually(lambda: self.process.poll() is not None
                   or self.ctl("info").returncode == 0, self.said)
        if self.process.poll() is not None:
            raise AssertionError("mpsd does not start: " + self.said())
        return self

    def said(self):
        return self.output.read_text(errors="replace")

    def await_said(self, words):
        """Waits until the log says so: mpsd does not wait for its log, so a line
        may come after what it reports."""
        eventually(lambda: words in self.said(),
                   lambda: f"never '{words}': {self.said()}")

    def metrics(self):
        info, = self.ctl_json("info")
        url = f"http://{info['metrics_address']}/metrics"
        straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with straight.open(url, timeout=TIMEOUT) as answer:
            return answer.read().decode()

    def metric(self, name):
        return next(float(line.split()[-1])
                    for line in self.metrics().splitlines()
                    if line.startswith(name + " "))

    def workers(self):
        return children(self.process.pid)

    def terminate(self):
        """SIGTERM; the exit status."""
        self.process.terminate()
        return self.process.wait(TIMEOUT)

    def kill(self):
        self.process.kill()
        self.process.wait(TIMEOUT)

    def restart(self):
        """After a kill -9."""
        self.kill()
        self.start()

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

    def until_step(self, step):
        return self.until(lambda e: e.get("progress", {}).get("step", 0)
                          >= step)

    def until_state(self, state):
        return self.until(lambda e: e.get("state", {}).get("state") == state)

    def until_note(self, words):
        return self.until(lambda e: words in e.get("note", ""))

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


class Terminal:
    """A program on a terminal of its own, which it leads as a shell's does."""

    def __init__(self, command, env):
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            # The size is there before the program asks for it.
            fcntl.ioctl(0, termios.TIOCSWINSZ,
                        struct.pack("HHHH", 24, 80, 0, 0))
            os.execve(command[0], command, {**env, "TERM": "xterm"})
        self.output = b""
        self.code = None

    @property
    def text(self):
        return self.output.decode(errors="replace")

    def read(self, seconds):
        """Whether something came."""
        ready, _, _ = select.select([self.end], [], [], seconds)
        if not ready:
            return False
        try:
            came = os.read(self.end, 1 << 16)
        except OSError:  # no process has the other end any more
            time.sleep(seconds)
            return False
        self.output += came
        return bool(came)

    def find(self, pattern):
        return re.search(pattern, self.text)

    def until(self, pattern):
        """Waits for text that matches; the match."""
        deadline = time.monotonic() + TIMEOUT
        while not (found := self.find(pattern)):
            if time.monotonic() > deadline or self.ended():
                raise AssertionError(f"no '{pattern}' in: {self.text[-4000:]}")
            self.read(0.05)
        return found

    def type(self, keys):
        os.write(self.end, keys)

    def echoes(self):
        return bool(termios.tcgetattr(self.end)[3] & termios.ECHO)

    def ended(self):
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def wait(self):
        """The exit code, once the program has ended."""
        deadline = time.monotonic() + TIMEOUT
        while not self.ended():
            if time.monotonic() > deadline:
                raise AssertionError(f"it does not end: {self.text}")
            self.read(0.05)
        while self.read(0.01):  # all that it said
            pass
        return self.code

    def close(self):
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.end)


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
        return self.unstarted(*options, **more).start()

    def unstarted(self, *options, **more):
        daemon = Daemon(self.folder / "state", *options, **more)
        self.addCleanup(daemon.close)
        return daemon

    eventually = staticmethod(eventually)

    def make_certificates(self):
        make_certificates(self.folder / "state")

    def pause(self, daemon):
        """Stops the one worker of a daemon where it is; its pid."""
        worker, = daemon.workers()
        os.kill(worker, signal.SIGSTOP)
        self.addCleanup(_signal, worker, signal.SIGKILL)
        return worker

    def download(self, daemon, job_id, *options):
        output = self.folder / f"download-{job_id}{'-'.join(options)}"
        daemon.says("download", job_id, "--output", output, *options)
        return output

    def check_adapter(self, daemon, job_id):
        """It is `expected` to the byte."""
        adapter = self.download(daemon, job_id) / "adapter_model.safetensors"
        self.assertEqual(self.expected, adapter.read_bytes(),
                         "another adapter than an undisturbed run's")


class SharedDaemonTest(EndToEndTest):
    """Tests that share a daemon, `mpsd`: each that kills it starts it again,
    and none leaves a job that takes the device."""

    STATE = "state"
    OPTIONS = ()
    WORKER = None

    @classmethod
    def options(cls, state):
        """Those of the daemon, once its certificates or files are there."""
        return cls.OPTIONS

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="mpsd"))
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        state = folder / cls.STATE
        cls.mpsd = Daemon(state, *cls.options(state), worker=cls.WORKER)
        cls.addClassCleanup(cls.mpsd.close)
        cls.mpsd.start()
