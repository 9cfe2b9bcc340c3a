# SPDX-License-Identifier: Apache-2.0
"""The Python package `mpsd`: its wheel is built and installed into an empty
folder, and a program uses it against real daemons."""

import contextlib
import hashlib
import io
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import harness
import sshd

SITE = pathlib.Path(tempfile.mkdtemp(prefix="mpsd"))
mpsd = None  # the installed package


def setUpModule():
    """The wheel, in a folder of its own."""
    global mpsd
    unittest.addModuleCleanup(shutil.rmtree, SITE, ignore_errors=True)
    built = subprocess.run(
        [str(harness.ROOT / "client/python/build_wheel.sh"), str(SITE / "dist")],
        capture_output=True, text=True, check=False)
    if built.returncode != 0:
        raise AssertionError(f"build_wheel.sh: {built.stdout}{built.stderr}")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-index",
         "--no-deps", "--target", str(SITE / "site"), built.stdout.strip()],
        check=True)
    sys.path.insert(0, str(SITE / "site"))
    import mpsd as package
    mpsd = package


def chat(question, answer):
    return {"messages": [{"role": "user", "content": question},
                         {"role": "assistant", "content": answer}]}


class PythonClientTest(harness.SharedDaemonTest):
    WORKER = "fake_worker"

    def client(self, daemon=None):
        client = mpsd.Client(str((daemon or self.mpsd).state_dir / "mpsd.sock"))
        self.addCleanup(client.close)
        return client

    def spec(self, name="tiny", **training):
        return {"name": name, "model": str(self.model), "device": "cpu",
                "dataset": {"train": ["train.jsonl"]},
                "lora": {"r": 4, "target_modules": "all-linear"},
                "training": {"max_steps": 4, "max_length": 64,
                             "per_device_train_batch_size": 4,
                             "learning_rate": 0.01, **training}}

    ROWS = {"train.jsonl": [chat(q, a) for q, a in harness.MESSAGES]}

    def test_a_job_from_rows_to_its_adapter(self):
        daemon = self.daemon()
        client = self.client(daemon)
        job = client.submit(self.spec(save_steps=2), data=self.ROWS,
                            labels={"team": "vision"}, priority=3)
        self.assertEqual({"team": "vision"}, dict(job.message.labels))
        events = list(job.watch())
        steps = [e for e in events if isinstance(e, mpsd.Step)]
        # Fast steps share an event.
        self.assertEqual(4, steps[-1].step)
        self.assertTrue(all(s.loss > 0 and s.tokens > 0 for s in steps))
        self.assertEqual("SUCCEEDED", events[-1].state)
        self.assertEqual("SUCCEEDED", job.state)
        self.assertEqual([2, 4], [e.step for e in events if isinstance(
            e, mpsd.CheckpointWritten)])
        self.assertTrue(any(job.download(
            self.folder / "step", checkpoint=2).rglob("*.safetensors")))
        folder = job.download(self.folder / "py" / "adapter")
        daemon.says("download", job.id, "--output", self.folder / "ctl")
        for file in folder.rglob("*"):
            if file.is_file():
                same = self.folder / "ctl" / file.relative_to(folder)
                self.assertEqual(same.read_bytes(), file.read_bytes(), file)
        self.assertTrue((folder / "adapter_model.safetensors").is_file())
        with self.assertRaisesRegex(FileExistsError, "exists"):
            job.download(folder)
        self.assertEqual([job.id], [j.id for j in client.jobs(
            states=["SUCCEEDED"], labels={"team": "vision"})])
        self.assertEqual("SUCCEEDED", client.job(job.id).state)
        with self.assertRaisesRegex(mpsd.MpsdError, "no job") as raised:
            client.job("01KAH0000000000000000000AA")
        self.assertEqual("NOT_FOUND", raised.exception.code.name)

    def test_a_job_json_with_files_next_to_it(self):
        client = self.client()
        path = harness.write_job(self.folder, training={"max_steps": 3})
        job = client.submit(path)
        self.assertEqual("SUCCEEDED", job.wait(harness.TIMEOUT).state)
        self.assertEqual(str(self.model.resolve()), job.spec["model"])

    def test_files_of_all_sizes_and_forms(self):
        client = self.client()
        large = json.dumps(chat("x", "y" * 3_000_000)).encode() + b"\n"
        (self.folder / "given.jsonl").write_bytes(large)
        spec = self.spec()
        spec["dataset"] = {"train": ["a.jsonl", "b.jsonl", "c.jsonl"],
                           "eval": "d.jsonl"}
        small = json.dumps(chat("2+2?", "4")).encode() + b"\n"
        job = client.submit(spec, data={
            "a.jsonl": self.folder / "given.jsonl", "b.jsonl": small,
            "c.jsonl": (chat(str(i), str(i)) for i in range(10)),
            "d.jsonl": [chat("Grüße?", "ja")]})
        stored = {hashlib.sha256(pathlib.Path(p).read_bytes()).hexdigest()
                  for p in job.spec["dataset"]["train"]}
        self.assertIn(hashlib.sha256(large).hexdigest(), stored)
        self.assertIn(hashlib.sha256(small).hexdigest(), stored)
        self.assertIn("Grüße", pathlib.Path(
            job.spec["dataset"]["eval"][0]).read_text(encoding="utf-8"))

    def test_a_folder_of_images(self):
        for name, colour in (("red", (255, 0, 0)), ("blue", (0, 0, 255))):
            harness.write_png(self.folder / "img" / name / "1.png", colour)
        (self.folder / "img" / ".hidden").write_text("no")
        collector = mpsd._files.Collector(
            {"task": "IMAGE_CLS", "dataset": {"train": "img"}}, self.folder, {})
        self.assertEqual(["img/blue/1.png", "img/red/1.png"],
                         sorted(i.path for i in collector.run()))

    def test_errors_name_the_field_and_queue_nothing(self):
        client = self.client()
        cases = [
            ("INVALID_ARGUMENT", "learning_rat", dict(
                spec=self.spec(learning_rat=1))),
            ("INVALID_ARGUMENT", "does not name", dict(
                spec=self.spec(), data={**self.ROWS, "other.jsonl": b"{}"})),
            ("NOT_FOUND", "there is no file", dict(spec=self.spec(), data={})),
            ("FAILED_PRECONDITION", "org/nowhere", dict(
                spec={**self.spec(), "model": "org/nowhere"})),
            ("INVALID_ARGUMENT", "row 2", dict(
                spec=self.spec(), data={"train.jsonl": [{}, 3]})),
            ("INVALID_ARGUMENT", "deep.json", dict(
                spec=self.folder / "deep.json")),
        ]
        (self.folder / "deep.json").write_text("[" * 100_000)
        before = [job.id for job in client.jobs()]
        for code, words, arguments in cases:
            arguments.setdefault("data", self.ROWS)
            with self.subTest(words), self.assertRaisesRegex(
                    mpsd.MpsdError, words) as raised:
                client.submit(**arguments)
            self.assertEqual(code, raised.exception.code.name)
        self.assertEqual(before, [job.id for job in client.jobs()])

    def test_a_failed_job_is_an_error_with_its_reason(self):
        client = self.client()
        job = client.submit(self.spec("fake:rejected"), data=self.ROWS)
        with self.assertRaisesRegex(mpsd.JobFailed, "train.jsonl:3") as raised:
            job.download(self.folder / "none")
        self.assertIs(job, raised.exception.job)
        self.assertFalse((self.folder / "none").exists())
        self.assertEqual("FAILED", job.wait(check=False).state)

    def test_cancel_and_a_wait_that_gives_up(self):
        client = self.client(self.daemon(
            "--stop-grace-seconds", "0.3", worker="fake_worker"))
        job = client.submit(self.spec("fake:hang"), data=self.ROWS)
        with self.assertRaises(TimeoutError):
            job.wait(0.3)
        job.cancel()
        self.assertEqual("CANCELLED",
                         job.wait(harness.TIMEOUT, check=False).state)

    def test_watching_continues_after_a_kill(self):
        daemon = self.daemon()
        client = self.client(daemon)
        job = client.submit(self.spec(max_steps=30, save_steps=5),
                            data=self.ROWS)
        seen = []
        for event in job.watch(patience=harness.TIMEOUT):
            seen.append(event.sequence)
            if isinstance(event, mpsd.CheckpointWritten) and event.step == 10:
                daemon.restart()
        self.assertEqual("SUCCEEDED", job.state)
        self.assertEqual(list(range(1, len(seen) + 1)), seen)

    def test_an_upload_resumes_where_it_broke_off(self):
        client = self.client()
        one = mpsd._files.of_bytes("a", os.urandom(6 << 20))
        api = mpsd.v1.artifacts_pb2

        def broken():
            yield api.UploadRequest(header=api.UploadRequest.Header(
                sha256=one.sha256, size_bytes=one.size))
            for piece in itertools.islice(one.pieces(), 4):
                yield api.UploadRequest(data=piece)
            raise OSError("the laptop's lid was closed")

        find = api.FindBlobsRequest(sha256=[one.sha256])

        def is_begun():
            with self.assertRaises(Exception):
                client._artifacts.Upload(broken())
            return client._artifacts.FindBlobs(find).partial

        # gRPC may cancel the call before it has sent a piece.
        self.eventually(is_begun)
        asked = []

        class Watched(mpsd._files.Input):
            def pieces(self, offset=0):
                asked.append(offset)
                return super().pieces(offset)

        mpsd._files.send(client._artifacts, [Watched(
            "a", one.sha256, one.size, one.source)])
        self.assertEqual(1, len(asked))
        self.assertGreater(asked[0], 0)
        found = client._artifacts.FindBlobs(find)
        self.assertEqual([one.sha256], list(found.present))

    def test_many_threads_share_a_client(self):
        client = self.client()
        ids = harness.at_once(lambda number: client.submit(
            self.spec(f"job {number}"), data=self.ROWS).id, range(20))
        self.assertEqual(20, len(set(ids)))
        self.assertEqual(set(ids), {job.id for job in client.jobs(limit=20)})
        self.assertEqual(7, len(list(itertools.islice(client.jobs(), 7))))

    def test_no_daemon_there(self):
        client = mpsd.Client(str(self.folder / "none.sock"))
        self.addCleanup(client.close)
        with self.assertRaises(mpsd.Unreachable):
            client.info()
        with self.assertRaises(mpsd.Unreachable):
            client.submit(self.spec(), data=self.ROWS)
        for server in ("ssh://", "ssh://-oProxyCommand=x", "ssh://a b",
                       "ssh://-a@studio", "studio", "studio:x"):
            with self.assertRaisesRegex(mpsd.MpsdError, "expected"):
                mpsd.Client(server)

    @unittest.skipUnless(sshd.PROGRAM, "no sshd on this machine")
    def test_over_ssh(self):
        server = sshd.Sshd(self.folder / "sshd")
        self.addCleanup(server.close)
        runtime = self.folder / "r"
        runtime.mkdir()
        state = self.folder / "Application Support"
        daemon = harness.Daemon(state, worker="fake_worker")
        self.addCleanup(daemon.close)
        daemon.start()
        url = f"ssh://studio{state / 'mpsd.sock'}"
        with unittest.mock.patch.dict(os.environ, {
                "MPSD_SSH": str(server.folder / "ssh"),
                "TMPDIR": str(runtime)}), unittest.mock.patch.object(
                    tempfile, "tempdir", None):
            with self.assertRaisesRegex(mpsd.Unreachable, "ssh says: "):
                mpsd.Client(url)
            server.start()
            with mpsd.Client(url) as client:
                job = client.submit(self.spec(name="fake:ok-slow",
                                              max_steps=500), data=self.ROWS)
                steps = 0
                for event in job.watch():
                    steps += isinstance(event, mpsd.Step)
                    if steps == 3:
                        steps += 1
                        # The connection breaks; the tunnel comes back, and the
                        # stream resumes where it was.
                        for pid in server.sessions():
                            with contextlib.suppress(ProcessLookupError):
                                os.kill(pid, signal.SIGKILL)
                self.assertEqual("SUCCEEDED", job.state)
                live = server.sessions()[-1]
                self.assertTrue(sshd.alive(live))
            self.eventually(lambda: not sshd.alive(live))
            self.assertEqual([], list(runtime.iterdir()))
            with self.assertRaisesRegex(mpsd.Unreachable, "no mpsd runs here"):
                mpsd.Client("ssh://studio/nowhere")
            self.assertEqual([], list(runtime.iterdir()))
            server.trust(None)
            with self.assertRaisesRegex(mpsd.MpsdError, "Host key") as raised:
                mpsd.Client(url)
            self.assertEqual("UNAUTHENTICATED", raised.exception.code.name)

    def test_tls_and_tokens(self):
        port = harness.free_port()
        self.make_certificates()
        daemon = self.daemon("--listen", f"127.0.0.1:{port}", "--model-root",
                             str(self.folder), worker="fake_worker")
        token = daemon.says("admin", "token", "create", "--user", "bob", "--role",
                            "user").strip()
        server = f"localhost:{port}"
        ca = self.folder / "state/tls/ca.crt"
        client = mpsd.Client(server, token=token, ca=ca)
        self.addCleanup(client.close)
        self.assertNotIn(token, repr(client))
        job = client.submit(self.spec(), data=self.ROWS)
        self.assertEqual("bob", job.wait(harness.TIMEOUT).message.owner)
        self.assertEqual("bob", client.info().you.user)
        # A model that was pushed by its name, and a job that starts from
        # another's adapter.
        daemon.says("model", "push", self.model, "--name", "bob/tiny")
        spec = {**self.spec(), "model": "bob/tiny"}
        first = client.submit(spec, data=self.ROWS)
        del spec["lora"]
        chained = client.submit({**spec, "adapter": f"job:{first.id}"},
                                data=self.ROWS)
        self.assertEqual([first.id], list(chained.message.after))
        chained.wait(harness.TIMEOUT)
        self.assertEqual([chained.id, first.id, job.id],
                         [job.id for job in client.jobs()])
        for wrong in ({}, {"token": "mpsd_" + "a" * 43}):
            with mpsd.Client(server, ca=ca, **wrong) as other:
                with self.assertRaises(mpsd.MpsdError) as raised:
                    other.info()
            self.assertEqual("UNAUTHENTICATED", raised.exception.code.name)
        with mpsd.Client(server, token=token) as other:  # an unknown authority
            with self.assertRaises(mpsd.Unreachable):
                other.info()

    def test_the_notebook(self):
        daemon = self.daemon()
        book = json.loads((harness.ROOT / "client/python/examples"
                           / "fine_tune.ipynb").read_text(encoding="utf-8"))
        cells = ["".join(cell["source"]) for cell in book["cells"]
                 if cell["cell_type"] == "code"]
        self.assertGreaterEqual(len(cells), 5)
        names = {"__name__": "__main__"}
        said = io.StringIO()
        os.environ.update(MPSD_SERVER=str(daemon.state_dir / "mpsd.sock"),
                          MPSD_EXAMPLE_MODEL=str(self.model))
        here = os.getcwd()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(said):
                for number, cell in enumerate(cells):
                    exec(compile(cell, f"cell {number}", "exec"), names)
        finally:
            os.chdir(here)
            del os.environ["MPSD_SERVER"], os.environ["MPSD_EXAMPLE_MODEL"]
        self.assertIn("SUCCEEDED", said.getvalue())
        self.assertTrue((self.folder / "adapter"
                         / "adapter_model.safetensors").is_file())
        self.assertLess(names["best"].eval_loss, names["before"])
