# SPDX-License-Identifier: Apache-2.0
"""usage: walk_program.py MODEL_FOLDER

The walk of walk_test.py as a program: run by the test in an interpreter that
has the package mpsd and no setting of this repository."""

import sys

import mpsd

ROWS = [{"messages": [{"role": "user", "content": q},
                      {"role": "assistant", "content": a}]}
        for q, a in (("2+2?", "4"), ("Sky?", "blue"), ("Grass?", "green"),
                     ("Snow?", "white"))]


def main(folder):
    with mpsd.Client() as client:
        assert client.who_am_i().user == "ann", client.who_am_i()
        model = client.push_model(folder, name="ann/tiny")
        assert [m.name for m in client.models("ann/tiny")] == [model.name]
        spec = {"name": "walk", "model": "ann/tiny", "device": "cpu",
                "dataset": {"train": "train.jsonl"},
                "lora": {"r": 4, "target_modules": "all-linear"},
                "training": {"max_steps": 4, "max_length": 64,
                             "learning_rate": 0.01}}
        first = client.submit(spec, data={"train.jsonl": ROWS})
        steps = [e for e in first.watch() if isinstance(e, mpsd.Step)]
        assert first.state == "SUCCEEDED" and steps, first.reason
        clone = first.clone({"training.learning_rate": 0.02}, held=True)
        spec.update(adapter=f"job:{clone.id}")
        del spec["lora"]
        chained = client.submit(spec, data={"train.jsonl": ROWS},
                                after=[first])
        assert set(chained.message.after) == {first.id, clone.id}
        assert chained.state == "QUEUED"
        try:
            client.remove_model("ann/tiny")
            raise AssertionError("a model that jobs need was removed")
        except mpsd.Conflict:
            pass
        clone.release().wait(60)
        chained.wait(60)
        a, b = first.spec["training"], clone.spec["training"]
        different = {k for k in a if a[k] != b[k]}
        assert different == {"learning_rate"}, different
        chained.result("adapter")
        for job in (chained, clone, first):
            assert job.delete() > 0
        assert list(client.jobs()) == []
        assert client.remove_model("ann/tiny") > 0


if __name__ == "__main__":
    main(sys.argv[1])
