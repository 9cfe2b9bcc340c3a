# SPDX-License-Identifier: Apache-2.0
"""usage: newer_grpc.py BIN_DIR

Every kind of call of the API by the gRPC of requirements.txt, through the real
daemon: unary calls, many at once, streams both ways, to their ends and broken
off, deadlines and errors."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
WAIT = 60  # s, for any one call


def generate(folder):
    """The API's Python stubs."""
    protos = sorted((ROOT / "proto/mpsd/v1").glob("*.proto"))
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}",
         f"--python_out={folder}", f"--grpc_python_out={folder}", *protos],
        check=True)
    sys.path.insert(0, str(folder))


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class NewerGrpcTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="mpsd")
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)
        self.daemon = harness.Daemon(
            self.folder / "state", "--stop-grace-seconds", "0.5",
            worker="fake_worker")
        self.addCleanup(self.daemon.close)
        self.daemon.start()
        channel = grpc.insecure_channel(
            f"unix:{self.daemon.state_dir}/mpsd.sock")
        self.addCleanup(channel.close)
        self.jobs = jobs_grpc.JobServiceStub(channel)
        self.artifacts = artifacts_grpc.ArtifactServiceStub(channel)
        self.info = daemon_grpc.DaemonServiceStub(channel)

    def upload(self, data):
        def parts():
            yield artifacts.UploadRequest(
                header=artifacts.UploadRequest.Header(
                    sha256=sha256(data), size_bytes=len(data)))
            for i in range(0, len(data), 1 << 20):
                yield artifacts.UploadRequest(data=data[i:i + (1 << 20)])
        return self.artifacts.Upload(parts(), timeout=WAIT)

    def submit(self, mode):
        model = self.folder / "model"
        if not model.exists():
            harness.write_model(model)
        spec = json.loads(harness.write_job(
            self.folder, training={"max_steps": 5}).read_text())
        spec.update(name=f"fake:{mode}", model=str(model))
        batch = artifacts.UploadBatchRequest()
        inputs = []
        for name in ("train.jsonl", "eval.jsonl"):
            data = (self.folder / name).read_bytes()
            batch.blobs.add(sha256=sha256(data), data=data)
            inputs.append(jobs.InputFile(path=name, sha256=sha256(data)))
        self.artifacts.UploadBatch(iter([batch]), timeout=WAIT)
        return self.jobs.Submit(
            jobs.SubmitRequest(spec_json=json.dumps(spec), inputs=inputs),
            timeout=WAIT).job.id

    def delete(self, job_id):
        """The worker of a job that has just ended may not be gone yet."""
        deadline = time.monotonic() + WAIT
        while True:
            try:
                return self.jobs.Delete(jobs.DeleteRequest(id=job_id),
                                        timeout=WAIT)
            except grpc.RpcError as error:
                if (error.code() != grpc.StatusCode.UNAVAILABLE
                        or time.monotonic() > deadline):
                    raise
            time.sleep(0.05)

    def code(self, call):
        with self.assertRaises(grpc.RpcError) as raised:
            call()
        return raised.exception.code()

    def test_a_job_from_upload_to_download(self):
        job_id = self.submit("ok")
        events = list(self.jobs.Watch(jobs.WatchRequest(id=job_id),
                                      timeout=WAIT))
        self.assertEqual(job_types.JOB_STATE_SUCCEEDED, events[-1].state.state)
        log = b"".join(chunk.data for chunk in self.jobs.Logs(
            jobs.LogsRequest(id=job_id, follow=True), timeout=WAIT))
        self.assertIn(b"queued", log)
        files = [part.file.path for part in self.artifacts.Download(
            artifacts.DownloadRequest(job_id=job_id, output=True),
            timeout=WAIT) if part.HasField("file")]
        self.assertIn("adapter_config.json", files)
        self.assertEqual(1, len(self.jobs.List(jobs.ListJobsRequest(),
                                               timeout=WAIT).jobs))
        self.delete(job_id)
        self.assertEqual(0, self.daemon.terminate(), self.daemon.said())

    def test_large_uploads_and_such_as_break_off(self):
        data = os.urandom(70 << 20)
        self.assertFalse(self.upload(data).existed)
        self.assertTrue(self.upload(data).existed)
        self.assertEqual([sha256(data)], list(self.artifacts.FindBlobs(
            artifacts.FindBlobsRequest(sha256=[sha256(data), "0" * 64]),
            timeout=WAIT).present))
        header = artifacts.UploadRequest(
            header=artifacts.UploadRequest.Header(sha256="a" * 64,
                                                  size_bytes=5))
        broken = self.artifacts.Upload.future(iter([header]), timeout=WAIT)
        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, broken.code())
        incoming = self.daemon.state_dir / "blobs/incoming"
        self.assertEqual([], list(incoming.iterdir()))

    def test_errors_are_the_ones_the_api_states(self):
        get = lambda: self.jobs.Get(jobs.GetJobRequest(id="none"),
                                    timeout=WAIT)
        self.assertEqual(grpc.StatusCode.NOT_FOUND, self.code(get))
        watch = self.jobs.Watch(jobs.WatchRequest(id="none"), timeout=WAIT)
        self.assertEqual(grpc.StatusCode.NOT_FOUND,
                         self.code(lambda: list(watch)))
        for spec, code in (("{", grpc.StatusCode.INVALID_ARGUMENT),
                           (" " * (33 << 20),
                            grpc.StatusCode.RESOURCE_EXHAUSTED)):
            request = jobs.SubmitRequest(spec_json=spec)
            self.assertEqual(code, self.code(
                lambda r=request: self.jobs.Submit(r, timeout=WAIT)))

    def test_many_calls_at_once_and_streams_that_are_left(self):
        job_id = self.submit("slow-exit")
        for _ in range(50):
            watch = self.jobs.Watch(jobs.WatchRequest(id=job_id),
                                    timeout=WAIT)
            next(watch)
            watch.cancel()
        calls = [self.jobs.Get.future(jobs.GetJobRequest(id=job_id),
                                      timeout=WAIT) for _ in range(1000)]
        for call in calls:  # one that finds no room gets that answer
            self.assertIn(call.code(), (grpc.StatusCode.OK,
                                        grpc.StatusCode.UNAVAILABLE))
        self.info.Info(daemon.InfoRequest(), timeout=WAIT)
        self.jobs.Cancel(jobs.CancelRequest(id=job_id), timeout=WAIT)
        events = list(self.jobs.Watch(jobs.WatchRequest(id=job_id),
                                      timeout=WAIT))
        self.assertEqual(job_types.JOB_STATE_CANCELLED, events[-1].state.state)


if __name__ == "__main__":
    os.environ["MPSD_BIN_DIR"] = sys.argv.pop(1)
    sys.path.insert(0, str(ROOT / "tests/e2e"))
    with tempfile.TemporaryDirectory() as stubs:
        generate(stubs)
        import grpc
        import harness
        from mpsd.v1 import artifacts_pb2 as artifacts
        from mpsd.v1 import artifacts_pb2_grpc as artifacts_grpc
        from mpsd.v1 import daemon_pb2 as daemon
        from mpsd.v1 import daemon_pb2_grpc as daemon_grpc
        from mpsd.v1 import job_pb2 as job_types
        from mpsd.v1 import jobs_pb2 as jobs
        from mpsd.v1 import jobs_pb2_grpc as jobs_grpc
        print("gRPC", grpc.__version__, flush=True)
        unittest.main()
