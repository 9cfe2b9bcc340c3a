# SPDX-License-Identifier: Apache-2.0
"""What TensorBoard's own readers, Weights & Biases and MLflow make of a run
that was killed and taken up again."""

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

import runs
from tensorboard.backend.event_processing import event_accumulator

RECIPES = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "recipes"
PATIENCE = 60  # seconds
BLOCK = 32 << 10
# Neither MLflow nor Weights & Biases reaches a network in these modes.
OFFLINE = {"WANDB_MODE": "offline", "WANDB_SILENT": "true",
           "MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true",
           "no_proxy": "127.0.0.1"}


def offline_records(data):
    """The messages in a file of Weights & Biases: a header, then records as in
    LevelDB's log, in blocks and in pieces."""
    assert data[:4] == b":W&B", data[:7]
    at, message = 7, b""
    while at + 7 <= len(data):
        left = BLOCK - at % BLOCK
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        message += data[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield message
            message = b""


def unproxied(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=PATIENCE) as answer:
        return json.loads(answer.read())


class TrackersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="mpsd"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.out = runs.interrupted_run(cls.folder)
        cls.expected = runs.expected(cls.out)

    def recipe(self, name, *args):
        """The id that the recipe prints."""
        done = subprocess.run(
            [sys.executable, "-B", str(RECIPES / name), *args],
            capture_output=True, text=True, timeout=PATIENCE, cwd=self.folder,
            env={**os.environ, **OFFLINE, "HOME": str(self.folder),
                 "WANDB_DIR": str(self.folder),
                 "MLFLOW_TRACKING_URI": (self.folder / "mlruns").as_uri()},
            check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout.strip().splitlines()[-1]

    def check_curves(self, got):
        for tag, wanted in self.expected.items():
            runs.check_same(self, wanted, got(tag), tag)

    def test_tensorboards_reader_has_each_step_once(self):
        events = event_accumulator.EventAccumulator(
            str(self.out / "runs"), size_guidance={"scalars": 0}).Reload()
        self.check_curves(lambda tag: [(s.step, s.value)
                                       for s in events.Scalars(tag)])

    # Its server reads the files by a reader of its own, in Rust.
    def test_tensorboards_server_has_each_step_once(self):
        server = subprocess.Popen(
            [sys.executable, "-m", "tensorboard.main", "--logdir",
             str(self.out), "--host", "127.0.0.1",
             "--port", "0", "--load_fast", "true", "--samples_per_plugin",
             "scalars=10000"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, env={**os.environ, **OFFLINE})
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        guard = threading.Timer(PATIENCE, server.kill)
        guard.start()
        self.addCleanup(guard.cancel)
        url = None
        while url is None:
            line = server.stdout.readline()
            self.assertTrue(line, "TensorBoard ended")
            url = re.search(r"http://127\.0\.0\.1:\d+/", line)
        base = url.group() + "data/plugin/scalars/"

        def curve(tag):
            query = urllib.parse.urlencode({"run": "runs", "tag": tag})
            return [(step, value) for _, step, value
                    in unproxied(f"{base}scalars?{query}")]
        deadline = time.monotonic() + PATIENCE
        # The last evaluation is the last event.
        while ("eval/loss" not in unproxied(base + "tags").get("runs", ())
               or curve("eval/loss")[-1][0] != runs.STEPS):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.check_curves(curve)

    def test_mlflow(self):
        run_id = self.recipe("to_mlflow.py", str(self.out), "--name", "ours")
        os.environ.update(OFFLINE)
        from mlflow import MlflowClient
        client = MlflowClient((self.folder / "mlruns").as_uri())
        run = client.get_run(run_id)
        self.assertEqual(("ours", "FINISHED", "0.001", "4"),
                         (run.info.run_name, run.info.status,
                          run.data.params["training.learning_rate"],
                          run.data.params["lora.r"]))
        self.check_curves(lambda tag: [
            (m.step, m.value) for m in client.get_metric_history(run_id, tag)])

    def test_weights_and_biases(self):
        run_id = self.recipe("to_wandb.py", str(self.out))
        file, = self.folder.glob(f"wandb/offline-run-*/run-{run_id}.wandb")
        from wandb.proto import wandb_internal_pb2
        history, config = {}, {}
        for data in offline_records(file.read_bytes()):
            record = wandb_internal_pb2.Record.FromString(data)
            for item in record.history.item:
                tag = item.key or "/".join(item.nested_key)
                history.setdefault(tag, []).append(
                    (record.history.step.num, json.loads(item.value_json)))
            for item in record.run.config.update:
                config[item.key] = json.loads(item.value_json)
        self.assertEqual((4, 0.001), (config["lora"]["r"],
                                      config["training"]["learning_rate"]))
        self.check_curves(history.__getitem__)
