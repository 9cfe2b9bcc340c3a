# SPDX-License-Identifier: Apache-2.0
"""How long mpsctl needs to bring a data set to the daemon, next to rsync, over
loopback in one run (built with the tests; needs rsync and sshd):

  MPSD_BIN_DIR=build/release/bin python3 tests/bench/upload_bench.py

Two data sets, many small files and one large one, each sent twice: at first
nothing is there, then everything is. mpsctl's time is that of `submit
--detach`: hashes, upload, flush to the drive and the job in the queue. rsync
checks no content, flushes nothing and queues nothing: `rsync` speaks to a
daemon of its own in plain text, `rsync over ssh` encrypts as TLS does."""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402
import sshd  # noqa: E402
from training_test import write_vit  # noqa: E402


def write_data(folder, files, file_bytes, large_bytes):
    """One job of many small files and one of a large one."""
    folder.mkdir()
    for i in range(files):
        path = folder / "images" / f"class{i % 10}" / f"{i:06}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(file_bytes))
    (folder / "large").mkdir()
    with open(folder / "large/large.safetensors", "wb") as large:
        for _ in range(large_bytes >> 20):
            large.write(os.urandom(1 << 20))
    write_vit(folder / "vit")
    for name, train in (("small", "images"), ("large",
                                              "large/large.safetensors")):
        (folder / f"{name}.json").write_text(json.dumps({
            "model": str(folder / "vit"), "task": "IMAGE_CLS", "device": "cpu",
            "name": "fake:ok", "fine_tune_type": "full", "from_scratch": True,
            "dataset": {"train": [train]}, "training": {"max_steps": 1}}))
    os.sync()


def run(command, env=None):
    """Seconds."""
    begin = time.monotonic()
    result = subprocess.run([str(part) for part in command], env=env,
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"{command}: {result.stderr}")
    return time.monotonic() - begin


class Mpsd:
    def __init__(self, folder, data, over):
        self.name = f"mpsctl, {over}"
        self.folder, self.data, self.over = folder, data, over
        folder.mkdir()
        state = folder / "state"
        options = ["--log-stderr", "off", "--model-root", str(data)]
        self.env = harness.environment(HOME=str(folder))
        self.server = ["--state-dir", state]
        if over == "TLS":
            port = harness.free_port()
            options += ["--listen", f"localhost:{port}"]
            harness.make_certificates(state)
        self.daemon = harness.Daemon(state, *options, worker="fake_worker")
        self.daemon.start()
        if over == "TLS":
            shown = json.loads(harness.run("mpsd", "tls", "show", "--json",
                                           "--state-dir", state).stdout)
            token = folder / "token"
            token.write_text(self.daemon.says(
                "token", "create", "--user", "ann", "--role", "user"))
            token.chmod(0o600)
            self.server = []
            run([harness.BIN / "mpsctl", "login", f"localhost:{port}",
                 "--fingerprint", shown["fingerprint"], "--token-file", token],
                self.env)

    def send(self, kind):
        return run([harness.BIN / "mpsctl", *self.server, "submit", "--detach",
                    self.data / f"{kind}.json"], self.env)

    def close(self):
        self.daemon.close()
        shutil.rmtree(self.folder)


class Rsync:
    def __init__(self, folder, data):
        self.name = "rsync"
        self.folder, self.data = folder, data
        (folder / "there").mkdir(parents=True)
        self.port = harness.free_port()
        config = folder / "rsyncd.conf"
        config.write_text(f"use chroot = no\nuid = {os.getuid()}\n"
                          f"gid = {os.getgid()}\n[there]\npath = "
                          f"{folder}/there\nread only = no\n")
        self.server = subprocess.Popen(
            ["rsync", "--daemon", "--no-detach", f"--config={config}",
             "--address=127.0.0.1", f"--port={self.port}"])
        time.sleep(0.5)

    def send(self, kind):
        what = "images" if kind == "small" else "large"
        return run(["rsync", "-a", self.data / what,
                    f"rsync://127.0.0.1:{self.port}/there/"])

    def close(self):
        self.server.terminate()
        self.server.wait()
        shutil.rmtree(self.folder)


class RsyncOverSsh:
    def __init__(self, folder, data):
        self.name = "rsync over ssh"
        self.folder, self.data = folder, data
        (folder / "there").mkdir(parents=True)
        self.sshd = sshd.Sshd(folder / "ssh")
        self.sshd.start()

    def send(self, kind):
        what = "images" if kind == "small" else "large"
        return run(["rsync", "-a", "-e", f"ssh -F {self.sshd.folder}/config",
                    self.data / what, f"studio:{self.folder}/there/"])

    def close(self):
        self.sshd.close()
        shutil.rmtree(self.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--file-bytes", type=int, default=4096)
    parser.add_argument("--large-bytes", type=int, default=5 << 30)
    parser.add_argument("--only", choices=["small", "large"])
    parser.add_argument("--without-rsync", action="store_true")
    parser.add_argument("--folder", type=pathlib.Path,
                        help="keep the data set here for another run")
    args = parser.parse_args()
    kinds = [args.only] if args.only else ["small", "large"]
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = pathlib.Path(name)
        data = args.folder or folder / "data"
        if not data.exists():
            write_data(data, args.files, args.file_bytes, args.large_bytes)
        ways = [lambda: Mpsd(folder / "socket", data, "socket"),
                lambda: Mpsd(folder / "tls", data, "TLS")]
        if not args.without_rsync:
            ways += [lambda: Rsync(folder / "rsync", data),
                     lambda: RsyncOverSsh(folder / "over_ssh", data)]
        for make in ways:
            with contextlib.closing(make()) as way:
                for kind in kinds:
                    first = way.send(kind)
                    second = way.send(kind)
                    print(f"{way.name:16} {kind:6} first {first:6.2f} s   "
                          f"again {second:6.2f} s", flush=True)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        print(f"largest process: {peak >> 10} MiB")


if __name__ == "__main__":
    main()
