# SPDX-License-Identifier: Apache-2.0
"""Notifications of the real mpsd: a local HTTP server that checks signatures,
is down, slow or of an unknown issuer, and a program."""

import hashlib
import hmac
import http.server
import json
import os
import signal
import ssl
import subprocess
import threading
import time
import unittest
import urllib.request

import harness

SECRET = "0123456789abcdef0123456789abcdef"
HOSTILE = "-e \"$(touch owned)\"; <b>`touch owned`</b> ☃"


class Receiver:
    """Keeps what is posted; answers with the statuses of `script`, then 200. A
    status of None is no answer at all."""

    def __init__(self, script=(), context=None):
        self.posts, self.script = [], list(script)
        self.ended = threading.Event()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.posts.append((dict(self.headers), body))
                status = receiver.script.pop(0) if receiver.script else 200
                if status is None:
                    receiver.ended.wait(harness.TIMEOUT)
                    return
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        scheme = "http"
        if context is not None:
            scheme = "https"
            self.server.socket = context.wrap_socket(self.server.socket,
                                                     server_side=True)
        self.url = f"{scheme}://127.0.0.1:{self.server.server_port}/s3cret"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()

    def await_posts(self, count):
        deadline = time.monotonic() + harness.TIMEOUT
        while len(self.posts) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(self.posts)} posts, not {count}")
            time.sleep(0.02)
        return [json.loads(body) for _, body in self.posts]


def signature_fits(headers, body):
    """What deploy/README.md tells receivers to check."""
    parts = dict(part.split("=", 1)
                 for part in headers["Mpsd-Signature"].split(","))
    expected = hmac.new(SECRET.encode(), parts["t"].encode() + b"." + body,
                        hashlib.sha256).hexdigest()
    return (hmac.compare_digest(expected, parts["v1"])
            and abs(time.time() - int(parts["t"])) < 300)


class NotifyTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.secret = self.folder / "key"
        self.secret.touch(0o600)
        self.secret.write_text(SECRET + "\n")
        self.environment = {"no_proxy": "127.0.0.1"}

    def receiver(self, *script, context=None):
        receiver = Receiver(script, context)
        self.addCleanup(receiver.close)
        return receiver

    def telling(self, *options, mode="ok", selftest=False):
        return self.daemon(*options, worker="fake_worker", selftest=selftest,
                           env={**self.environment, "FAKE_WORKER_MODE": mode})

    def webhook(self, receiver):
        return ("--notify-webhook", receiver.url,
                "--notify-webhook-secret-file", str(self.secret))

    def run_job(self, daemon, name="tiny"):
        job = harness.write_job(self.folder, name=f"{time.time_ns()}.json",
                                training={"max_steps": 5})
        spec = json.loads(job.read_text())
        job.write_text(json.dumps({**spec, "name": name}))
        return daemon.finish(daemon.submit(job)["id"])

    def check(self, *options):
        return subprocess.run(
            [str(harness.BIN / "mpsd"), "--check-notify", *options],
            capture_output=True, text=True, timeout=harness.TIMEOUT,
            env=harness.environment(**self.environment), check=False)

    def metrics(self, daemon):
        info, = daemon.ctl_json("info")
        url = f"http://{info['metrics_address']}/metrics"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=harness.TIMEOUT) as answer:
            return answer.read().decode()

    def await_sent(self, daemon):
        """mpsd counts what it sent once it has the answer."""
        sent = 'mpsd_notifications_total{door="webhook",result="sent"} 1\n'
        deadline = time.monotonic() + harness.TIMEOUT
        while sent not in (metrics := self.metrics(daemon)):
            self.assertLess(time.monotonic(), deadline, metrics)
            time.sleep(0.02)

    def test_an_end_arrives_signed(self):
        receiver = self.receiver()
        daemon = self.telling(*self.webhook(receiver))
        job = self.run_job(daemon)
        told, = receiver.await_posts(1)
        headers, body = receiver.posts[0]
        self.assertTrue(signature_fits(headers, body))
        self.assertFalse(signature_fits(headers, body + b" "))
        self.assertEqual("succeeded", told["event"])
        self.assertEqual((told["event"], told["id"]),
                         (headers["Mpsd-Event"], headers["Mpsd-Id"]))
        self.assertEqual("application/json", headers["Content-Type"])
        self.assertEqual(
            (job["id"], "tiny", harness.ACCOUNT, "SUCCEEDED", 5, 5),
            tuple(told["job"][k] for k in ("id", "name", "owner", "state",
                                           "step", "planned_steps")))
        self.await_sent(daemon)
        self.assertNotIn("s3cret", daemon.said())
        self.assertNotIn(SECRET, daemon.said())

    def test_a_failure_comes_with_its_sentence_once_the_server_is_back(self):
        receiver = self.receiver(503, 429, 500)
        daemon = self.telling(*self.webhook(receiver), mode="rejected")
        job = self.run_job(daemon)
        told = receiver.await_posts(4)
        self.assertEqual({told[0]["id"]}, {t["id"] for t in told})
        self.assertEqual(("failed", job["message"]),
                         (told[0]["event"], told[0]["job"]["error"]))
        self.assertIn("train.jsonl:3", told[0]["text"])
        daemon.await_said("is not delivered yet: HTTP 503")

    def test_an_end_survives_the_daemon_and_comes_once(self):
        receiver = self.receiver(*[503] * 1000)
        daemon = self.telling(*self.webhook(receiver))
        job = self.run_job(daemon)
        receiver.await_posts(1)
        daemon.kill()
        receiver.script.clear()
        receiver.posts.clear()
        daemon.start()
        told, = receiver.await_posts(1)
        self.assertEqual(job["id"], told["job"]["id"])
        self.await_sent(daemon)
        time.sleep(1.5)  # until the notifier has looked again
        daemon.terminate()
        daemon.start()
        self.run_job(daemon)
        told = receiver.await_posts(2)
        self.assertEqual(2, len({t["id"] for t in told}))
        self.assertEqual(2, len(told))

    def test_a_server_that_never_answers_holds_up_nobody(self):
        receiver = self.receiver(*[None] * 9)
        daemon = self.telling(*self.webhook(receiver))
        self.run_job(daemon)
        receiver.await_posts(1)
        self.run_job(daemon)
        start = time.monotonic()
        self.assertEqual(0, daemon.terminate())
        self.assertLess(time.monotonic() - start, 8)

    def test_a_program_gets_the_json_and_nothing_is_run_by_a_name(self):
        heard = self.folder / "heard"
        program = self.folder / "tell"
        program.write_text(
            "#!/bin/sh\ncd \"$(dirname \"$0\")\" && cat > heard.new\n"
            "env >> environment; echo \"$1\" > argument\n"
            "mv heard.new heard; echo noise; exit 1\n")
        program.chmod(0o755)
        self.environment["HF_TOKEN"] = "hf_t0ken"
        daemon = self.telling("--notify-command", str(program), "a b",
                              mode="oom")
        self.run_job(daemon, HOSTILE)
        deadline = time.monotonic() + harness.TIMEOUT
        while "exit status 1: noise" not in daemon.said():
            self.assertLess(time.monotonic(), deadline, daemon.said())
            time.sleep(0.02)
        told = json.loads(heard.read_text())
        self.assertEqual((HOSTILE, "failed"),
                         (told["job"]["name"], told["event"]))
        environment = (self.folder / "environment").read_text()
        self.assertIn("MPSD_EVENT=failed\n", environment)
        self.assertNotIn("hf_t0ken", environment)
        self.assertEqual("a b\n", (self.folder / "argument").read_text())
        self.assertFalse((self.folder / "owned").exists())
        self.assertEqual([], daemon.workers())

    def test_a_low_disk_is_told(self):
        receiver = self.receiver()
        self.telling(*self.webhook(receiver), "--notify-settle-seconds", "0",
                     "--notify-low-disk-bytes", str(1 << 59))
        told, = receiver.await_posts(1)
        self.assertEqual(("disk_low", 1 << 59),
                         (told["event"], told["disk"]["low_bytes"]))

    def test_a_hold_is_told(self):
        receiver = self.receiver()
        toml = self.folder / "mpsd.toml"
        toml.write_text(f'notify-webhook = "{receiver.url}"\n'
                        'notify-on = ["hold"]\nnotify-settle-seconds = 0\n')
        self.environment["FAKE_WORKER_SELFTEST"] = "1"
        daemon = self.telling("--config", str(toml), selftest=True)
        job = harness.write_job(self.folder)
        daemon.submit(job)
        told = receiver.await_posts(1)
        self.assertEqual(("held", "device"),
                         (told[0]["event"], told[0]["hold"]["reason"]))
        self.assertIn("self-test", told[0]["text"])

    def test_sighup_opens_a_door(self):
        receiver = self.receiver()
        toml = self.folder / "mpsd.toml"
        toml.write_text("")
        daemon = self.telling("--config", str(toml))
        self.run_job(daemon)
        toml.write_text(f'notify-webhook = "{receiver.url}"\n')
        os.kill(daemon.process.pid, signal.SIGHUP)
        deadline = time.monotonic() + harness.TIMEOUT
        while "new in effect: notify-webhook" not in daemon.said():
            self.assertLess(time.monotonic(), deadline, daemon.said())
            time.sleep(0.02)
        last = self.run_job(daemon)
        told = receiver.await_posts(1)
        self.assertEqual(last["id"], told[-1]["job"]["id"])

    def test_a_test_message_tells_what_came_of_it(self):
        receiver = self.receiver(200, 404)
        done = self.check(*self.webhook(receiver), "--notify-command",
                          "/bin/true")
        self.assertEqual((0, "webhook: sent\ncommand: sent\n"),
                         (done.returncode, done.stdout), done.stderr)
        self.assertEqual("test", receiver.await_posts(1)[0]["event"])
        done = self.check(*self.webhook(receiver))
        self.assertEqual((69, "webhook: not sent: HTTP 404\n"),
                         (done.returncode, done.stdout))
        done = self.check()
        self.assertEqual(64, done.returncode)
        self.assertIn("no way is configured", done.stderr)

    def test_tls_is_checked(self):
        key, certificate = self.folder / "tls.key", self.folder / "tls.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes",
             "-days", "2", "-subj", "/CN=localhost", "-addext",
             "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out",
             str(certificate)], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        receiver = self.receiver(context=context)
        done = self.check(*self.webhook(receiver))
        self.assertEqual(69, done.returncode)
        self.assertIn("certificate", done.stdout)
        self.assertEqual([], receiver.posts)
        done = self.check(*self.webhook(receiver), "--notify-webhook-ca-file",
                          str(certificate))
        self.assertEqual((0, "webhook: sent\n"), (done.returncode, done.stdout))


if __name__ == "__main__":
    unittest.main()
