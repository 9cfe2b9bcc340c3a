# SPDX-License-Identifier: Apache-2.0
"""The `openai` package of PyPI, as programs use it, against the real daemon:
files, jobs, events, results, errors, TLS, a daemon that is killed; and raw
bytes that no client sends."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import socket
import ssl
import subprocess
import time
import unittest

import httpx2
import openai

import harness

# A worker that makes a step and then nothing.
LONG = {"FAKE_WORKER_MODE": "hang"}


class Failing(httpx2.BaseTransport):
    """Sends each request, and loses the answers to the first of its path."""

    def __init__(self, path):
        self.path, self.lost = path, 0
        self.asked = []  # the path of each request
        self.inner = httpx2.HTTPTransport()

    def handle_request(self, request):
        self.asked.append(request.url.path)
        answer = self.inner.handle_request(request)
        if request.url.path == self.path and self.lost == 0:
            self.lost += 1
            answer.read()
            raise httpx2.ReadError("the answer is lost", request=request)
        return answer


class OpenAiTest(harness.EndToEndTest):
    def served(self, *options, **more):
        self.running = self.daemon(
            "--openai-listen", "127.0.0.1:0", "--stop-grace-seconds", "1",
            "--model-root", str(self.folder), *options, **more)
        info, = self.running.ctl_json("info")
        self.address = info["openai_address"]
        return self.running

    def token(self, user="ann", role="user"):
        made = subprocess.run(
            [str(harness.BIN / "mpsd"), "token", "create", "--state-dir",
             str(self.running.state_dir), "--user", user, "--role", role],
            capture_output=True, text=True, env=harness.environment(),
            check=True)
        return made.stdout.strip()

    def client(self, token=None, **more):
        client = openai.OpenAI(
            api_key=token or self.token(),
            base_url=more.pop("base_url", f"http://{self.address}/v1"), **more)
        self.addCleanup(client.close)
        return client

    def data(self, name="train.jsonl", rows=harness.MESSAGES):
        path = self.folder / name
        path.write_text("".join(harness.row(*row) + "\n" for row in rows))
        return path

    def upload(self, client, path):
        with open(path, "rb") as file:
            return client.files.create(file=file, purpose="fine-tune")

    def create(self, client, file, **more):
        more = {"model": str(self.model), "training_file": file.id,
                "suffix": "tiny", **more}
        more.setdefault("extra_body", {"mpsd": {
            "device": "cpu", "training": {"max_steps": 4, "save_steps": 2,
                                          "max_length": 64}}})
        return client.fine_tuning.jobs.create(**more)

    def created(self, client, file):
        """None where the queue is full."""
        try:
            return self.create(client, file)
        except openai.RateLimitError:
            return None

    def ended(self, client, job_id):
        deadline = time.monotonic() + harness.TIMEOUT
        while time.monotonic() < deadline:
            job = client.fine_tuning.jobs.retrieve(job_id)
            if job.status in ("succeeded", "failed", "cancelled"):
                return job
            time.sleep(0.1)
        raise AssertionError(f"the job does not end: {job}")

    def test_a_walk_with_the_real_worker(self):
        """Upload, create, poll, events, checkpoints, the result's files."""
        self.served()
        client = self.client()
        train = self.upload(client, self.data())
        held_out = self.upload(client, self.data(
            "eval.jsonl", [("Blood?", "red")]))
        self.assertEqual(train.bytes, (self.folder / "train.jsonl").stat()
                         .st_size)
        self.assertEqual("processed", train.status)
        job = self.create(
            client, train, validation_file=held_out.id, suffix="tiny", seed=7,
            metadata={"team": "nlp"},
            method={"type": "supervised", "supervised": {"hyperparameters": {
                "n_epochs": 1, "batch_size": 4,
                "learning_rate_multiplier": 50}}})
        self.assertIn(job.status, ("queued", "running"))
        done = self.ended(client, job.id)
        self.assertEqual("succeeded", done.status, done.error)
        self.assertEqual(f"job:{job.id}", done.fine_tuned_model)
        self.assertEqual("ann", done.organization_id)
        self.assertEqual(7, done.seed)
        self.assertEqual({"team": "nlp"}, done.metadata)
        self.assertEqual(4, done.hyperparameters.batch_size)
        self.assertAlmostEqual(50,
                               done.hyperparameters.learning_rate_multiplier)
        self.assertGreaterEqual(done.finished_at, done.created_at)
        # Every page of the events, newest first.
        events = list(client.fine_tuning.jobs.list_events(job.id, limit=3))
        self.assertIn("succeeded", events[0].message)
        steps = [e.data["step"] for e in events
                 if e.type == "metrics" and "train_loss" in e.data]
        # Of very fast steps mpsd keeps some.
        self.assertEqual(4, steps[0])
        self.assertEqual(sorted(steps, reverse=True), steps)
        self.assertTrue(any("valid_loss" in (e.data or {}) for e in events))
        checkpoints = list(client.fine_tuning.jobs.checkpoints.list(job.id))
        self.assertEqual([4, 2], [c.step_number for c in checkpoints])
        # What the client downloads is what mpsctl downloads.
        names = {client.files.retrieve(i).filename: i
                 for i in done.result_files}
        self.assertIn("adapter_model.safetensors", names)
        folder = self.download(self.running, job.id)
        for name, file_id in names.items():
            self.assertEqual((folder / name).read_bytes(),
                             client.files.content(file_id).read(), name)
        self.assertIn(done.fine_tuned_model,
                      [m.id for m in client.models.list()])
        # mpsctl knows the job by the same id, name and owner.
        shown = self.running.show(job.id)
        self.assertEqual(("tiny", "ann"), (shown["name"], shown["owner"]))
        # The result is where a further job goes on from.
        further = self.create(client, train, model=done.fine_tuned_model)
        self.assertEqual("succeeded", self.ended(client, further.id).status)

    def test_cancel_pause_and_lists(self):
        self.served(worker="fake_worker", env=LONG)
        client = self.client()
        file = self.upload(client, self.data())
        jobs = [self.create(client, file, suffix=f"job {i}",
                            metadata={"turn": str(i % 2)}) for i in range(5)]
        self.assertEqual([j.id for j in reversed(jobs)],
                         [j.id for j in client.fine_tuning.jobs.list(limit=2)])
        self.assertEqual(
            [jobs[3].id, jobs[1].id],
            [j.id for j in client.fine_tuning.jobs.list(metadata={
                "turn": "1"})])
        client.fine_tuning.jobs.pause(jobs[4].id)
        self.assertTrue(self.running.show(jobs[4].id)["held"])
        client.fine_tuning.jobs.resume(jobs[4].id)
        self.assertFalse(self.running.show(jobs[4].id).get("held", False))
        for job in jobs:
            client.fine_tuning.jobs.cancel(job.id)
        for job in jobs:
            self.assertEqual("cancelled", self.ended(client, job.id).status)
        # Files: a page at a time, and gone once deleted.
        others = [self.upload(client, self.data()) for _ in range(3)]
        self.assertEqual([f.id for f in reversed([file, *others])],
                         [f.id for f in client.files.list(limit=2)])
        self.assertTrue(client.files.delete(file.id).deleted)
        with self.assertRaises(openai.NotFoundError):
            client.files.retrieve(file.id)
        self.assertEqual((self.folder / "train.jsonl").read_bytes(),
                         client.files.content(others[0].id).read())

    def test_users_roles_and_errors(self):
        self.served("--private-jobs", worker="fake_worker", env=LONG)
        ann, bob = self.client(), self.client(self.token("bob"))
        eve = self.client(self.token("eve", "viewer"))
        file = self.upload(ann, self.data())
        job = self.create(ann, file)
        with self.assertRaises(openai.BadRequestError) as refused:
            self.create(bob, file)
        self.assertEqual("training_file", refused.exception.param)
        for client in (bob, eve):
            with self.assertRaises((openai.NotFoundError,
                                    openai.PermissionDeniedError)):
                client.files.content(file.id)
            with self.assertRaises(openai.PermissionDeniedError):
                client.fine_tuning.jobs.cancel(job.id)
            with self.assertRaises(openai.PermissionDeniedError):
                client.fine_tuning.jobs.list_events(job.id)
            self.assertEqual([], list(client.fine_tuning.jobs.list()))
            self.assertEqual("", client.fine_tuning.jobs.retrieve(job.id).model)
        with self.assertRaises(openai.PermissionDeniedError):
            self.upload(eve, self.data())
        with self.assertRaises(openai.AuthenticationError) as stranger:
            self.client("mpsd_" + "a" * 49).models.list()
        self.assertEqual("invalid_api_key", stranger.exception.code)
        with self.assertRaises(openai.BadRequestError) as wrong:
            self.create(ann, file, method={"type": "dpo"})
        self.assertEqual("method.type", wrong.exception.param)
        with self.assertRaises(openai.BadRequestError) as wrong:
            self.create(ann, file, model="org/nowhere")
        self.assertIn("model", str(wrong.exception))
        with self.assertRaises(openai.NotFoundError):
            ann.fine_tuning.jobs.retrieve("01J00000000000000000000000")
        # The audit has who, what and from where, refusals too.
        audit = self.running.ctl("--json", "audit")
        if audit.returncode == 0:
            self.assertIn("by /v1/files", audit.stdout)

    def test_a_limit_is_told_once(self):
        """What only a person can change is not tried again."""
        self.served("--limit-queued-jobs", "1", "--limit-upload-bytes",
                    "100000", worker="fake_worker", env=LONG)
        transport = Failing("none")
        client = self.client(
            http_client=openai.DefaultHttpxClient(transport=transport))
        file = self.upload(client, self.data())
        running = self.create(client, file)
        deadline = time.monotonic() + harness.TIMEOUT
        # The queue forgets a job that starts a moment after its row says so.
        while (queued := self.created(client, file)) is None:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        transport.asked.clear()
        with self.assertRaises(openai.RateLimitError) as refused:
            self.create(client, file)
        self.assertIn("queued", str(refused.exception))
        large = self.folder / "large.jsonl"
        large.write_bytes(b"x" * 200_000)
        with self.assertRaises(openai.RateLimitError):
            self.upload(client, large)
        self.assertEqual(["/v1/fine_tuning/jobs", "/v1/files"],
                         transport.asked)
        for job in (running, queued):
            client.fine_tuning.jobs.cancel(job.id)

    def test_a_lost_answer_makes_no_second_job(self):
        self.served(worker="fake_worker", env=LONG)
        transport = Failing("/v1/fine_tuning/jobs")
        client = self.client(
            http_client=openai.DefaultHttpxClient(transport=transport))
        job = self.create(client, self.upload(client, self.data()))
        self.assertEqual(1, transport.lost)
        self.assertEqual([job.id],
                         [j.id for j in client.fine_tuning.jobs.list()])

    def test_a_killed_daemon_keeps_files_and_jobs(self):
        """kill -9 while one upload is under way; what was answered stays."""
        self.served(worker="fake_worker", env=LONG)
        token = self.token()
        client = self.client(token)
        file = self.upload(client, self.data())
        job = self.create(client, file)
        host, port = self.address.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as half:
            half.sendall(
                f"POST /v1/files HTTP/1.1\r\nAuthorization: Bearer {token}\r\n"
                "Content-Type: multipart/form-data; boundary=B\r\n"
                "Content-Length: 1000000\r\n\r\n--B\r\nContent-Disposition: "
                'form-data; name="file"; filename="a"\r\n\r\n'.encode()
                + b"x" * 400_000)
            incoming = self.running.state_dir / "blobs/incoming"
            deadline = time.monotonic() + harness.TIMEOUT
            while not list(incoming.glob("unnamed.*")):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            self.running.kill()
        self.running.start()
        info, = self.running.ctl_json("info")
        self.address = info["openai_address"]
        again = self.client(token)
        self.assertEqual([file.id], [f.id for f in again.files.list()])
        self.assertEqual((self.folder / "train.jsonl").read_bytes(),
                         again.files.content(file.id).read())
        self.assertEqual([job.id],
                         [j.id for j in again.fine_tuning.jobs.list()])
        self.assertEqual([], list(incoming.glob("unnamed.*")))
        again.fine_tuning.jobs.cancel(job.id)

    def test_fifty_at_once(self):
        self.served(worker="fake_worker", env=LONG)
        token = self.token()
        path = self.folder / "much.jsonl"
        path.write_bytes(os.urandom(1 << 20))

        def one(_):
            client = self.client(token, max_retries=5)
            file = self.upload(client, path)
            return hashlib.sha256(client.files.content(file.id).read()
                                  ).hexdigest()

        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            hashes = set(pool.map(one, range(50)))
        print(f"50 uploads and downloads of 1 MiB at once: "
              f"{time.monotonic() - begun:.1f} s", flush=True)
        self.assertEqual({hashlib.sha256(path.read_bytes()).hexdigest()},
                         hashes)
        self.assertEqual(50, len(list(self.client(token).files.list())))

    def test_a_large_file_is_never_in_memory(self):
        self.served(worker="fake_worker", env=LONG)
        client = self.client()
        path = self.folder / "large.jsonl"
        with open(path, "wb") as large:
            large.truncate(256 << 20)
        before = self.memory()
        begun = time.monotonic()
        file = self.upload(client, path)
        took = time.monotonic() - begun
        self.assertEqual(256 << 20, file.bytes)
        with client.files.with_streaming_response.content(file.id) as answer:
            read = sum(len(piece) for piece in answer.iter_bytes(1 << 20))
        self.assertEqual(256 << 20, read)
        grown = self.memory() - before
        print(f"256 MiB in {took:.1f} s, peak memory {grown >> 20} MiB more",
              flush=True)
        self.assertLess(grown, 64 << 20)

    def memory(self):
        """The daemon's peak, in bytes; 0 where the system does not tell."""
        status = pathlib.Path(f"/proc/{self.running.process.pid}/status")
        if not status.exists():
            return 0
        line, = (line for line in status.read_text().splitlines()
                 if line.startswith("VmHWM"))
        return int(line.split()[1]) << 10

    def test_tls_with_the_apis_certificate(self):
        state = self.folder / "state"
        made = subprocess.run(
            [str(harness.BIN / "mpsd"), "tls", "init", "--state-dir",
             str(state)], capture_output=True, text=True,
            env=harness.environment(), check=False)
        self.assertEqual(0, made.returncode, made.stderr)
        self.served(worker="fake_worker", env=LONG)
        trust = ssl.create_default_context(cafile=str(state / "tls/ca.crt"))
        port = self.address.rsplit(":", 1)[1]
        client = self.client(
            base_url=f"https://localhost:{port}/v1",
            http_client=openai.DefaultHttpxClient(verify=trust))
        self.assertEqual("file", self.upload(client, self.data()).object)
        with self.assertRaises(openai.APIConnectionError):
            self.client(base_url=f"http://{self.address}/v1",
                        max_retries=0).models.list()
        refused = subprocess.run(
            [str(harness.BIN / "mpsd"), "--state-dir", str(self.folder / "no"),
             "--openai-listen", "0.0.0.0:0"], capture_output=True, text=True,
            env=harness.environment(), timeout=harness.TIMEOUT, check=False)
        self.assertNotEqual(0, refused.returncode)
        self.assertIn("--openai-listen 0.0.0.0:0: others could read",
                      refused.stderr)

    def raw(self, request, wait=harness.TIMEOUT):
        """What the daemon answers to bytes, until it closes the connection."""
        host, port = self.address.rsplit(":", 1)
        answer = b""
        with socket.create_connection((host, int(port)), timeout=wait) as to:
            try:
                to.sendall(request)
                while piece := to.recv(1 << 16):
                    answer += piece
            except (TimeoutError, ConnectionError):
                pass
        return answer.decode(errors="replace")

    def test_hostile_bytes(self):
        """None of these ends the daemon, makes a job or is taken for two
        requests."""
        self.served(worker="fake_worker", env=LONG)
        token = self.token()
        head = (f"POST /v1/fine_tuning/jobs HTTP/1.1\r\nHost: x\r\n"
                f"Authorization: Bearer {token}\r\nConnection: close\r\n")
        deep = "[" * 100_000
        for body in (deep, '{"mpsd": ' + deep + "]" * 100_000 + "}",
                     '{"model": "' + "a" * 1_000_000 + '"}', "\0" * 1000):
            answer = self.raw((head + f"Content-Length: {len(body)}\r\n\r\n"
                               + body).encode())
            self.assertTrue(answer.startswith("HTTP/1.1 400 "), answer[:200])
        smuggled = "GET /v1/models HTTP/1.1\r\n\r\n"
        for lines in ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                      "Content-Length: 5\r\nContent-Length: 50\r\n",
                      "Content-Length: 5, 50\r\n",
                      "Transfer-Encoding: chunked, identity\r\n",
                      "Transfer-Encoding : chunked\r\n",
                      "Authorization: Bearer other\r\nContent-Length: 0\r\n"):
            answer = self.raw((head + lines + "\r\n0\r\n\r\n" + smuggled
                               ).encode())
            self.assertTrue(answer.startswith("HTTP/1.1 400 "), answer[:200])
            self.assertEqual(1, answer.count("HTTP/1.1"), lines)
        # Longer than announced: the rest is no request. Shorter: nothing.
        answer = self.raw((head + "Content-Length: 2\r\n\r\n{}" + smuggled
                           ).encode())
        self.assertEqual(1, answer.count("HTTP/1.1"))
        self.assertEqual("", self.raw((head + "Content-Length: 200\r\n\r\n{}"
                                       ).encode(), wait=1))
        chunks = "2\r\n{}\r\n0\r\n\r\n"
        answer = self.raw((head + "Transfer-Encoding: chunked\r\n\r\n" + chunks
                           ).encode())
        self.assertIn("model: is missing", answer)
        self.assertEqual([], list(self.client(token).fine_tuning.jobs.list()))
        self.assertIsNone(self.running.process.poll())

    def test_slow_bodies_hold_nobody_up(self):
        self.served(worker="fake_worker", env=LONG)
        token = self.token()
        host, port = self.address.rsplit(":", 1)
        slow = []
        for _ in range(60):
            to = socket.create_connection((host, int(port)))
            self.addCleanup(to.close)
            to.sendall((f"POST /v1/files HTTP/1.1\r\nAuthorization: Bearer "
                        f"{token}\r\nContent-Type: multipart/form-data; "
                        "boundary=B\r\nContent-Length: 1000000\r\n\r\n--B"
                        ).encode())
            slow.append(to)
        client = self.client(self.token("bob"))
        begun = time.monotonic()
        for _ in range(20):
            client.models.list()
        each = (time.monotonic() - begun) / 20
        print(f"beside 60 bodies that hang: {each * 1000:.0f} ms a request",
              flush=True)
        self.assertLess(each, 0.5)
        self.upload(client, self.data())

    def test_a_revoked_token_ends_its_upload(self):
        self.served(worker="fake_worker", env=LONG)
        token = self.token()
        host, port = self.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)),
                                      timeout=harness.TIMEOUT) as to:
            to.sendall(
                (f"POST /v1/files HTTP/1.1\r\nAuthorization: Bearer {token}\r\n"
                 "Content-Type: multipart/form-data; boundary=B\r\n"
                 "Content-Length: 9000000\r\n\r\n--B\r\nContent-Disposition: "
                 'form-data; name="file"; filename="a"\r\n\r\n').encode()
                + b"x" * 400_000)
            tokens = json.loads(self.running.ctl("--json", "token", "list")
                                .stdout.splitlines()[0])
            self.running.ctl("token", "revoke", tokens["id"])
            answer = b""
            try:
                to.sendall(b"x" * 2_000_000)
                answer = to.recv(1 << 16)
            except ConnectionError:
                pass
            self.assertTrue(answer == b"" or b" 401 " in answer, answer)
        self.assertEqual(
            [], list((self.running.state_dir / "files").iterdir()))


if __name__ == "__main__":
    unittest.main()
