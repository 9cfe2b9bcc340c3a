# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus with deploy/prometheus' rules, a real Alertmanager after it,
and a webhook that keeps what arrives; all of it on loopback. Time runs faster in
it: every duration of the rules and configurations is divided by a factor, and
nothing else changes. A certificate authority gives one server a certificate after
the other, each with the time left that is asked for."""

import datetime
import http.server
import json
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "tests/deploy/prometheus")]
import harness  # noqa: E402
import promql  # noqa: E402
STEP = 0.25  # s, between the moments of a history
# Keys of Prometheus' and Alertmanager's configurations that hold durations.
KEYS = {"for", "interval", "scrape_interval", "scrape_timeout",
        "evaluation_interval", "group_wait", "group_interval",
        "repeat_interval", "resolve_timeout"}


def duration(text, factor):
    """"15m" by 60: "15s"; no less than a millisecond."""
    milliseconds = max(1, round(promql.seconds(text) * 1000 / factor))
    return f"{milliseconds}ms"


def expression(text, factor):
    """Ranges, offsets, and the numbers whose line ends in their duration."""
    lines = []
    for line in text.splitlines():
        comment = re.search(r"#\s*(\d+(?:ms|[smhdw]))\s*$", line)
        if comment:
            seconds = promql.seconds(comment.group(1))
            number = f"{seconds:.0f}"
            if not re.search(rf"(?<![\w.]){number}(?![\d.])", line):
                raise ValueError(f"no {number} in: {line}")
            line = re.sub(rf"(?<![\w.]){number}(?![\d.])",
                          f"{seconds / factor:.12g}", line[:comment.start()])
        line = re.sub(
            r"\[([^\]]*)\]",
            lambda m: "[" + ":".join(duration(part, factor) if part else ""
                                     for part in m.group(1).split(":")) + "]",
            line)
        line = re.sub(r"\boffset (\w+)",
                      lambda m: f"offset {duration(m.group(1), factor)}", line)
        lines.append(line)
    return "\n".join(lines)


def scaled(node, factor):
    if isinstance(node, list):
        return [scaled(item, factor) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: expression(value, factor) if key == "expr"
            else duration(value, factor) if key in KEYS
            else scaled(value, factor) for key, value in node.items()}


def scale(folder, factor):
    """Rewrites each YAML file of the folder."""
    for path in pathlib.Path(folder).glob("*.yml"):
        content = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump(scaled(content, factor),
                                       sort_keys=False))


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
        scale(self.rules, factor)
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


CONFIGURATION = """
[ca]
default_ca = here
[here]
database = {folder}/index.txt
new_certs_dir = {folder}
certificate = {folder}/ca.pem
private_key = {folder}/ca.key
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
x509_extensions = names
[any]
commonName = supplied
[names]
subjectAltName = DNS:localhost,IP:127.0.0.1
"""
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True,
                   capture_output=True)


class Authority:
    def __init__(self, folder):
        folder.mkdir()
        self.folder = folder
        self.certificate = folder / "ca.pem"
        self.configuration = folder / "ca.cnf"
        self.configuration.write_text(CONFIGURATION.format(folder=folder))
        (folder / "index.txt").touch()
        openssl("req", "-x509", *KEY, "-subj", "/CN=the hour", "-days", 30,
                "-out", self.certificate, "-keyout", folder / "ca.key")
        openssl("req", "-new", *KEY, "-subj", "/CN=localhost", "-out",
                folder / "mpsd.csr", "-keyout", folder / "mpsd.key")
        (folder / "mpsd.key").chmod(0o600)

    def options(self):
        """Of mpsd, whose certificate is the last one given: that of its metrics
        and that of its API."""
        pair = (("cert", str(self.folder / "mpsd.pem")),
                ("key", str(self.folder / "mpsd.key")))
        return [word for prefix in ("--metrics-tls-", "--tls-")
                for name, path in pair for word in (prefix + name, path)]

    def give(self, seconds):
        """A certificate with this many seconds left."""
        end = (datetime.datetime.now(datetime.timezone.utc)
               + datetime.timedelta(seconds=seconds))
        openssl("ca", "-batch", "-notext", "-config", self.configuration,
                "-in", self.folder / "mpsd.csr", "-out",
                self.folder / "mpsd.pem", "-enddate",
                end.strftime("%Y%m%d%H%M%SZ"))
