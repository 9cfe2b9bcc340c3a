# SPDX-License-Identifier: Apache-2.0
"""Rows as mpsd trains on them against TRL's SFTTrainer.

usage: compare_labels.py TEXT_PROBE FETCHED_FOLDER DEMO_MODEL

Tokens and labels of conversations with assistant_only_loss under stock chat
templates: those that TRL has a training template for, and others with the
blocks written in by hand, as TRL asks for there. Then prompts and completions,
and texts. Every template with every tokenizer. Exits 1 on any mismatch.
"""

import copy
import itertools
import json
import pathlib
import sys

import transformers

from conversations import CONVERSATIONS, LABELLED, PAIRS, TEXTS, TOOLS
from probe import Probe
from trl_source import TEMPLATES, Trl

# TRL has a training template for these.
KNOWN = ("qwen2_5", "qwen3", "qwen3_instruct_2507", "llama3", "gemma", "gemma3",
         "phi3", "phi3_5", "deepseek_r1_distill", "deepseekv3")
CHATML = ("{% for message in messages %}{% if loop.first and messages[0]['role'] "
          "!= 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant "
          "named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
          "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
          "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
          "{{ '<|im_start|>assistant\n' }}{% endif %}")
PHI4 = ("{% for message in messages %}{% if (message['role'] == 'system') %}"
        "{{'<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>'}}"
        "{% elif (message['role'] == 'user') %}{{'<|im_start|>user<|im_sep|>' + "
        "message['content'] + '<|im_end|>'}}{% elif (message['role'] == "
        "'assistant') %}{{'<|im_start|>assistant<|im_sep|>' + message['content'] "
        "+ '<|im_end|>'}}{% endif %}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}")
PHI4_MINI = ("{% for message in messages %}{{ '<|' + message['role'] + '|>' + "
             "message['content'] + '<|end|>' }}{% endfor %}{% if "
             "add_generation_prompt %}{{ '<|assistant|>' }}{% else %}"
             "{{ eos_token }}{% endif %}")


def marked(source, *edits):
    for old, new in edits:
        assert source.count(old) == 1, (old, source.count(old))
        source = source.replace(old, new)
    return source


def by_hand(templates):
    """Stock templates that TRL refuses, with blocks written in: (stock, marked)."""
    is_bot = "{% if message['role'] == 'assistant' %}"
    yield "smollm2", CHATML, marked(CHATML, (
        "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
        "'<|im_end|>' + '\n'}}",
        "{{'<|im_start|>' + message['role'] + '\n'}}" + is_bot +
        "{% generation %}{{message['content'] + '<|im_end|>' + '\n'}}"
        "{% endgeneration %}{% else %}"
        "{{message['content'] + '<|im_end|>' + '\n'}}{% endif %}"))
    yield "phi4", PHI4, marked(PHI4, (
        "{{'<|im_start|>assistant<|im_sep|>' + message['content'] + "
        "'<|im_end|>'}}",
        "{{'<|im_start|>assistant<|im_sep|>'}}{% generation %}"
        "{{message['content'] + '<|im_end|>'}}{% endgeneration %}"))
    yield "phi4_mini", PHI4_MINI, marked(
        PHI4_MINI,
        ("{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}",
         "{{ '<|' + message['role'] + '|>' }}" + is_bot +
         "{% generation %}{{ message['content'] + '<|end|>' }}"
         "{% endgeneration %}{% else %}"
         "{{ message['content'] + '<|end|>' }}{% endif %}"),
        ("{% else %}{{ eos_token }}{% endif %}",
         "{% elif messages[-1]['role'] == 'assistant' %}{% generation %}"
         "{{ eos_token }}{% endgeneration %}{% else %}{{ eos_token }}{% endif %}"))
    llama = (templates / "llama3_2.jinja").read_text("utf-8")
    header = ("{{- '<|start_header_id|>' + message['role'] + "
              "'<|end_header_id|>\\n\\n' }}")
    said = "{{- message['content'] | trim + '<|eot_id|>' }}"
    call = "'<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}"
    end = ("{{- \"<|eot_id|>\" }}\n    {%- elif message.role == \"tool\"")
    yield "llama3_2", llama, marked(
        llama,
        ("{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>"
         "\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}",
         header + "{%- if message.role == 'assistant' %}{%- generation %}" +
         said + "{%- endgeneration %}{%- else %}" + said + "{%- endif %}"),
        (call, call + "{%- generation %}"),
        (end, end.replace("}}\n", "}}{%- endgeneration %}\n")))


