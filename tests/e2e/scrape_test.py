# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes the real daemon: over TLS with a token; a
certificate and a token that are renewed; a unix socket."""

import http.client
import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import time

import harness
import prometheus

CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: mpsd
    scheme: https
    tls_config: {{ca_file: {ca}, server_name: localhost}}
    authorization: {{credentials_file: {token}}}
    static_configs: [{{targets: ["{address}"]}}]
"""


class ScrapeTest(harness.EndToEndTest):
    def prometheus(self, daemon, token):
        """One that scrapes the daemon with the token of a file."""
        if shutil.which("prometheus") is None:
            self.skipTest("no prometheus here: run deploy/setup.sh --tests")
        config = CONFIG.format(ca=self.certificate, token=token,
                               address=self.address(daemon))
        scraper = prometheus.Prometheus(self.folder / "prometheus", config)
        self.addCleanup(scraper.close)
        return scraper

    def make_certificate(self, days):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
             "/CN=localhost", "-addext",
             "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", str(days),
             "-out", str(self.certificate), "-keyout", str(self.key)],
            check=True, capture_output=True)
        self.key.chmod(0o600)

    def write_token(self, token):
        self.token.touch(0o600)
        self.token.write_text(token + "\n")

    def secured(self):
        """A daemon with TLS and a token."""
        self.certificate = self.folder / "mpsd.pem"
        self.key = self.folder / "mpsd.key"
        self.token = self.folder / "token"
        self.make_certificate(30)
        self.write_token("a" * 64)
        return self.daemon("--metrics-tls-cert", str(self.certificate),
                           "--metrics-tls-key", str(self.key),
                           "--metrics-token-file", str(self.token),
                           worker="fake_worker")

    def address(self, daemon):
        info, = daemon.ctl_json("info")
        return info["metrics_address"]

    def scrape(self, daemon, token):
        """(status, text) of a scrape."""
        host, port = self.address(daemon).rsplit(":", 1)
        trust = ssl.create_default_context(cafile=str(self.certificate))
        client = http.client.HTTPSConnection(host, int(port),
                                             timeout=harness.TIMEOUT,
                                             context=trust)
        client.request("GET", "/metrics",
                       headers={"Authorization": f"Bearer {token}"})
        answer = client.getresponse()
        text = answer.read().decode()
        client.close()
        return answer.status, text

    def test_prometheus_scrapes_with_tls_and_token(self):
        daemon = self.secured()
        info = daemon.ctl("info").stdout
        self.assertIn(f"https://{self.address(daemon)}/metrics", info)
        scraper = self.prometheus(daemon, self.token)
        scraper.await_value('up{job="mpsd"}', lambda up: up == 1)
        daemon.succeed(harness.write_job(self.folder))
        scraper.await_value("mpsd_steps_total", lambda steps: steps > 0)
        scraper.await_value(
            "mpsd_metrics_certificate_expiry_timestamp_seconds - time()",
            lambda left: 29 * 86400 < left < 31 * 86400)
        scraper.await_value('mpsd_step_seconds_bucket{le="1"}',
                            lambda steps: steps > 0)

    def test_a_hangup_takes_up_what_was_renewed(self):
        daemon = self.secured()
        self.assertEqual(200, self.scrape(daemon, "a" * 64)[0])
        self.make_certificate(90)
        self.write_token("b" * 64)
        daemon.process.send_signal(signal.SIGHUP)

        def scraped():
            try:  # the new certificate does not vouch for the old one
                status, text = self.scrape(daemon, "b" * 64)
            except ssl.SSLError:
                return None
            return status == 200 and text

        text = self.eventually(scraped, daemon.said)
        name = "\nmpsd_metrics_certificate_expiry_timestamp_seconds "
        left = float(text.partition(name)[2].split()[0]) - time.time()
        self.assertAlmostEqual(90, left / 86400, delta=1)
        self.assertEqual(401, self.scrape(daemon, "a" * 64)[0])

    def test_promtool_finds_nothing(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            self.skipTest("no promtool here: run deploy/setup.sh --tests")
        daemon = self.secured()
        daemon.finish(daemon.submit(harness.write_job(self.folder))["id"])
        _, text = self.scrape(daemon, "a" * 64)
        found = subprocess.run([promtool, "check", "metrics"], input=text,
                               text=True, capture_output=True, check=False)
        self.assertEqual((0, "", ""),
                         (found.returncode, found.stdout, found.stderr))

    def test_a_unix_socket(self):
        path = self.folder / "metrics"
        with socket.socket(socket.AF_UNIX) as left:  # by a daemon that died
            left.bind(str(path))
        daemon = self.unstarted(worker="fake_worker")
        at = daemon.command.index("127.0.0.1:0")
        daemon.command[at] = f"unix:{path}"
        daemon.start()
        self.assertEqual(0o600, stat.S_IMODE(os.stat(path).st_mode))
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            answer = b"".join(iter(lambda: client.recv(4096), b""))
        self.assertIn(b'\nmpsd_jobs{state="queued"} 0\n', answer)
        self.assertIn(f"unix:{path}\n", daemon.ctl("info").stdout)
        self.assertEqual(0, daemon.terminate())
        self.assertFalse(path.exists())
