# SPDX-License-Identifier: Apache-2.0
"""core/text's chat templates against Transformers on real templates.

usage: compare_templates.py TEXT_PROBE FETCHED_FOLDER DEMO_MODEL

For each template, conversation, tools and variables: the rendered bytes and the
spans of {% generation %} equal Transformers', or both refuse. Then, through
AutoTokenizer, apply_chat_template's ids and assistant masks. Exits 1 on any
mismatch.
"""

import itertools
import json
import pathlib
import sys

import transformers
from transformers.utils import chat_template_utils

from conversations import CONVERSATIONS, KWARGS, TOOLS
from probe import Probe
from trl_source import TEMPLATES

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
          "pad_token": "<pad>", "image_token": "<image>"}


def without_nulls(messages):
    """As apply_chat_template does before it renders."""
    return [{k: v for k, v in m.items() if v is not None} for m in messages]


def python_render(source, messages, tools, prompt, variables):
    try:
        texts, spans = chat_template_utils.render_jinja_template(
            [without_nulls(messages)], tools=tools, chat_template=source,
            return_assistant_tokens_mask=True, add_generation_prompt=prompt,
            **variables)
    except Exception as error:  # Templates raise anything.
        return None, str(error)
    text = texts[0]
    return (text, [[len(text[:i].encode()) for i in s] for s in spans[0]]), None


def question(messages, tools, prompt, variables):
    return {"messages": json.dumps(messages), "prompt": prompt,
            "tools": "" if tools is None else json.dumps(tools),
            "kwargs": json.dumps(variables)}


class Comparison:
    def __init__(self, probe):
        self.probe = probe
        self.renders = self.refused = self.bad = 0

    def report(self, what, ours, theirs):
        self.bad += 1
        if self.bad <= 20:
            print(f"{what}\n    ours   {ours!r:.1500}\n    python {theirs!r:.1500}")

    def once(self, source, case):
        theirs, error = python_render(source, *case)
        answer = self.probe.ask("render", **question(*case))
        ours = None
        if "error" not in answer:
            ours = (answer["text"], answer["spans"])
        return ours, theirs, answer.get("error"), error

    def source(self, name, source):
        loaded = self.probe.ask("chat", source=source)
        if "error" in loaded:
            self.report(name, loaded["error"], "a template")
            return
        cases = itertools.product(
            CONVERSATIONS, (None, TOOLS, []), (False, True), KWARGS)
        for number, (messages, tools, prompt, more) in enumerate(cases):
            case = (messages, tools, prompt, {**TOKENS, **more})
            ours, theirs, our_error, their_error = self.once(source, case)
            if ours != theirs:  # Once more: midnight may lie between the two.
                ours, theirs, our_error, their_error = self.once(source, case)
            self.renders += 1
            self.refused += theirs is None
            if ours != theirs:
                self.report(f"{name}, case {number}: {messages!r:.200}",
                            ours or our_error, theirs or their_error)

    def masks(self, folder, source):
        """Ids and masks through the tokenizer of a model folder."""
        auto = transformers.AutoTokenizer.from_pretrained(str(folder))
        self.probe.ask("load", dir=str(folder))
        self.probe.ask("chat", source=source,
                       tokens=json.dumps(auto.special_tokens_map))
        for messages in CONVERSATIONS:
            answer = self.probe.ask("mask", **question(messages, None, False, {}))
            try:
                theirs = auto.apply_chat_template(
                    messages, chat_template=source, return_dict=True,
                    return_assistant_tokens_mask=True)
            except Exception:
                theirs = None
            self.renders += 1
            if theirs is None and "error" in answer:
                continue
            wanted = theirs and [theirs["input_ids"], theirs["assistant_masks"]]
            ours = [answer.get("ids"), answer.get("mask")]
            if ours != wanted:
                self.report(f"mask of {messages!r:.200}", ours, wanted)

    def folder(self, folder):
        """The template that the folder itself brings."""
        auto = transformers.AutoTokenizer.from_pretrained(str(folder))
        if auto.chat_template is None:
            return
        self.probe.ask("chat", dir=str(folder))
        for messages, tools in itertools.product(CONVERSATIONS, (None, TOOLS)):
            answer = self.probe.ask("render", **question(messages, tools, True, {}))
            try:
                theirs = auto.apply_chat_template(
                    messages, tools=tools, tokenize=False,
                    add_generation_prompt=True)
            except Exception:
                theirs = None
            self.renders += 1
            if answer.get("text") != theirs:
                self.report(f"{folder.name}: {messages!r:.200}", answer, theirs)


def main():
    program, fetched, demo = sys.argv[1:]
    fetched, demo = pathlib.Path(fetched), pathlib.Path(demo)
    folders = sorted((fetched / "tokenizers").iterdir())
    folders += [demo] if demo.is_dir() else []
    transformers.logging.set_verbosity_error()
    probe = Probe(program)
    comparison = Comparison(probe)
    files = sorted(TEMPLATES.glob("*.jinja"))
    for file in files:
        comparison.source(file.stem, file.read_text(encoding="utf-8"))
    print(f"{len(files)} templates, {comparison.renders} renders "
          f"({comparison.refused} refused by both), {comparison.bad} mismatches",
          flush=True)
    for folder in folders:
        comparison.folder(folder)
        for name in ("qwen3_training", "llama3_training", "gemma3_training"):
            source = (TEMPLATES / f"{name}.jinja").read_text("utf-8")
            comparison.masks(folder, source)
    print(f"{comparison.renders} renders in all, {comparison.bad} mismatches")
    probe.close()
    sys.exit(1 if comparison.bad or len(files) < 70 else 0)


if __name__ == "__main__":
    main()
