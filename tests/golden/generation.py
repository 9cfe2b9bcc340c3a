# SPDX-License-Identifier: Apache-2.0
"""What Transformers generates: greedy answers of the cases' models, and the
next token's probabilities that its processors leave."""

import torch
from transformers import GenerationConfig

import oracle

LENGTHS = [11, 5, 8]
NEW_TOKENS = 24

# By GenerationConfig's names.
PROCESSORS = [
    dict(),
    dict(top_k=0),
    dict(top_k=5),
    dict(top_k=0, temperature=0.3),
    dict(top_k=0, temperature=2.5),
    dict(top_k=0, top_p=0.7),
    dict(top_k=0, top_p=0.01),
    dict(top_k=6, top_p=0.9),
    dict(top_k=0, min_p=0.2),
    dict(top_k=0, top_p=0.8, min_p=0.3, temperature=1.7),
    dict(top_k=0, repetition_penalty=1.8),
    dict(top_k=0, repetition_penalty=0.6),
    dict(top_k=7, top_p=0.85, min_p=0.05, temperature=0.8,
         repetition_penalty=1.3),
    dict(do_sample=False),
    dict(do_sample=False, repetition_penalty=3.0),
]


def answers(model, prompts, **settings):
    """The new tokens of left-padded prompts, up to the end token."""
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p)
                         for p in prompts])
    out = model.generate(input_ids=ids, attention_mask=mask, use_cache=True,
                         max_new_tokens=NEW_TOKENS, do_sample=False,
                         **settings)[:, width:].tolist()
    end = model.config.eos_token_id
    return [row[:row.index(end) + 1] if end in row else row for row in out]


def make_case(folder, generator):
    adapted = oracle.load_adapter(folder / "model", folder / "adapter").eval()
    vocabulary = adapted.config.vocab_size
    prompts = [torch.randint(3, vocabulary, (length,),
                             generator=generator).tolist()
               for length in LENGTHS]
    result = dict(prompts=prompts, adapter=answers(adapted, prompts),
                  base=answers(oracle.load_model(folder / "model"), prompts),
                  penalised=answers(adapted, prompts, repetition_penalty=1.5))
    assert result["adapter"] != result["base"], folder
    return result


def make_processors(model, generator):
    ids = torch.tensor([[3, 7, 7, 20, 11]])
    rows = []
    for settings in PROCESSORS:
        logits = 3 * torch.randn(1, 24, generator=generator)
        config = GenerationConfig(**dict(dict(do_sample=True), **settings))
        config, _ = model._prepare_generation_config(config)
        processors = model._get_logits_processor(
            generation_config=config, input_ids_seq_length=ids.shape[1])
        scores = processors(ids, logits.clone())
        probabilities = scores.softmax(-1)
        if not config.do_sample:
            probabilities = torch.nn.functional.one_hot(
                scores.argmax(-1), logits.shape[1]).float()
        rows.append(dict(settings=dict(dict(do_sample=True), **settings),
                         ids=ids[0].tolist(), logits=logits[0].tolist(),
                         probabilities=probabilities[0].tolist()))
    return rows


def make(here, names, seeded):
    cases = {name: make_case(here / name, seeded("generation" + name))
             for name in names}
    model = oracle.load_model(here / names[0] / "model")
    return dict(new_tokens=NEW_TOKENS, cases=cases,
                processors=make_processors(model, seeded("processors")))
