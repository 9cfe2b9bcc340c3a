# SPDX-License-Identifier: Apache-2.0
"""Notifications of the real mpsd to a program that keeps them, fails, asks for
another try or hangs, and to deploy/recipes/notify.sh."""

import json
import pathlib
import time

import harness

HOSTILE = "-e \"$(touch owned)\"; <b>`touch owned`</b> ☃"
RECIPE = (pathlib.Path(__file__).resolve().parents[2] / "deploy" / "recipes" /
          "notify.sh")

# Keeps what it gets, a file a notification, and ends with the first line of
# `script` as its status, or hangs there; then with 0.
PROGRAM = """#!/bin/sh
cd "$(dirname "$0")" && cat > new && env >> environment && echo "$1" > argument
mv new "got/$(date +%s%N)"
[ -s script ] || exit 0
status=$(head -n 1 script); sed -i 1d script
if [ "$status" = hang ]; then trap '' TERM; sleep 600; fi
echo "status $status"; exit "$status"
"""


class NotifyTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        (self.folder / "got").mkdir()
        self.program = self.folder / "notify"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)
        self.environment = {}

    def script(self, *statuses):
        (self.folder / "script").write_text(
            "".join(f"{status}\n" for status in statuses))

    def got(self):
        return [json.loads(path.read_text())
                for path in sorted((self.folder / "got").iterdir())]

    def await_got(self, count):
        return self.eventually(lambda: len(got := self.got()) >= count and got)

    def reporting(self, *options, mode="ok", selftest=False):
        return self.daemon("--notify-command", str(self.program), *options,
                           worker="fake_worker", selftest=selftest,
                           env={**self.environment, "FAKE_WORKER_MODE": mode})

    def run_job(self, daemon, name="tiny"):
        job = harness.write_job(self.folder, called=name,
                                training={"max_steps": 5})
        return daemon.finish(daemon.submit(job)["id"])

    def check(self, *options, **environment):
        return harness.run("mpsd", "--check-notify", *options,
                           env=harness.environment(**environment))

    def await_sent(self, daemon):
        """mpsd counts what it sent once the program has ended."""
        self.eventually(lambda: 'mpsd_notifications_total{result="sent"} 1\n'
                        in daemon.metrics(), daemon.metrics)

    def test_an_end_survives_the_daemon_and_comes_once(self):
        self.script(*[75] * 1000)
        daemon = self.reporting()
        job = self.run_job(daemon)
        self.await_got(1)
        daemon.kill()
        self.script()
        for path in (self.folder / "got").iterdir():
            path.unlink()
        daemon.start()
        got, = self.await_got(1)
        self.assertEqual(job["id"], got["job"]["id"])
        self.await_sent(daemon)
        time.sleep(1.5)  # until the notifier has looked again
        daemon.terminate()
        daemon.start()
        self.run_job(daemon)
        got = self.await_got(2)
        self.assertEqual(2, len({g["id"] for g in got}))
        self.assertEqual(2, len(got))

    def test_a_program_that_hangs_holds_up_nothing(self):
        self.script(*["hang"] * 9)
        daemon = self.reporting()
        self.run_job(daemon)
        self.await_got(1)
        self.run_job(daemon)
        start = time.monotonic()
        self.assertEqual(0, daemon.terminate())
        self.assertLess(time.monotonic() - start, 8)

    def test_a_program_gets_the_json_and_nothing_is_run_by_a_name(self):
        self.script(1)
        self.environment["HF_TOKEN"] = "hf_t0ken"
        daemon = self.reporting("a b", mode="oom")
        self.run_job(daemon, HOSTILE)
        daemon.await_said("exit status 1: status 1")
        got, = self.got()
        self.assertEqual((HOSTILE, "failed"),
                         (got["job"]["name"], got["event"]))
        environment = (self.folder / "environment").read_text()
        self.assertIn("MPSD_EVENT=failed\n", environment)
        self.assertNotIn("hf_t0ken", environment)
        self.assertEqual("a b\n", (self.folder / "argument").read_text())
        self.assertFalse((self.folder / "owned").exists())
        self.assertEqual([], daemon.workers())

    def test_a_test_prints_what_came_of_it(self):
        done = self.check("--notify-command", str(self.program))
        self.assertEqual((0, "sent\n"), (done.returncode, done.stdout),
                         done.stderr)
        self.assertEqual("test", self.await_got(1)[0]["event"])
        done = self.check("--notify-command", "/bin/false")
        self.assertEqual((69, "not sent: exit status 1\n"),
                         (done.returncode, done.stdout))
        done = self.check()
        self.assertEqual(64, done.returncode)
        self.assertIn("there is no --notify-command", done.stderr)

    def test_the_recipe_passes_the_text_on(self):
        for tool in ("curl", "mail", "osascript"):
            fake = self.folder / "bin" / tool
            fake.parent.mkdir(exist_ok=True)
            fake.write_text("#!/bin/sh\n"
                            f"{{ echo {tool}; printf '%s\\n' \"$@\";\n"
                            "[ -t 0 ] || cat; } > \"${0%/*}/../said\"\n")
            fake.chmod(0o755)
        jq = self.folder / "bin" / "jq"
        jq.write_text("#!/usr/bin/env python3\nimport json, sys\n"
                      "print({'text': json.load(sys.stdin)['text']})\n")
        jq.chmod(0o755)
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        for way, tool in (("slack", "curl"), ("ntfy", "curl"),
                          ("mail", "mail"), ("desktop", "osascript")):
            with self.subTest(way):
                done = self.check("--notify-command", str(RECIPE), way,
                                  PATH=path)
                self.assertEqual((0, "sent\n"), (done.returncode, done.stdout),
                                 done.stderr)
                said = (self.folder / "said").read_text()
                self.assertTrue(said.startswith(f"{tool}\n"), said)
                self.assertIn("This is a test: notifications of mpsd", said)
        done = self.check("--notify-command", str(RECIPE), "pigeon", PATH=path)
        self.assertEqual((69, "not sent: exit status 64: notify.sh: slack, "
                          "ntfy, mail or desktop?\\n\n"),
                         (done.returncode, done.stdout))
