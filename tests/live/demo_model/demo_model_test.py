# SPDX-License-Identifier: Apache-2.0
"""Run as: demo_model_test.py ROOT, with the Python of ROOT/build/oracle.

Makes the demo's model folder and asks Transformers to talk with it: rows of Q
or K in the wrong order, or a wrong tokenizer, make it talk nonsense.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()

# Digits stand alone, also after a space; the rest splits as GPT-2 does.
TEXT = "Hello 123 w\u00f6rld!  two\n\ttab, don't \U0001f600"
TOKENS = ["Hello", "\u0120", "1", "2", "3", "\u0120w", "\u00c3\u00b6r", "ld",
          "!", "\u0120", "\u0120two", "\u010a", "\u0109", "tab", ",",
          "\u0120don", "'t", "\u0120\u00f0\u0141\u013a", "\u0122"]


class DemoModel(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        subprocess.run([ROOT / "build/venv/bin/python",
                        ROOT / "deploy/demo/make_model.py", "--out", folder],
                       check=True)
        cls.tokenizer = AutoTokenizer.from_pretrained(folder)
        cls.model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32).eval()

    def answer(self, question):
        inputs = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], return_tensors="pt",
            return_dict=True, add_generation_prompt=True)
        output = self.model.generate(**inputs, max_new_tokens=30,
                                     do_sample=False)
        return self.tokenizer.decode(
            output[0, inputs["input_ids"].shape[1]:],
            skip_special_tokens=True)

    def test_knows_the_capital_of_france(self):
        self.assertIn("Paris", self.answer("What is the capital of France?"))

    def test_is_sure_of_plain_english(self):
        # 2.5; with the rows of Q and K left as the GGUF file has them: 3.9.
        ids = self.tokenizer("The quick brown fox jumps over the lazy dog. It "
                             "was the best of times, it was the worst of "
                             "times.", return_tensors="pt").input_ids
        with torch.no_grad():
            loss = self.model(input_ids=ids, labels=ids).loss.item()
        self.assertLess(loss, 3)

    def test_tokenizer_splits_and_round_trips(self):
        ids = self.tokenizer.encode(TEXT)
        self.assertEqual(self.tokenizer.convert_ids_to_tokens(ids), TOKENS)
        self.assertEqual(self.tokenizer.decode(ids), TEXT)
        self.assertEqual(self.tokenizer.encode("<|im_start|>x<|im_end|>"),
                         [1, self.tokenizer.convert_tokens_to_ids("x"), 2])

    def test_special_tokens_are_those_of_the_chat_template(self):
        self.assertEqual((self.tokenizer.bos_token, self.tokenizer.eos_token),
                         ("<|im_start|>", "<|im_end|>"))


if __name__ == "__main__":
    unittest.main()
