# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus with deploy/prometheus' rules, a real Alertmanager behind
it, and a webhook that keeps what arrives; all of it on loopback."""

import http.server
import json
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

import scaled
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/e2e"))
import harness  # noqa: E402
STEP = 0.25  # s, between the moments of a history


def alertmanager():
    """Debian calls the program prometheus-alertmanager."""
    for name in ("prometheus-alertmanager", "alertmanager"):
        if found := shutil.which(name):
            return found
    return None


class Webhook:
    """Keeps the notifications that Alertmanager sends."""

    def __init__(self):
        webhook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                webhook.received.append((time.time(), json.loads(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.received = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def alerts(self):
        """Each alert of each notification that came."""
        return [alert for _, message in list(self.received)
                for alert in message["alerts"]]


class Monitoring:
    """`seconds`: between two scrapes, and between two evaluations."""

    def __init__(self, folder, factor, seconds):
        self.folder = folder
        self.rules = folder / "prometheus"
        shutil.copytree(ROOT / "deploy/prometheus", self.rules)
        scaled.scale(self.rules, factor)
        self.webhook = Webhook()
        self.targets_file = folder / "targets.json"
        self.observe({})
        self.port = harness.free_port()
        self.alertmanager_port = harness.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._write_configurations(f"{round(seconds * 1000)}ms")
        self.lookback = f"{round(300 / factor * 1000)}ms"
        self.processes = []

    def _write_configurations(self, interval):
        path = self.rules / "prometheus_remote.yml"
        config = yaml.safe_load(path.read_text())
        config["global"] = {"scrape_interval": interval,
                            "evaluation_interval": interval}
        config["alerting"]["alertmanagers"][0]["static_configs"] = [
            {"targets": [f"127.0.0.1:{self.alertmanager_port}"]}]
        scrape, = config["scrape_configs"]
        del scrape["static_configs"]
        scrape["file_sd_configs"] = [{"files": [str(self.targets_file)],
                                      "refresh_interval": "1s"}]
        path.write_text(yaml.safe_dump(config))
        path = self.rules / "alertmanager.yml"
        config = yaml.safe_load(path.read_text())
        for receiver in config["receivers"]:
            receiver.pop("email_configs", None)
            receiver["webhook_configs"] = [{"url": self.webhook.url,
                                            "send_resolved": True}]
        path.write_text(yaml.safe_dump(config))

    def observe(self, targets):
        """Scrapes from now on {name of the machine: ("https", address)}."""
        aside = self.targets_file.with_suffix(".new")
        aside.write_text(json.dumps(
            [{"targets": [address],
              "labels": {"instance": name, "__scheme__": scheme}}
             for name, (scheme, address) in targets.items()]))
        aside.rename(self.targets_file)

    def start(self):
        self._run([alertmanager(),
                   f"--config.file={self.rules / 'alertmanager.yml'}",
                   f"--storage.path={self.folder / 'alertmanager'}",
                   f"--web.listen-address=127.0.0.1:{self.alertmanager_port}",
                   "--cluster.listen-address="],
                  f"http://127.0.0.1:{self.alertmanager_port}/-/ready")
        self._run(["prometheus",
                   f"--config.file={self.rules / 'prometheus_remote.yml'}",
                   f"--storage.tsdb.path={self.folder / 'data'}",
                   f"--web.listen-address=127.0.0.1:{self.port}",
                   f"--query.lookback-delta={self.lookback}",
                   "--rules.alert.resend-delay=1s"], f"{self.url}/-/ready")

    def _run(self, command, url):
        log = self.folder / f"{pathlib.Path(command[0]).name}.log"
        with open(log, "ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output,
                                       stdin=subprocess.DEVNULL)
        self.processes.append(process)

        def is_ready():
            if process.poll() is not None:
                raise AssertionError(log.read_text())
            try:
                with urllib.request.urlopen(url, timeout=5):
                    return True
            except OSError:
                return False

        harness.eventually(is_ready, log.read_text)

    def close(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(30)
        self.webhook.server.shutdown()

    def _get(self, path, **parameters):
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}",
                                    timeout=30) as answer:
            return json.load(answer)["data"]

    def query(self, expression):
        """[(labels, value)] now."""
        return [(one["metric"], float(one["value"][1])) for one in
                self._get("query", query=expression)["result"]]

    def history(self, expression, start, end, step=STEP):
        """[(labels, [times at which it has a value])]."""
        found = {}
        # Prometheus gives 11,000 points a series at most.
        while start < end:
            until = min(end, start + 10_000 * step)
            for one in self._get("query_range", query=expression, start=start,
                                 end=until, step=step)["result"]:
                key = tuple(sorted(one["metric"].items()))
                found.setdefault(key, []).extend(
                    float(moment) for moment, _ in one["values"])
            start = until + step
        return [(dict(labels), times) for labels, times in found.items()]

    def rule_errors(self):
        """The rules that Prometheus cannot evaluate, with its reason."""
        return [f"{rule['name']}: {rule['lastError']}"
                for group in self._get("rules")["groups"]
                for rule in group["rules"] if rule.get("lastError")]
