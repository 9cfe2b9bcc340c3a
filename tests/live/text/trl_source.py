# SPDX-License-Identifier: Apache-2.0
"""TRL's own preparation of rows, without the packages it does not need for it.

SFTTrainer keeps add_eos, tokenize_fn and build_labels inside a method; here
they are compiled out of its source as they stand.
"""

import ast
import importlib.util
import json
import logging
import pathlib
import sys
from unittest import mock

PACKAGE = pathlib.Path(importlib.util.find_spec("trl").origin).parent
TEMPLATES = PACKAGE / "chat_templates"


class Warnings:
    """Stands for the logger: what TRL would warn of."""

    def __init__(self):
        self.seen = []

    def warning_once(self, text, *_):
        self.seen.append(text)


def functions_of(source, names):
    """The functions of these names, wherever they are defined."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            found[node.name] = node
    missing = set(names) - set(found)
    if missing:
        sys.exit(f"trl: no functions {missing} in its SFTTrainer")
    return ast.Module(body=list(found.values()), type_ignores=[])


class Trl:
    def __init__(self):
        for absent in ("pyarrow", "pyarrow.compute", "pyarrow.types", "datasets"):
            sys.modules.setdefault(absent, mock.MagicMock())
        import trl.chat_template_utils
        import trl.data_utils
        logging.getLogger("trl").setLevel(logging.ERROR)
        self.templates = trl.chat_template_utils
        self.data = trl.data_utils
        self.warnings = Warnings()
        trainer = (PACKAGE / "trainer" / "sft_trainer.py").read_text("utf-8")
        scope = {"json": json, "logger": self.warnings,
                 "_tokenize": self.data._tokenize,
                 "is_conversational": self.data.is_conversational,
                 "common_prefix_length": self.data.common_prefix_length}
        code = functions_of(trainer, ("add_eos", "tokenize_fn", "build_labels"))
        exec(compile(code, "sft_trainer.py", "exec"), scope)
        self.functions = scope

    def training_template(self, tokenizer):
        """None where the tokenizer's own will do."""
        if self.templates.has_generation_markers(tokenizer.chat_template):
            return None
        return self.templates.get_training_chat_template(tokenizer)

    def labels(self, row, tokenizer, assistant_only=False, completion_only=None):
        """ids, which of them are labels, whether it warned of the prompt.

        As _prepare_dataset of SFTTrainer for a data set of this one row."""
        row = json.loads(json.dumps(row))
        if self.data.is_conversational_from_value(row):
            row = self.data.maybe_convert_to_chatml(row)
        if completion_only is None:
            completion_only = "prompt" in row and "completion" in row
        if not self.data.is_conversational(row):
            row = self.functions["add_eos"](row, tokenizer.eos_token, "text")
        template = self.training_template(tokenizer) if assistant_only else None
        self.warnings.seen.clear()
        row.update(self.functions["tokenize_fn"](
            row, tokenizer, "text", assistant_only, template))
        masks = ["completion_mask"] * (completion_only and "completion_mask" in row)
        masks += ["assistant_masks"] * ("assistant_masks" in row)
        labels = self.functions["build_labels"](row, masks)["labels"]
        return row["input_ids"], [int(i != -100) for i in labels], bool(
            self.warnings.seen)
