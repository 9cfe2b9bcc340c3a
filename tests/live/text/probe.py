# SPDX-License-Identifier: Apache-2.0
"""text_probe as an object: ask a question, get its answer."""

import json
import subprocess


class Probe:
    def __init__(self, program):
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            encoding="utf-8")

    def ask(self, op, **question):
        question["op"] = op
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"text_probe died on {question!r}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise RuntimeError("text_probe failed")