class Comparison:
    def __init__(self, probe, trl):
        self.probe, self.trl = probe, trl
        self.rows = self.refused = self.bad = self.warned = 0
        self.not_messages = self.inexact = 0

    def template(self, name, auto, stock, training=None):
        """Conversations with assistant_only_loss; `training` for the oracle."""
        tokens = json.dumps(auto.special_tokens_map)
        self.probe.ask("chat", source=stock, tokens=tokens, training=True)
        auto.chat_template = training or stock
        for messages, tools in itertools.product(
                CONVERSATIONS + LABELLED, (None, TOOLS)):
            row = {"messages": messages}
            if tools:
                row["tools"] = tools
            self.row(name, auto, row, assistant=True, training=training)
        for prompt, completion in PAIRS:
            self.row(name, auto, {"prompt": prompt, "completion": completion},
                     assistant=True)
            self.row(name, auto, {"conversations": [
                {"from": m["role"], "value": m["content"]}
                for m in prompt + completion]}, assistant=True)
        self.probe.ask("chat", source=stock, tokens=tokens)
        auto.chat_template = stock
        for prompt, completion in PAIRS:
            self.row(name, auto, {"prompt": prompt, "completion": completion})

    def row(self, name, auto, row, assistant=False, training=None):
        try:
            theirs = self.trl.labels(copy.deepcopy(row), auto, assistant)
        except Exception as error:  # What templates raise, and rows they refuse.
            theirs, why = None, error
        answer = self.probe.ask("row", row=json.dumps(row), assistant=assistant)
        if answer.get("error", "").startswith("messages["):
            self.not_messages += 1  # no string for its content, or no content
            return
        if theirs and training and "needs a chat template" in answer.get("error", ""):
            self.inexact += 1
            return
        ours = None
        if "error" not in answer:
            ours = (answer["ids"], answer["labels"], not answer["prefix"])
        self.rows += 1
        if theirs is None:
            # TRL takes no row without an assistant's token; mpsd leaves it out.
            left_out = ours is not None and not any(ours[1])
            self.refused += ours is None or left_out
            same = ours is None or left_out
        else:
            self.warned += theirs[2]
            same = ours == theirs
        if not same:
            self.bad += 1
            if self.bad <= 15:
                print(f"{name}: {json.dumps(row):.300}\n  ours "
                      f"{ours and self.shown(auto, ours) or answer.get('error')}\n"
                      f"  trl  {theirs and self.shown(auto, theirs) or why!r}")

    @staticmethod
    def shown(auto, row):
        ids, labels, _ = row
        runs = itertools.groupby(zip(ids, labels), key=lambda pair: pair[1])
        text = [auto.decode([i for i, _ in run]) if not label else
                "[" + auto.decode([i for i, _ in run]) + "]" for label, run in runs]
        return repr("".join(text))[-600:]


def main():
    program, fetched, demo = sys.argv[1:]
    fetched, demo = pathlib.Path(fetched), pathlib.Path(demo)
    transformers.logging.set_verbosity_error()
    trl = Trl()
    probe = Probe(program)
    comparison = Comparison(probe, trl)
    stock = {n: (TEMPLATES / f"{n}.jinja").read_text("utf-8") for n in KNOWN}
    names = ["llama3_1", "qwen3", "gemma3"]
    folders = [fetched / "tokenizers" / n for n in names]
    folders += [demo] if demo.is_dir() else []
    for folder in folders:
        auto = transformers.AutoTokenizer.from_pretrained(str(folder))
        probe.ask("load", dir=str(folder))
        for name, source in stock.items():
            # Llama 3's own wants a bos_token, TRL's does without.
            if name != "llama3" or auto.bos_token is not None:
                comparison.template(name, auto, source)
        for name, source, training in by_hand(TEMPLATES):
            comparison.template(name, auto, source, training)
        for row in TEXTS:
            comparison.row("text", auto, row)
        print(f"{folder.name}: {comparison.rows} rows, {comparison.refused} "
              f"refused or without a label, {comparison.warned} whose prompt is "
              f"no prefix; {comparison.not_messages} more that are no messages, "
              f"{comparison.inexact} reported as inexact; {comparison.bad} "
              f"mismatches", flush=True)
    probe.close()
    sys.exit(1 if comparison.bad or comparison.rows < 3000
             or comparison.warned < 20 or comparison.inexact > 4 else 0)


if __name__ == "__main__":
    main()
