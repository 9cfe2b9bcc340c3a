#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An mpsd-worker that plays an act: it speaks the protocol of core/wire on
fd 3 and does, one after the other, what $HOUR_ACTS/<name of the job>.json
lists, as [["load", 1], ["steps", {"count": 50}], ["done"]]:

  load S          loads its model for S seconds
  steps {…}       trains, as Steps has it
  evaluate S      evaluates for S seconds
  save S          writes a checkpoint for S seconds
  talk S          is alive for S seconds and finishes no step
  silent S        says nothing for S seconds
  crash N         dies by SIGABRT in the first N attempts
  fail KIND TEXT  says that it failed: out_of_memory, non_finite, rejected …
  done            stores its result

`--selftest --verdict PATH` passes at once, and keeps a verdict that is there."""

import dataclasses
import json
import math
import os
import pathlib
import re
import select
import signal
import socket
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
BEAT = 0.2  # s, between signs of life
MIB = 1 << 20


@dataclasses.dataclass
class Steps:
    count: int = 10
    seconds: float = 0.2   # of a step
    loss: tuple = (2.0, 1.0)            # of the first and the last of them
    epochs: float = 1.0                 # in all of them
    footprint: tuple = (3000, 3000)     # MiB, at the first and the last
    data_wait: float = 0.05             # share of a step
    device: str = "mps"


def protocol_version():
    text = (SOURCE / "core/wire/messages.h").read_text()
    return int(re.search(r"kProtocolVersion = (\d+)", text).group(1))


class Worker:
    def __init__(self):
        self.socket = socket.socket(fileno=3)
        self.received = b""
        self.say("hello", version=protocol_version(), pid=os.getpid(),
                 worker_version="0.1.0-act", torch_version="2.15.0-act")
        start = self.hear(60)
        if start is None or start["type"] != "start":
            sys.exit(0)
        self.out = pathlib.Path(start["output_dir"])
        self.out.mkdir(parents=True, exist_ok=True)
        spec = json.loads(pathlib.Path(start["spec_path"]).read_text())
        acts = pathlib.Path(os.environ["HOUR_ACTS"])
        self.act = json.loads((acts / f"{spec['name']}.json").read_text())
        self.total = sum(Steps(**values[0]).count for what, *values in self.act
                         if what == "steps")
        self.resumed = max((int(p.name[5:]) for p in
                            (self.out / "checkpoints").glob("step-*")),
                           default=0)
        self.step = 0
        self.epoch = 0.0
        self.loss = math.nan
        self.device = None
        attempts = self.out / "attempts"
        attempts.write_text((attempts.read_text() if attempts.exists() else "")
                            + "I")
        self.attempt = len(attempts.read_text())

    def say(self, message, /, **fields):
        # JSON has no NaN; mpsd reads a null in its place.
        plain = {name: None if value is math.nan else value
                 for name, value in fields.items()}
        line = json.dumps({"type": message, **plain}) + "\n"
        try:
            self.socket.sendall(line.encode())
        except OSError:
            sys.exit(0)  # mpsd is gone

    def hear(self, seconds):
        """The next message within this many seconds, or None. The end of the
        stream is a Stop."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self.received:
            left = deadline - time.monotonic()
            if not select.select([self.socket], [], [], max(left, 0))[0]:
                return None
            more = self.socket.recv(1 << 16)
            if not more:
                return {"type": "stop", "reason": "preempt"}
            self.received += more
        line, _, self.received = self.received.partition(b"\n")
        return json.loads(line)

    def wait(self, seconds, beat=True):
        """Lets time pass, halts and ends as mpsd asks."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            message = self.hear(min(left, BEAT))
            if message is None:
                if beat:
                    self.say("heartbeat", stage="", fraction=0)
            elif message["type"] == "pause":
                self.say("held", step=self.step)
                while (message := self.hear(BEAT)) is None:
                    self.say("heartbeat", stage="", fraction=0)
                if message["type"] == "resume":
                    self.say("resumed", step=self.step)
                    deadline = time.monotonic() + left
            if message is not None and message["type"] == "stop":
                if message["reason"] == "preempt":
                    self.write_checkpoint(0.01)
                self.say("stopped", reason=message["reason"], step=self.step)
                sys.exit(0)

    def stage(self, name):
        self.say("heartbeat", stage=name, fraction=0)

    def write_checkpoint(self, seconds):
        folder = self.out / "checkpoints" / f"step-{self.step}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}\n')
        self.say("checkpointed", step=self.step, path=str(folder), bytes=22,
                 seconds=seconds, removed_paths=[])

    def load(self, seconds):
        self.stage("loading model")
        self.wait(seconds)

    def open_device(self, device):
        if self.device is None:
            self.device = device
            self.say("heartbeat", stage="", fraction=0, device=device)

    def steps(self, values):
        steps = Steps(**values)
        self.open_device(steps.device)
        self.stage("training")
        for done in range(1, steps.count + 1):
            share = (done - 1) / max(steps.count - 1, 1)
            self.step += 1
            self.epoch += steps.epochs / steps.count
            if self.step <= self.resumed:
                continue
            self.wait(steps.seconds)
            first, last = steps.loss
            self.loss = first + (last - first) * share
            smallest, largest = steps.footprint
            footprint = int((smallest + (largest - smallest) * share) * MIB)
            self.say("progress", step=self.step, total_steps=self.total,
                     epoch=self.epoch, loss=self.loss, learning_rate=1e-4,
                     grad_norm=0.5, tokens=4096, label_tokens=1024,
                     seconds=steps.seconds, padded_tokens=4400,
                     data_wait_seconds=steps.data_wait * steps.seconds,
                     device=steps.device, device_utilization_ratio=0.9,
                     memory={"current_allocated_bytes": footprint // 2,
                             "driver_allocated_bytes": footprint // 4 * 3,
                             "peak_allocated_bytes": footprint // 4 * 3,
                             "recommended_max_bytes": 24 << 30,
                             "footprint_bytes": footprint},
                     cpu_fallback_ops={"aten::unfold": self.step})

    def evaluate(self, seconds):
        self.stage("evaluating")
        self.wait(seconds)
        loss = 2.0 if math.isnan(self.loss) else self.loss + 0.1
        self.say("evaluated", step=self.step, eval_loss=loss,
                 label_tokens=50, seconds=seconds,
                 metrics={"accuracy": 0.5}, best=self.step > 0)
        self.stage("training")

    def save(self, seconds):
        self.stage("saving")
        self.wait(seconds)
        self.write_checkpoint(seconds)
        self.stage("training")

    def talk(self, seconds):
        self.wait(seconds)

    def silent(self, seconds):
        time.sleep(seconds)

    def crash(self, attempts):
        if self.attempt <= attempts:
            print("MPSGraph assertion failed", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGABRT)

    def fail(self, kind, message, error=None):
        self.say("failed", kind=kind, message=message,
                 **({} if error is None else {"error": error}))
        sys.exit(1)

    def done(self):
        adapter = self.out / "adapter"
        adapter.mkdir(exist_ok=True)
        (adapter / "adapter_config.json").write_text('{"peft_type": "LORA"}\n')
        (adapter / "adapter_model.safetensors").write_bytes(
            b"\x02\0\0\0\0\0\0\0{}")
        self.say("done", steps=self.step, output_path=str(adapter),
                 output_kind="adapter", seconds=1, metrics={},
                 confusion_matrix="")
        sys.exit(0)

    def play(self):
        for what, *values in self.act:
            # What a former attempt did before its checkpoint is over.
            if self.step < self.resumed and what not in ("load", "steps"):
                continue
            getattr(self, what)(*values)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--selftest"]:
        verdict = pathlib.Path(sys.argv[3])
        if not verdict.exists():
            verdict.write_text('{"identity": {"device": "mps"}}')
        sys.exit(0)
    Worker().play()
