# SPDX-License-Identifier: Apache-2.0
"""metrics.json: what scikit-learn and scipy say of predictions.

    build/oracle/bin/python tests/golden/metrics.py
"""

import json
import math
import pathlib
import warnings

import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn import metrics as sk

GLUE = {
    "cola": ["matthews_correlation"], "stsb": ["pearson", "spearmanr"],
    "mrpc": ["accuracy", "f1"], "qqp": ["accuracy", "f1"],
    "sst2": ["accuracy"], "mnli": ["accuracy"], "qnli": ["accuracy"],
    "rte": ["accuracy"], "wnli": ["accuracy"],
}


def single_label(logits, truth):
    classes = logits.argmax(axis=1)
    names = range(logits.shape[1])
    values = {"accuracy": sk.accuracy_score(truth, classes)}
    if logits.shape[1] == 2:
        values["f1"] = sk.f1_score(truth, classes, pos_label=1)
    values["f1_macro"] = sk.f1_score(truth, classes, average="macro")
    values["matthews_correlation"] = sk.matthews_corrcoef(truth, classes)
    confusion = sk.confusion_matrix(truth, classes, labels=names)
    return values, confusion.flatten().tolist()


def regression(logits, targets):
    said, truth = logits.astype(np.float64), targets.astype(np.float64)
    values = {}
    if logits.shape[1] == 1:
        values["pearson"] = pearsonr(said[:, 0], truth[:, 0])[0]
        values["spearmanr"] = spearmanr(said[:, 0], truth[:, 0])[0]
    values["mse"] = sk.mean_squared_error(truth, said)
    values["mae"] = sk.mean_absolute_error(truth, said)
    return values


def multi_label(logits, targets):
    said, truth = (logits > 0).astype(int), targets.astype(int)
    return {"accuracy": sk.accuracy_score(truth, said),
            "f1_micro": sk.f1_score(truth, said, average="micro"),
            "f1_macro": sk.f1_score(truth, said, average="macro")}


def case(name, problem, logits, labels, task=""):
    logits = np.asarray(logits, dtype=np.float32)
    row = {"name": name, "problem": problem, "task": task,
           "outputs": logits.shape[1]}
    if problem == "single_label_classification":
        labels = np.asarray(labels)
        values, row["confusion"] = single_label(logits, labels)
    else:
        labels = np.asarray(labels, dtype=np.float32)
        compute = regression if problem == "regression" else multi_label
        values = compute(logits, labels)
    if task:
        values = {name: values[name] for name in GLUE[task]}
        if len(values) > 1:
            values["combined_score"] = float(np.mean(list(values.values())))
    row["logits"] = [float(v) for v in logits.flatten()]
    row["labels"] = labels.flatten().tolist()
    row["values"] = [[k, None if math.isnan(v) else float(v)]
                     for k, v in values.items()]
    return row


def logits_of(classes, outputs):
    """Logits whose highest is of the given class."""
    return np.eye(outputs)[np.asarray(classes)]


def single_cases(random):
    kind = "single_label_classification"
    for outputs, rows in [(2, 40), (3, 25), (7, 60), (2, 1)]:
        yield case(f"random {rows}x{outputs}", kind,
                   random.normal(size=(rows, outputs)),
                   random.integers(0, outputs, rows))
    for task in GLUE:
        if task == "stsb":
            continue
        outputs = 3 if task == "mnli" else 2
        yield case(f"task {task}", kind, random.normal(size=(30, outputs)),
                   random.integers(0, outputs, 30), task)
    table = [
        ("all right", 3, [0, 1, 2, 1], [0, 1, 2, 1]),
        ("all wrong", 2, [1, 0, 1], [0, 1, 0]),
        ("one class in the truth", 2, [0, 1, 0, 1], [0, 0, 0, 0]),
        ("one class of truth and predictions", 2, [0, 0, 0], [0, 0, 0]),
        ("only the positive class", 2, [1, 1, 1], [1, 1, 1]),
        ("constant predictions", 3, [1, 1, 1, 1], [0, 1, 2, 1]),
        ("no positive predicted", 2, [0, 0, 0, 0], [0, 1, 1, 0]),
        ("no positive in the truth", 2, [1, 0, 0, 0], [0, 0, 0, 0]),
        ("absent class", 4, [0, 1, 1, 0, 2], [0, 1, 0, 0, 1]),
        ("absent last class", 3, [0, 1, 1], [0, 1, 0]),
    ]
    for name, outputs, said, truth in table:
        yield case(name, kind, logits_of(said, outputs), truth)
    yield case("equal logits: the first", kind,
               [[1, 1, 0], [0, 2, 2], [3, 3, 3]], [0, 1, 0])


def regression_cases(random):
    kind = "regression"
    said = random.normal(size=(50, 1))
    truth = said * 2 + random.normal(size=(50, 1))
    yield case("random", kind, said, truth)
    yield case("task stsb", kind, said, np.clip(truth + 2.5, 0, 5), "stsb")
    ties = random.integers(0, 4, (30, 1))
    yield case("ties", kind, ties, random.integers(0, 6, (30, 1)))
    yield case("ties on one side", kind, random.normal(size=(30, 1)), ties)
    yield case("far from zero", kind, said * 1e-3 + 1000, truth + 1000)
    table = [
        ("constant predictions", [1, 1, 1], [0, 1, 2]),
        ("constant predictions that are no binary fraction",
         [0.1] * 7, [0, 1, 2, 3, 4, 5, 6]),
        ("constant truth", [0, 1, 2], [3, 3, 3]),
        ("equal", [1, 2, 4], [1, 2, 4]),
        ("opposite", [1, 2, 3], [3, 2, 1]),
        ("two rows", [1, 2], [5, 3]),
    ]
    for name, said, truth in table:
        yield case(name, kind, np.reshape(said, (-1, 1)),
                   np.reshape(truth, (-1, 1)))
    yield case("two outputs", kind, random.normal(size=(9, 2)),
               random.normal(size=(9, 2)))


def multi_cases(random):
    kind = "multi_label_classification"
    yield case("random", kind, random.normal(size=(40, 5)),
               random.integers(0, 2, (40, 5)))
    yield case("absent label", kind, [[1, -1, -1], [-1, 1, -1], [1, 1, -1]],
               [[1, 0, 0], [0, 1, 0], [1, 0, 0]])
    yield case("nothing predicted, nothing there", kind,
               [[-1, -1], [-2, -2]], [[0, 0], [0, 0]])
    yield case("a logit of zero is no", kind, [[0, 1]], [[1, 1]])
    yield case("all right", kind, [[1, 1], [-1, 1]], [[1, 1], [0, 1]])


def main():
    warnings.simplefilter("ignore")
    random = np.random.default_rng(4)
    cases = [*single_cases(random), *regression_cases(random),
             *multi_cases(random)]
    path = pathlib.Path(__file__).parent / "metrics.json"
    rows = ",\n".join(json.dumps(row) for row in cases)
    path.write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main()
