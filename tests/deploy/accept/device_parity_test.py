# SPDX-License-Identifier: Apache-2.0
"""The comparison of a device with the golden files, here with the CPU: it
passes within the tolerances that are promised, and fails beyond them.

    device_parity_test.py TOOLS_FOLDER     with MPSD_BIN_DIR
"""

import contextlib
import io
import os
import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
import device_parity  # noqa: E402
import numpy  # noqa: E402

PROBE = os.environ["MPSD_BIN_DIR"] + "/parity_probe"


class DeviceParityTest(unittest.TestCase):
    def run_with(self, *options):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = device_parity.main([PROBE, *options])
        return status, said.getvalue()

    def test_every_case_passes_on_the_cpu(self):
        status, said = self.run_with()
        self.assertEqual(status, 0, said)
        names = [case.name for case in device_parity.cases()]
        self.assertIn(f"{len(names)} cases on cpu", said)
        for family in ("llama2", "llama3", "mistral", "qwen2", "qwen3",
                       "smollm", "bert", "roberta", "distilbert", "vit"):
            self.assertTrue(any(n.startswith(family) for n in names), family)

    def test_beyond_the_tolerance_it_fails(self):
        status, said = self.run_with("--tensor", "1e-12", "--losses", "1e-12")
        self.assertEqual(status, 1)
        self.assertIn("FAILED", said)

    def test_a_probe_that_fails_is_a_failure(self):
        status, said = self.run_with("--device", "mps")
        if sys.platform != "darwin":
            self.assertEqual(status, 1)
            self.assertIn("0 cases on mps, 0 comparisons", said)

    def test_what_counts(self):
        one, two = numpy.ones((2, 3)), numpy.ones((2, 3)) * 1.5
        self.assertEqual(device_parity.relative(two, one), 0.5)
        self.assertEqual(device_parity.relative(one.T, one), float("inf"))
        theirs = {"logits": numpy.ones((1, 2, 3)), "grad.a": one,
                  "attention_mask": numpy.array([[1, 0]]),
                  "train.losses": numpy.array([2.0, 4.0]), "final.a": one}
        ours = {"logits": numpy.ones((1, 2, 3)), "train.losses":
                numpy.array([2.0, 4.4])}
        ours["logits"][0, 1] = 7  # at padding
        found = {name: error for _, name, error in
                 device_parity.differences(ours, theirs)}
        self.assertEqual(found["logits"], 0)
        self.assertEqual(found["grad.a"], float("inf"))
        self.assertAlmostEqual(found["train.losses"], 0.1)
        self.assertNotIn("final.a", found)


if __name__ == "__main__":
    unittest.main()
