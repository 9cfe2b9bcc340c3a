# SPDX-License-Identifier: Apache-2.0
"""A planted slow loader: images that take long to decode, for a model that
takes no time. profile and compare-devices find it; the control is the same job
with small images. The shares lie far on both sides of the thresholds, so that
neither a fast machine nor a busy one, which makes the control wait as well,
changes a verdict."""

import json
import os
import random

import harness
import images_test

WARN, FAIL = 11, 10
LARGE, SMALL = 1500, 8  # pixels of a side
ROWS = 64  # more than a study's steps take


def noise(size):
    """A square's pixels: many shades, in no order, so that no decoder is fast
    at them."""
    source = random.Random(size)
    shades = bytes(source.randrange(256) for _ in range(64))
    return source.randbytes(size * size * 3).translate(shades * 4)


class SlowLoaderTest(harness.SharedDaemonTest):
    def setUp(self):
        super().setUp()
        model = self.folder / "vit"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(images_test.CONFIG))
        (model / "preprocessor_config.json").write_text(
            json.dumps(images_test.PROCESSOR))

    def job(self, name, size):
        image = self.folder / f"{name}.png"
        harness.write_pixels(image, noise(size), size)
        # Decoded and fitted images are kept, so that each row is another one.
        for i in range(ROWS):
            row = self.folder / name / ("apple", "lime")[i % 2] / f"{i}.png"
            row.parent.mkdir(parents=True, exist_ok=True)
            os.link(image, row)
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({
            "model": str(self.folder / "vit"), "task": "IMAGE_CLS",
            "fine_tune_type": "full", "from_scratch": True, "device": "cpu",
            "dataset": {"train": name},
            "training": {"max_steps": 8, "per_device_train_batch_size": 4}}))
        return str(path)

    def found(self, *args):
        """The study's result, and its findings by their names."""
        done = self.mpsd.ctl("--json", *args)
        self.assertIn(done.returncode, (0, WARN, FAIL), done.stderr)
        result = json.loads(done.stdout)
        return result, {f["name"]: f for f in result["findings"]}

    def test_profile_finds_it(self):
        for size, verdict in (LARGE, "WARN"), (SMALL, "PASS"):
            _, findings = self.found(
                "profile", self.job(f"of-{size}", size), "--steps", "10",
                "--warm-up", "2", "--threshold", "profile.data_share=0.8")
            self.assertEqual(verdict, findings["profile.data"]["verdict"],
                             findings["profile.data"])

    def test_compare_devices_finds_it(self):
        shares, alone = [], []
        for size in LARGE, SMALL:
            # Two runs of one device differ by chance alone: never by as much
            # as nine tenths, from which a slow loader would not matter.
            result, findings = self.found(
                "compare-devices", self.job(f"of-{size}", size), "--devices",
                "cpu,cpu", "--steps", "6", "--threshold",
                "compare.speedup=0.9")
            comparison = result["device_comparison"]
            measured = comparison["measured"]
            shares.append(measured["data_wait_ratio"])
            alone.append(measured["loader_seconds"]["median"])
            if size == LARGE:
                self.assertEqual("WARN", findings["compare.data"]["verdict"],
                                 comparison)
                self.assertNotIn("the data are not", comparison["reason"])
        self.assertGreater(shares[0], 0.6, shares)
        self.assertLess(shares[1], shares[0], shares)
        self.assertLess(alone[1], alone[0] / 10, alone)
