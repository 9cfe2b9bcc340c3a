# SPDX-License-Identifier: Apache-2.0
"""The judge of a job's memory, on series that it has to distinguish.

    memory_plateau_test.py TOOLS_FOLDER
"""

import contextlib
import io
import json
import random
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv.pop(1))
import memory_plateau  # noqa: E402

MIB = 1 << 20


def lines(values, field="driver_allocated_bytes"):
    return [json.dumps({"step": step, "memory": {field: int(value)}})
            for step, value in enumerate(values, 1)]


class MemoryPlateauTest(unittest.TestCase):
    def judge(self, values):
        points = memory_plateau.series(lines(values),
                                       "driver_allocated_bytes")
        return memory_plateau.judge(points, 50, 0.02)[0]

    def test_flat_after_a_warm_up(self):
        rising = [min(n, 40) * 30 * MIB for n in range(300)]
        self.assertTrue(self.judge(rising))

    def test_a_saw_and_a_single_peak_are_no_growth(self):
        draw = random.Random(7)
        saw = [1000 * MIB + draw.randrange(200) * MIB for _ in range(300)]
        self.assertTrue(self.judge(saw))
        peak = [1000 * MIB] * 300
        peak[290] = 3000 * MIB
        self.assertTrue(self.judge(peak))

    def test_a_leak_of_half_a_megabyte_a_step(self):
        self.assertFalse(self.judge([1000 * MIB + n * MIB / 2
                                     for n in range(300)]))

    def test_a_heap_that_comes_late_and_stays(self):
        self.assertFalse(self.judge([1000 * MIB + (1024 * MIB if n > 200 else 0)
                                     for n in range(300)]))

    def test_memory_given_back_is_fine(self):
        self.assertTrue(self.judge([1000 * MIB - n * MIB for n in range(300)]))

    def test_too_few_steps_are_no_plateau(self):
        with self.assertRaisesRegex(ValueError, "too few to judge"):
            self.judge([MIB] * 60)

    def run_on(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write("\n".join(text) + "\n")
            file.flush()
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                status = memory_plateau.main([file.name])
            return status, said.getvalue()

    def test_the_command(self):
        flat = [1000 * MIB] * 300
        status, said = self.run_on(lines(flat, "footprint_bytes"))
        self.assertEqual(status, 0)
        self.assertIn("driver_allocated_bytes: not counted", said)
        self.assertIn("footprint_bytes: flat", said)
        growing = [1000 * MIB + n * MIB for n in range(300)]
        status, said = self.run_on(lines(growing))
        self.assertEqual(status, 1)
        self.assertIn("driver_allocated_bytes: GROWS", said)
        self.assertEqual(self.run_on(lines([MIB] * 30))[0], 1)
        # Nothing counted is nothing proved.
        self.assertEqual(self.run_on(lines(flat, "other"))[0], 1)


if __name__ == "__main__":
    unittest.main()
