# SPDX-License-Identifier: Apache-2.0
"""The families and options that the golden data covers.

A case is a dictionary: `config` (the class and arguments of a Transformers
config), `lora` (PEFT's names), `training` (TrainingArguments' names, as in
job.json), maybe `full` (the same for the model trained whole) and how its model
folder is stored. Between them the cases use every
option that mpsd reads, each at least once.
"""

ALL_LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
              "down_proj"]


def config(model_type, **overrides):
    tiny = dict(vocab_size=128, hidden_size=32, intermediate_size=56,
                num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=64,
                rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2,
                pad_token_id=0, tie_word_embeddings=False, use_cache=False)
    return model_type, {**tiny, **overrides}


def small(model_type, **overrides):
    """For families whose other options are those of `config`'s."""
    return config(model_type, **{**dict(vocab_size=64, hidden_size=16,
                                        intermediate_size=24, head_dim=8,
                                        num_attention_heads=4), **overrides})


def training(**overrides):
    """`max_grad_norm` is each case's own: some steps clip, some do not."""
    common = dict(max_steps=20, per_device_train_batch_size=2,
                  gradient_accumulation_steps=2, learning_rate=5e-3,
                  lr_scheduler_type="linear", warmup_steps=3,
                  weight_decay=0.01, adam_beta1=0.9, adam_beta2=0.999,
                  adam_epsilon=1e-8, max_length=24, seed=42)
    return {**common, **overrides}


