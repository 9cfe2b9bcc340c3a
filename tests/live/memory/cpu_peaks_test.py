# SPDX-License-Identifier: Apache-2.0
"""A plan's memory against the footprint of real workers on the CPU.

The figure is the most that the process held in memory (the kernel's ru_maxrss,
which misses no peak), less that of a job of the same task whose tensors are
below a megabyte: the program, its libraries, thread pools and tokenizer. Each
job runs twice: with a heap from which freed memory goes back to the system at
once (tests/fakes/plain_heap.cc), and with the system's own.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
import big_jobs  # noqa: E402
import harness  # noqa: E402

TOLERANCE = 0.10
# With the system's own heap, whose pieces depend on the threads' order.
HEAP_TOLERANCE = 0.25
LLAMA = big_jobs.decoder("llama", 512, 1536, 4, 8, 4, 8192)
QWEN2 = big_jobs.decoder("qwen2", 448, 2432, 4, 14, 2, 4096)
QWEN3 = big_jobs.decoder("qwen3", 512, 1536, 4, 8, 4, 4096, head_dim=128)
MISTRAL = big_jobs.decoder("mistral", 512, 1792, 4, 8, 2, 4096,
                           sliding_window=256)
BERT = big_jobs.encoder("bert", 384, 1536, 4, 12)
VIT = big_jobs.encoder("vit", 384, 1536, 4, 6)
FULL = {"fine_tune_type": "full", "lora": None}
NEW = {**FULL, "from_scratch": True}
CLASSES = {"task": "SEQ_CLS"}


def training(**fields):
    return {"training": fields}


CASES = [
    # name, config, rows, length, job, rows of an evaluation
    ("llama, LoRA", LLAMA, 4, 512, {}, 0),
    ("llama, LoRA of queries and values", LLAMA, 4, 512,
     {"lora": {"target_modules": ["q_proj", "v_proj"]}}, 0),
    ("llama, dropout", LLAMA, 4, 512, {"lora": {"lora_dropout": 0.1}}, 0),
    ("llama, checkpointing", LLAMA, 8, 512,
     training(gradient_checkpointing=True), 0),
    ("llama, selective checkpointing", LLAMA, 4, 512,
     training(gradient_checkpointing=True,
              recompute_granularity="selective"), 0),
    ("llama, accumulation", LLAMA, 4, 512,
     training(gradient_accumulation_steps=2), 0),
    ("llama, packing", LLAMA, 4, 512, training(packing=True), 0),
    ("llama, bf16", LLAMA, 8, 512, training(bf16=True), 0),
    ("llama, 4 bits", LLAMA, 4, 512,
     {"quantization_config": {"load_in_4bit": True,
                              "bnb_4bit_quant_type": "nf4"}}, 0),
    ("llama, autograd", LLAMA, 4, 512, {"gradients": "autograd"}, 0),
    ("llama, full", LLAMA, 4, 512, FULL, 0),
    ("llama, full, checkpointing", LLAMA, 8, 512,
     {**FULL, **training(gradient_checkpointing=True)}, 0),
    ("llama, evaluation", LLAMA, 2, 512, {}, 16),
    ("qwen2, LoRA", QWEN2, 4, 512, {}, 0),
    ("qwen2, full", QWEN2, 4, 512, FULL, 0),
    ("qwen3, LoRA", QWEN3, 4, 512, {}, 0),
    ("mistral, LoRA", MISTRAL, 4, 512, {}, 0),
    ("llama, classes", LLAMA, 4, 512, CLASSES, 0),
    ("bert, full", BERT, 32, 128, FULL, 0),
    ("bert, LoRA", BERT, 32, 128, {"lora": {"target_modules":
                                            ["query", "value"]}}, 0),
    ("bert, checkpointing", BERT, 64, 128,
     {**FULL, **training(gradient_checkpointing=True)}, 0),
    ("bert, evaluation", BERT, 4, 128, FULL, 96),
    ("roberta, full", big_jobs.encoder("roberta", 384, 1536, 4, 12), 32, 128,
     FULL, 0),
    ("distilbert, LoRA", big_jobs.encoder("distilbert", 384, 1536, 4, 12), 32,
     128, {"lora": {"target_modules": ["q_lin", "v_lin"]}}, 0),
    ("vit, full", VIT, 16, 1, NEW, 0),
    ("vit, evaluation", VIT, 2, 1, NEW, 48),
]


class Peaks(unittest.TestCase):
    """One baseline a task."""

    tolerance = TOLERANCE

    def setUp(self):
        self.baselines = {}
        folder = tempfile.TemporaryDirectory(prefix="mpsd")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.env = harness.environment(
            HOME=folder.name, OMP_NUM_THREADS="2",
            LD_PRELOAD=str(harness.BIN / "libplain_heap.so"),
            MALLOC_ARENA_MAX="1", MALLOC_MMAP_THRESHOLD_=str(64 << 10),
            MALLOC_TRIM_THRESHOLD_="0", MALLOC_TOP_PAD_="0",
            MALLOC_MMAP_MAX_=str(1 << 20))

    def estimate(self, job):
        """The bytes that the worker's own plan says."""
        done = subprocess.run(
            [harness.BIN / "mpsd-worker", "--plan", job], env=self.env,
            capture_output=True, text=True, check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        memory = json.loads(done.stdout.splitlines()[-1])["plan"]["memory"]
        if "LD_PRELOAD" in self.env:  # that heap keeps nothing in pieces
            memory["estimated_bytes"] -= memory.pop("heap_bytes")
        return memory

    def peak(self, job):
        """The most bytes that a run of it held."""
        with open(self.folder / "err", "w+", encoding="utf-8") as err:
            worker = subprocess.Popen(
                [harness.BIN / "mpsd-worker", "--job", job, "--out",
                 job.parent / "out"], env=self.env, stderr=err,
                stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(worker.pid, 0)
            worker.returncode = os.waitstatus_to_exitcode(status)
            err.seek(0)
            self.assertEqual(0, worker.returncode, err.read())
        return usage.ru_maxrss << 10

    def baseline(self, config, task):
        kind = (config["model_type"], task)
        if kind not in self.baselines:
            small = (big_jobs.encoder(config["model_type"], 24, 48, 1, 2)
                     if "rope_theta" not in config else
                     big_jobs.decoder(config["model_type"], 32, 64, 1, 2, 2,
                                      128))
            job = big_jobs.write_job(
                self.folder / "small", small, 1, 16,
                {**NEW} if config["model_type"] == "vit" else
                {**FULL, **({"task": task} if task else {})})
            self.baselines[kind] = self.peak(job) - \
                self.estimate(job)["estimated_bytes"]
        return self.baselines[kind]

    def test_a_plans_memory_has_what_the_heap_keeps(self):
        for name in [name for name in self.env if name.startswith("MALLOC_")]:
            del self.env[name]
        del self.env["LD_PRELOAD"]
        self.tolerance = HEAP_TOLERANCE
        self.test_a_plans_memory_is_what_a_worker_holds()

    def test_a_plans_memory_is_what_a_worker_holds(self):
        wanted = os.environ.get("MPSD_PEAKS", "")
        for name, config, rows, length, changes, eval_rows in CASES:
            if wanted not in name:
                continue
            with self.subTest(name):
                base = self.baseline(config, changes.get("task"))
                job = big_jobs.write_job(self.folder / "big", config, rows,
                                         length, changes, eval_rows)
                plan = self.estimate(job)
                measured = self.peak(job) - base
                estimate = plan["estimated_bytes"]
                parts = ", ".join(f"{part[:-6]} {plan[part] >> 20}"
                                  for part in plan if part.endswith("_bytes"))
                print(f"{name}: measured {measured >> 20} MiB above "
                      f"{base >> 20}, estimate {estimate / measured:.3f} of "
                      f"it ({parts})", flush=True)
                self.assertAlmostEqual(1, estimate / measured,
                                       delta=self.tolerance)
