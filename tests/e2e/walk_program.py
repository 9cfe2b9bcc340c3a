# SPDX-License-Identifier: Apache-2.0
"""usage: walk_program.py SERVER TOKEN CA

The walk of walk_test.py as a program: run by the test in an interpreter that
has the package mpsd and no setting of this repository."""

import sys

import mpsd

ROWS = [{"messages": [{"role": "user", "content": q},
                      {"role": "assistant", "content": a}]}
        for q, a in (("2+2?", "4"), ("Sky?", "blue"), ("Grass?", "green"),
                     ("Snow?", "white"))]


def main(server, token, ca):
    with mpsd.Client(server, token=token, ca=ca) as client:
        assert client.info().you.user == "ann", client.info().you
        spec = {"name": "walk", "model": "ann/tiny", "device": "cpu",
                "dataset": {"train": "train.jsonl"},
                "lora": {"r": 4, "target_modules": "all-linear"},
                "training": {"max_steps": 4, "max_length": 64,
                             "learning_rate": 0.01}}
        first = client.submit(spec, data={"train.jsonl": ROWS})
        steps = [e for e in first.watch() if isinstance(e, mpsd.Step)]
        assert first.state == "SUCCEEDED" and steps, first.message.message
        spec.update(adapter=f"job:{first.id}")
        del spec["lora"]
        chained = client.submit(spec, data={"train.jsonl": ROWS})
        assert list(chained.message.after) == [first.id]
        chained.wait(60)
        chained.download("adapter")
        assert [job.id for job in client.jobs()] == [chained.id, first.id]


if __name__ == "__main__":
    main(*sys.argv[1:])
