# SPDX-License-Identifier: Apache-2.0
"""Run as: make_data_test.py FOLDER, where FOLDER holds make_data.py."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv.pop(1))
import make_data  # noqa: E402

HEADER = "sentiment,confidence,text\n"


def lines(*rows):
    return [HEADER, *(row + "\n" for row in rows)]


def many(per_label):
    return lines(*(f"{label},1,This is text number {number} for {label}"
                   for label in make_data.LABELS
                   for number in range(per_label)))


def load(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class Read(unittest.TestCase):

    def test_keeps_the_first_of_texts_that_differ_in_handles_alone(self):
        found = list(make_data.read(lines(
            'negative,1,"@one Never again, I say, never"',
            "positive,1,RT @two never again I say never!")))
        self.assertEqual(
            found, [("negative", "@one Never again, I say, never")])

    def test_leaves_out_what_is_unsure_unknown_linked_or_not_ascii(self):
        found = list(make_data.read(lines(
            "negative,0.5,The graders did not agree on this",
            "mixed,1,A label that the demo does not use",
            "neutral,1,Look at this http://t.co/x right now",
            "neutral,1,Caf\u00e9s are open until late at night",
            "neutral,1,too short",
            f"neutral,1,{'too long ' * 40}",
            "neutral,,No confidence is given for this one")))
        self.assertEqual(
            found, [("neutral", "No confidence is given for this one")])

    def test_undoes_html_escapes_and_line_breaks(self):
        found = list(make_data.read(lines(
            'positive,1,"Fish &amp; chips\n  for everyone here"')))
        self.assertEqual(
            found, [("positive", "Fish & chips for everyone here")])


class Make(unittest.TestCase):

    def make(self, seed=1):
        out = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        make_data.make(many(30), out, 60, 15, seed)
        return out

    def test_rows_are_balanced_and_no_text_is_in_both_files(self):
        out = self.make()
        train, held_out = load(out / "train.jsonl"), load(out / "eval.jsonl")
        for rows, each in ((train, 20), (held_out, 5)):
            answers = [row["messages"][1]["content"] for row in rows]
            self.assertEqual({label: answers.count(label)
                              for label in make_data.LABELS},
                             dict.fromkeys(make_data.LABELS, each))
        texts = [row["messages"][0]["content"] for row in train + held_out]
        self.assertEqual(len(set(texts)), 75)
        self.assertEqual(load(out / "quick.jsonl"),
                         held_out[:make_data.QUICK_ROWS])

    def test_the_answer_is_the_label_of_the_text_asked_about(self):
        for row in load(self.make() / "train.jsonl"):
            question, answer = row["messages"]
            self.assertTrue(question["content"].endswith(answer["content"]))
            self.assertEqual((question["role"], answer["role"]),
                             ("user", "assistant"))

    def test_a_seed_gives_the_same_bytes_and_another_seed_others(self):
        first, again, other = self.make(), self.make(), self.make(seed=2)
        for name in ("train.jsonl", "eval.jsonl", "quick.jsonl"):
            self.assertEqual((first / name).read_bytes(),
                             (again / name).read_bytes())
        self.assertNotEqual((first / "train.jsonl").read_bytes(),
                            (other / "train.jsonl").read_bytes())

    def test_too_few_texts_are_an_error(self):
        with tempfile.TemporaryDirectory() as out:
            with self.assertRaisesRegex(SystemExit, "too few positive texts"):
                make_data.make(many(3), pathlib.Path(out), 30, 3, 1)


if __name__ == "__main__":
    unittest.main()