CASES = {
    "llama2": dict(
        config=config("llama", num_key_value_heads=4),
        lora=dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"],
                  modules_to_save=["lm_head"]),
        training=training(max_grad_norm=1.75),
        full=training(max_grad_norm=4.0, learning_rate=1e-3),
        legacy_config=True,
    ),
    "llama3": dict(
        config=config(
            "llama", tie_word_embeddings=True,
            rope_parameters=dict(
                rope_type="llama3", rope_theta=500000.0, factor=8.0,
                low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=32)),
        lora=dict(r=4, lora_alpha=6, target_modules="all-linear",
                  use_rslora=True),
        training=training(max_grad_norm=3.5, lr_scheduler_type="cosine"),
        full=training(max_grad_norm=4.0, learning_rate=1e-3),
        legacy_config=True,
    ),
    # Both biases and linear rope scaling: rare, but Llama's config has them.
    "llama_options": dict(
        config=config("llama", attention_bias=True, mlp_bias=True,
                      vocab_size=96,
                      rope_parameters=dict(rope_type="linear", factor=2.0,
                                           rope_theta=10000.0)),
        lora=dict(r=3, lora_alpha=6, target_modules=ALL_LINEAR),
        training=training(max_grad_norm=1.7, warmup_steps=5,
                          lr_scheduler_type="constant_with_warmup"),
    ),
    "mistral": dict(
        config=config("mistral", sliding_window=None),
        lora=dict(r=4, lora_alpha=8,
                  target_modules=r"model\.layers\.\d+\.(self_attn\.[qo]_proj|"
                                 r"mlp\.down_proj)",
                  rank_pattern={"q_proj": 2, r"layers\.1\.mlp\.down_proj": 6},
                  alpha_pattern={"down_proj": 3, "^model.layers.0.+o_proj": 5}),
        training=training(max_grad_norm=1.5, lr_scheduler_type="polynomial"),
    ),
    "mistral_window": dict(
        config=config("mistral", sliding_window=8, vocab_size=96),
        lora=dict(r=4, lora_alpha=8, target_modules=ALL_LINEAR,
                  layers_to_transform=[0]),
        training=training(max_grad_norm=2.0,
                          lr_scheduler_type="cosine_with_restarts"),
        legacy_config=True,
    ),
    "qwen2": dict(
        config=config("qwen2", tie_word_embeddings=True),
        lora=dict(r=4, lora_alpha=8, target_modules="all-linear"),
        # 13 samples: an epoch ends in one batch of one sample.
        training=training(max_grad_norm=2.0, warmup_steps=0),
        samples=13,
        legacy_config=True,
    ),
    # The upper layers see a window, the lower ones everything.
    "qwen2_window": dict(
        config=config("qwen2", tie_word_embeddings=True, vocab_size=96,
                      use_sliding_window=True, sliding_window=6,
                      max_window_layers=1),
        lora=dict(r=2, lora_alpha=4, target_modules=["k_proj", "up_proj"]),
        training=training(max_grad_norm=0.95, warmup_steps=4,
                          lr_scheduler_type="inverse_sqrt"),
    ),
    # An adapter on the head, whose base may be no embedding then.
    "qwen2_head": dict(
        config=config("qwen2", vocab_size=80),
        lora=dict(r=3, lora_alpha=6,
                  target_modules=["v_proj", "down_proj", "lm_head"]),
        training=training(max_grad_norm=1.27),
    ),
    "qwen3": dict(
        config=config("qwen3", head_dim=16, vocab_size=112),
        lora=dict(r=4, lora_alpha=16, target_modules=ALL_LINEAR),
        training=training(max_grad_norm=3.2, warmup_steps=0,
                          lr_scheduler_type="cosine"),
        dtype="bfloat16",
    ),
    # The upper layer has no rope, and a window.
    "smollm3": dict(
        config=small("smollm3", no_rope_layers=[1, 0], sliding_window=7,
                     use_sliding_window=True, tie_word_embeddings=True),
        lora=dict(r=3, lora_alpha=6, target_modules="all-linear"),
        training=training(max_grad_norm=2.5),
    ),
    "granite": dict(
        config=small("granite", attention_bias=True, embedding_multiplier=3.0,
                     attention_multiplier=0.2, residual_multiplier=0.4,
                     logits_scaling=1.5),
        lora=dict(r=3, lora_alpha=6, target_modules=ALL_LINEAR),
        training=training(max_grad_norm=0.5, lr_scheduler_type="cosine"),
        full=training(max_grad_norm=0.9, learning_rate=1e-3),
        legacy_config=True,
    ),
    "olmo2": dict(
        config=small("olmo2", rope_parameters=dict(
            rope_type="default", rope_theta=500000.0)),
        lora=dict(r=3, lora_alpha=6, target_modules=ALL_LINEAR),
        training=training(max_grad_norm=1.5),
        legacy_config=True,
    ),
    "olmo3": dict(
        config=small("olmo3", sliding_window=6,
                     layer_types=["sliding_attention", "full_attention"],
                     rope_parameters=dict(
                         sliding_attention=dict(rope_type="default",
                                                rope_theta=500.0),
                         full_attention=dict(
                             rope_type="yarn", rope_theta=1000.0, factor=4.0,
                             original_max_position_embeddings=16))),
        lora=dict(r=3, lora_alpha=6, target_modules=ALL_LINEAR),
        training=training(max_grad_norm=1.5),
        full=training(max_grad_norm=3.0, learning_rate=1e-3),
    ),
    # Two soft caps.
    "gemma2": dict(
        config=small("gemma2", sliding_window=7, query_pre_attn_scalar=12,
                     attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
                     tie_word_embeddings=True),
        lora=dict(r=3, lora_alpha=6, target_modules="all-linear"),
        training=training(max_grad_norm=1.5),
        full=training(max_grad_norm=3.0, learning_rate=1e-3),
        legacy_config=True,
    ),
    "gemma3": dict(
        config=small("gemma3_text", sliding_window=6,
                     layer_types=["sliding_attention", "full_attention"],
                     rope_parameters=dict(
                         sliding_attention=dict(rope_type="default",
                                                rope_theta=100.0),
                         full_attention=dict(
                             rope_type="linear", rope_theta=10000.0,
                             factor=2.0)), tie_word_embeddings=True),
        lora=dict(r=3, lora_alpha=6, target_modules=ALL_LINEAR),
        training=training(max_grad_norm=1.5),
        full=training(max_grad_norm=1.9, learning_rate=1e-3),
    ),
    # Rows of more than 16 tokens have the long factors.
    "phi3": dict(
        config=small("phi3", hidden_size=32, sliding_window=15,
                     original_max_position_embeddings=16,
                     rope_parameters=dict(
                         rope_type="longrope", rope_theta=10000.0,
                         partial_rotary_factor=0.75,
                         short_factor=[1.0, 1.2, 1.5],
                         long_factor=[1.5, 2.0, 4.0])),
        lora=dict(r=3, lora_alpha=6, target_modules="all-linear"),
        training=training(max_grad_norm=2.4),
        full=training(max_grad_norm=4.0, learning_rate=1e-3),
    ),
    "smollm": dict(
        config=config("llama", tie_word_embeddings=True, hidden_size=48,
                      intermediate_size=64, num_attention_heads=6,
                      rope_parameters=dict(rope_type="default",
                                           rope_theta=100000.0)),
        lora=dict(r=4, lora_alpha=8, target_modules=ALL_LINEAR),
        training=training(max_grad_norm=2.5, warmup_steps=0,
                          lr_scheduler_type="constant"),
        legacy_config=True,
        tokenizer=True,
        dropout=0.1,
    ),
}

# The same weights in a different layout; golden values are those of `of`.
SHARDED = dict(name="llama2_sharded", of="llama2", max_shard_size="40KB")

# One row of several sequences, against the same sequences one by one.
PACKED = {"smollm": [7, 11, 6], "mistral_window": [13, 4, 12],
          "smollm3": [5, 12, 8], "olmo3": [9, 4, 11],
          "gemma2": [8, 3, 13], "phi3": [6, 11, 4]}
