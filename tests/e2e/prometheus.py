# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus on a port of its own."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import harness


class Prometheus:
    def __init__(self, folder, config):
        """`folder` becomes its own; `config` is the text of its settings."""
        folder.mkdir()
        (folder / "prometheus.yml").write_text(config)
        self.address = f"127.0.0.1:{harness.free_port()}"
        self.log = folder / "log"
        with open(self.log, "wb") as output:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yml",
                 f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address={self.address}"],
                stdout=output, stderr=output)

    def ask(self, path, **parameters):
        """The `data` of an answer; AssertionError with Prometheus' own words
        for a query that it does not take."""
        url = (f"http://{self.address}/api/v1/{path}?"
               + urllib.parse.urlencode(parameters, doseq=True))
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None

    def await_value(self, query, holds=lambda value: True):
        """Until a series of the query has such a value."""
        def found():
            if self.process.poll() is not None:
                raise AssertionError("it ended: " + self.log.read_text())
            try:
                return any(
                    holds(float(series["value"][1])) for series
                    in self.ask("query", query=query)["result"])
            except (OSError, AssertionError):  # it starts
                return False
        harness.eventually(found, lambda: f"{query}: {self.ask('targets')}")

    def close(self):
        self.process.terminate()
        self.process.wait(30)
