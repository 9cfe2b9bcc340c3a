# SPDX-License-Identifier: Apache-2.0
"""A tokenizer that fits in a tiny vocabulary: one token per ASCII character,
ChatML's markers, and a chat template that marks what the assistant says."""

import json
import pathlib

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}"
    "{{ '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def save(folder, vocab_size):
    # ByteLevel's letters for newline and space, then printable ASCII.
    letters = ["\u010a", "\u0120"] + [chr(c) for c in range(0x21, 0x7f)]
    vocab = {t: i for i, t in enumerate(SPECIAL + letters)}
    assert len(vocab) <= vocab_size
    letters = Tokenizer(models.BPE(vocab=vocab, merges=[],
                                   unk_token=SPECIAL[0]))
    letters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False,
                                                     use_regex=False)
    letters.decoder = decoders.ByteLevel()
    letters.add_special_tokens([AddedToken(t, special=True) for t in SPECIAL])
    folder = pathlib.Path(folder)
    letters.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(
        tokenizer_class="PreTrainedTokenizerFast", bos_token=SPECIAL[1],
        eos_token=SPECIAL[2], pad_token=SPECIAL[0],
        clean_up_tokenization_spaces=False, model_max_length=64,
        chat_template=TEMPLATE), indent=1) + "\n")
