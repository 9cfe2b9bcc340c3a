# SPDX-License-Identifier: Apache-2.0
"""mpsctl model pull with the real mpsd, and a hub of our own (tests/fakes/
fake_hub.py): a pull that is followed, left, cancelled, killed with its daemon;
what hubs refuse; over TLS; and a job that trains what was pulled."""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import harness

FAKE_HUB = harness.ROOT / "tests/fakes/fake_hub.py"


class Hub:
    """The fake hub as a process, over a folder of models."""

    def __init__(self, root, *options):
        self.root = root
        root.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(FAKE_HUB), str(root), *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.process.stdout.readline())["url"]

    def set_faults(self, *faults):
        request = urllib.request.Request(
            self.url + "/_faults", data=json.dumps(faults).encode())
        urllib.request.urlopen(request, timeout=harness.TIMEOUT).close()

    def log(self):
        with urllib.request.urlopen(self.url + "/_log",
                                    timeout=harness.TIMEOUT) as answer:
            return json.load(answer)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class ModelPullTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "hf"
        self.hub = Hub(self.folder / "hub")
        self.addCleanup(self.hub.close)
        harness.write_model(self.hub.root / "org" / "tiny")

    def start_daemon(self, *options, **more):
        return self.daemon("--hub", self.hub.url, "--hub-allow-private",
                           *options, env={"HF_HUB_CACHE": str(self.cache)},
                           **more)

    def ref(self, name="org--tiny"):
        return self.cache / f"models--{name}" / "refs" / "main"

    def stall(self):
        """The weights come a byte at a time."""
        self.hub.set_faults({"path": "/repos/", "kind": "drip"})

    def wait_for(self, what, condition):
        deadline = time.monotonic() + harness.TIMEOUT
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def part(self):
        """The weights on their way: their blob is named by a SHA-256."""
        parts = [p for p in self.cache.glob("models--*/blobs/*.incomplete")
                 if len(p.stem) == 64]
        return parts[0] if parts else None

    def test_a_job_trains_what_was_pulled(self):
        daemon = self.start_daemon()
        job = harness.write_job(self.folder, model="org/tiny")
        missing = daemon.ctl("submit", str(job), "--detach")
        self.assertNotEqual(missing.returncode, 0)
        self.assertIn("model pull org/tiny", missing.stderr)

        pulled = daemon.ctl("model", "pull", "org/tiny")
        self.assertEqual(pulled.returncode, 0, pulled.stderr)
        self.assertIn("Model org/tiny is there: ", pulled.stdout)
        commit = self.ref().read_text()
        snapshot = self.cache / "models--org--tiny" / "snapshots" / commit
        for file in (self.hub.root / "org/tiny").iterdir():
            if file.name == "README.md":
                continue
            self.assertEqual((snapshot / file.name).read_bytes(),
                             file.read_bytes(), file.name)
        listed = {m["name"]: m
                  for answer in daemon.ctl_json("model", "list")
                  for m in answer.get("models", [answer])}
        self.assertEqual(listed["org/tiny"]["revision"], commit)

        trained = daemon.ctl("submit", str(job))
        self.assertEqual(trained.returncode, 0, trained.stderr)

    def test_a_pull_survives_a_kill_of_its_daemon(self):
        daemon = self.start_daemon()
        self.stall()
        left = daemon.ctl("model", "pull", "--detach", "org/tiny")
        self.assertEqual(left.returncode, 0, left.stderr)
        self.wait_for("bytes of the weights",
                      lambda: self.part() and self.part().stat().st_size > 3)
        daemon.kill()
        came = self.part().stat().st_size
        self.assertFalse(self.ref().exists())
        self.hub.set_faults()
        before = len(self.hub.log())
        daemon.start()
        self.wait_for("the pull to end", self.ref().exists)
        ranges = [e["range"] for e in self.hub.log()[before:]
                  if e["server"] == "cdn"]
        self.assertEqual(ranges, [f"bytes={came}-"])
        weights = next((self.cache / "models--org--tiny/snapshots").glob(
            "*/model.safetensors"))
        self.assertEqual(
            hashlib.sha256(weights.read_bytes()).hexdigest(),
            hashlib.sha256((self.hub.root / "org/tiny/model.safetensors")
                           .read_bytes()).hexdigest())

    def test_a_pull_is_cancelled_and_goes_on_when_asked_again(self):
        daemon = self.start_daemon()
        self.stall()
        self.assertEqual(
            daemon.ctl("model", "pull", "--detach", "org/tiny").returncode, 0)
        refused = daemon.ctl("model", "rm", "org/tiny")
        self.assertNotEqual(refused.returncode, 0)
        cancelled = daemon.ctl("model", "pull", "--cancel", "org/tiny")
        self.assertEqual(cancelled.returncode, 0, cancelled.stderr)
        again = daemon.ctl("model", "pull", "--cancel", "org/tiny")
        self.assertEqual(again.returncode, 4, again.stderr)
        daemon.kill()
        daemon.start()
        time.sleep(0.5)
        self.assertFalse(self.ref().exists(), "a cancelled pull came back")
        self.hub.set_faults()
        pulled = daemon.ctl("model", "pull", "org/tiny")
        self.assertEqual(pulled.returncode, 0, pulled.stderr)

    def test_what_the_hub_refuses_is_told(self):
        for name in ("gated", "private"):
            shutil.copytree(self.hub.root / "org/tiny",
                            self.hub.root / name / "tiny")
        token = self.folder / "token"
        token.write_text("hf_other\n")
        token.chmod(0o600)
        daemon = self.start_daemon("--hub-token-file", str(token))
        for name, code, words in (
                ("gated/tiny", 8, "is gated"),
                ("org/none", 4, "has no model org/none"),
                ("org/tiny@v9", 4, "no revision v9"),
                ("org/../x", 2, ""), ("a--b/c", 2, "'--'")):
            told = daemon.ctl("model", "pull", name)
            self.assertEqual(told.returncode, code, name + told.stderr)
            self.assertIn(words, told.stderr)
        token.write_text("hf_member\n")
        pulled = daemon.ctl("model", "pull", "gated/tiny")
        self.assertEqual(pulled.returncode, 0, pulled.stderr)
        self.assertEqual(daemon.ctl("model", "pull", "private/tiny").returncode,
                         0)
        for entry in self.hub.log():
            if entry["server"] == "cdn":
                self.assertEqual(entry["authorization"], "")

    def test_without_a_hub_pulls_are_off(self):
        told = self.daemon().ctl("model", "pull", "org/tiny")
        self.assertEqual(told.returncode, 2, told.stderr)
        self.assertIn("--hub", told.stderr)

    def test_a_redirect_to_this_machine_is_refused(self):
        daemon = self.daemon("--hub", self.hub.url,
                             env={"HF_HUB_CACHE": str(self.cache)})
        told = daemon.ctl("model", "pull", "org/tiny")
        self.assertNotEqual(told.returncode, 0)
        self.assertIn("--hub-allow-private", told.stderr)
        self.assertEqual([e for e in self.hub.log() if e["server"] == "cdn"],
                         [])

    def test_over_tls(self):
        tls = self.folder / "tls"
        made = subprocess.run(
            [str(harness.BIN / "mpsd"), "tls", "init", "--state-dir",
             str(self.folder / "authority")],
            capture_output=True, text=True, env=harness.environment(),
            check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        tls = self.folder / "authority" / "tls"
        hub = Hub(self.folder / "tls_hub", "--tls", str(tls / "server.crt"),
                  str(tls / "server.key"))
        self.addCleanup(hub.close)
        harness.write_model(hub.root / "org" / "tiny")
        env = {"HF_HUB_CACHE": str(self.cache)}
        daemon = self.daemon("--hub", hub.url, "--hub-allow-private", env=env)
        job = daemon.ctl("model", "pull", "--detach", "org/tiny")
        self.assertNotEqual(job.returncode, 0, "an authority nobody knows")
        daemon.close()
        daemon = self.daemon("--hub", hub.url, "--hub-allow-private",
                             "--hub-ca-file", str(tls / "ca.crt"), env=env)
        pulled = daemon.ctl("model", "pull", "org/tiny")
        self.assertEqual(pulled.returncode, 0, pulled.stderr)


if __name__ == "__main__":
    unittest.main()
