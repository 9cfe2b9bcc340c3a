# SPDX-License-Identifier: Apache-2.0
"""deploy/observability.sh next to a real mpsd, with the real Prometheus and
Alertmanager and a stand-in for Grafana; what it starts it finds again, takes
changes in, and stops.

usage: observability_test.py CHECKOUT"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import unittest
import urllib.request

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tests/e2e"))
import harness  # noqa: E402  (the path comes first)

# Answers as Grafana does, and writes down what it was started with.
GRAFANA = """#!/usr/bin/env python3
import http.server, json, os, sys
folder = os.environ["GF_PATHS_DATA"]
os.makedirs(folder, exist_ok=True)
with open(folder + "/started", "a") as file:
    print(json.dumps([sys.argv[1:], dict(os.environ)]), file=file)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
address = os.environ["GF_SERVER_HTTP_ADDR"]
http.server.HTTPServer((address, int(os.environ["GF_SERVER_HTTP_PORT"])),
                       Handler).serve_forever()
"""


def get(address):
    with urllib.request.urlopen(address, timeout=harness.TIMEOUT) as answer:
        return json.load(answer)


@unittest.skipUnless(shutil.which("prometheus"),
                     "no prometheus: deploy/setup.sh --tests installs it")
class ObservabilityTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.dir = self.folder / "what runs"
        self.grafana = self.folder / "grafana"
        (self.grafana / "bin").mkdir(parents=True)
        program = self.grafana / "bin/grafana"
        program.write_text(GRAFANA)
        program.chmod(0o755)
        self.ports = [harness.free_port() for _ in range(3)]
        self.prometheus = f"http://127.0.0.1:{self.ports[0]}/api/v1"
        self.metrics = self.daemon().ctl_json("info")[0]["metrics_address"]
        self.addCleanup(self.run_script, "--stop", succeeds=None)

    def run_script(self, *options, succeeds=True, path=None, tries=60):
        """What deploy/observability.sh says; `tries`: the seconds that it
        gives Prometheus to reach an mpsd."""
        environment = {"HOME": str(self.folder),
                       "MPSD_SCRAPE_TRIES": str(tries),
                       "PATH": path or os.environ["PATH"]}
        done = subprocess.run(
            ["bash", str(ROOT / "deploy/observability.sh"), "--dir",
             str(self.dir), "--ports", ",".join(map(str, self.ports)),
             "--scrape-interval", "500ms", *options], capture_output=True,
            text=True, env=environment, timeout=240, check=False)
        said = done.stdout + done.stderr
        if succeeds is not None:
            self.assertEqual(succeeds, done.returncode == 0, said)
        return said

    def start(self, *options, **more):
        return self.run_script("--metrics", self.metrics, "--grafana",
                               str(self.grafana), *options, **more)

    def pids(self):
        return {file.stem: int(file.read_text())
                for file in self.dir.glob("*.pid")}

    def started(self):
        """What each Grafana was started with: arguments, environment."""
        lines = (self.dir / "grafana/data/started").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def test_all_of_it(self):
        said = self.start()
        self.assertIn(f"scrapes mpsd at {self.metrics}\n", said)
        self.assertIn(f"http://127.0.0.1:{self.ports[2]}/d/mpsd-overview",
                      said)
        rules = get(f"{self.prometheus}/rules")["data"]["groups"]
        self.assertIn("MpsdDown", [rule["name"] for group in rules
                                   for rule in group["rules"]])
        # Prometheus takes up Alertmanagers some seconds after its start.
        self.eventually(lambda: [
            one["url"] for one in get(f"{self.prometheus}/alertmanagers")[
                "data"]["activeAlertmanagers"]]
            == [f"http://127.0.0.1:{self.ports[1]}/api/v2/alerts"])
        (arguments, environment), = self.started()
        self.assertEqual("server", arguments[0])
        self.assertEqual(f"http://127.0.0.1:{self.ports[0]}",
                         environment["MPSD_PROMETHEUS_URL"])
        self.assertEqual("500ms", environment["MPSD_SCRAPE_INTERVAL"])
        for name, file in (("MPSD_DASHBOARDS", "overview.json"),
                           ("GF_PATHS_PROVISIONING", "datasources/mpsd.yml")):
            self.assertTrue((pathlib.Path(environment[name]) / file).exists())
        password = self.dir / "grafana/admin-password"
        self.assertEqual(password.read_text(),
                         environment["GF_SECURITY_ADMIN_PASSWORD"])
        self.assertEqual(0o600, password.stat().st_mode & 0o777)

    def test_again_it_finds_all_and_takes_other_settings_in(self):
        self.start()
        before = self.pids()
        self.assertEqual({"prometheus", "alertmanager", "grafana"},
                         set(before))
        said = self.start("--metrics", "127.0.0.1:1", tries=15)
        self.assertEqual(before, self.pids())
        self.assertIn("no answer from an mpsd at 127.0.0.1:1 yet", said)
        self.eventually(lambda: {self.metrics, "127.0.0.1:1"} == {
            one["labels"]["instance"] for one in get(
                f"{self.prometheus}/targets")["data"]["activeTargets"]})
        # Other ports are taken, and what died is started.
        os.kill(before["alertmanager"], signal.SIGKILL)
        self.ports[2] = harness.free_port()
        self.start()
        after = self.pids()
        self.assertEqual(before["prometheus"], after["prometheus"])
        self.assertNotEqual(before["alertmanager"], after["alertmanager"])
        self.assertNotEqual(before["grafana"], after["grafana"])
        self.assertEqual([str(self.ports[2])],
                         [environment["GF_SERVER_HTTP_PORT"] for _, environment
                          in self.started()[1:]])

    def test_it_stops_what_it_started_and_nothing_else(self):
        self.start()
        pids = self.pids()
        said = self.run_script("--stop")
        for name, pid in pids.items():
            self.assertIn(f"{name}: stopped", said)
            listing = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)],
                                     capture_output=True, text=True,
                                     check=False).stdout
            self.assertIn(listing.strip()[:1], ("", "Z"))
        # A number that another process has got meanwhile.
        other = subprocess.Popen(["sleep", "60"])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        (self.dir / "prometheus.pid").write_text(f"{other.pid}\n")
        self.assertNotIn("stopped", self.run_script("--stop"))
        self.assertIsNone(other.poll())

    def test_receivers_that_somebody_wrote_are_kept(self):
        self.start()
        settings = self.dir / "alertmanager.yml"
        settings.write_text(settings.read_text().replace("nobody", "ann"))
        self.start()
        self.assertIn("ann", settings.read_text())
        status = get(f"http://127.0.0.1:{self.ports[1]}/api/v2/status")
        self.assertIn("ann", status["config"]["original"])
        settings.write_text("route: {receiver: nobody}\nreceivers: []\n")
        said = self.run_script("--metrics", self.metrics, succeeds=False)
        self.assertIn("keeps its earlier settings", said)
        self.assertIn("nobody", said)
        status = get(f"http://127.0.0.1:{self.ports[1]}/api/v2/status")
        self.assertIn("ann", status["config"]["original"])

    def test_without_grafana_the_rest_works(self):
        tools = self.folder / "tools"
        tools.mkdir()
        for folder in os.environ["PATH"].split(os.pathsep):
            for file in pathlib.Path(folder).glob("*"):
                link = tools / file.name
                if "grafana" not in file.name and not link.exists():
                    link.symlink_to(file)
        said = self.run_script("--metrics", self.metrics, path=str(tools))
        self.assertIn("Grafana: NOT INSTALLED", said)
        self.assertIn(f"scrapes mpsd at {self.metrics}\n", said)
        self.assertEqual({"prometheus", "alertmanager"}, set(self.pids()))

    def test_errors_say_what_to_do(self):
        for options, words in (
                (["--metrics", "unix:/tmp/x"], "cannot scrape the socket"),
                (["--metrics", "here"], "'here' is not HOST:PORT"),
                (["--metrics", "a:1']; x: ['"], "is not HOST:PORT"),
                (["--grafana", "/none"], "there is no folder /none"),
                (["--grafana", "/tmp"], "has no bin/grafana"),
                (["--scrape-interval", "often"], "is not a duration"),
                (["--ports", "1,2"], "is not three numbers"),
                (["--port", "1"], "unknown argument"),
                (["--dir"], "needs a value")):
            with self.subTest(options):
                self.assertIn(words, self.run_script(*options, succeeds=False))
                self.assertEqual({}, self.pids())

    def test_a_port_that_is_taken(self):
        taken = subprocess.Popen(
            [sys.executable, "-m", "http.server", str(self.ports[0]), "--bind",
             "127.0.0.1", "--directory", str(self.grafana)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(taken.wait)
        self.addCleanup(taken.kill)

        def answers():
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", self.ports[0])) == 0

        self.eventually(answers)
        said = self.run_script("--metrics", self.metrics, succeeds=False)
        self.assertIn(f"something else answers on port {self.ports[0]}", said)


if __name__ == "__main__":
    unittest.main()
