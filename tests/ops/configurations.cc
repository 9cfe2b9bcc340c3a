// SPDX-License-Identifier: Apache-2.0
// Every task, family and option that changes what runs on the device.
#include "tests/ops/jobs.h"

namespace mpsd::ops {
namespace {

constexpr char kFull[] = R"({"fine_tune_type": "full"})";
constexpr char kHead[] = R"({"fine_tune_type": "head"})";
constexpr char kBf16[] = R"({"training": {"bf16": true}})";
constexpr char kFullBf16[] =
    R"({"fine_tune_type": "full", "training": {"bf16": true}})";
constexpr char kNoDropout[] =
    R"({"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
        "classifier_dropout": 0.0, "dropout": 0.0, "attention_dropout": 0.0,
        "seq_classif_dropout": 0.0})";

std::vector<Configuration> LanguageModels() {
  return {
      {"causal_lm_llama2", "llama2", "", ""},
      {"causal_lm_llama3", "llama3", "", ""},
      {"causal_lm_llama_options", "llama_options", "", ""},
      {"causal_lm_mistral", "mistral", "", ""},
      {"causal_lm_mistral_window", "mistral_window", "", ""},
      {"causal_lm_qwen2", "qwen2", "", ""},
      {"causal_lm_qwen2_window", "qwen2_window", "", ""},
      {"causal_lm_qwen3", "qwen3", "", ""},
      {"causal_lm_smollm", "smollm", "", ""},
      {"causal_lm_all_linear", "llama3", "",
       R"({"lora": {"target_modules": "all-linear"}})"},
      {"causal_lm_bf16", "llama3", "",
       R"({"lora": {"target_modules": "all-linear"},
           "training": {"bf16": true}})"},
      {"causal_lm_qwen3_bf16", "qwen3", "", kBf16},
      {"causal_lm_dropout", "llama3", "",
       R"({"lora": {"target_modules": "all-linear", "lora_dropout": 0.1}})"},
      {"causal_lm_checkpointing", "llama3", "",
       R"({"lora": {"target_modules": "all-linear"},
           "training": {"gradient_checkpointing": true}})"},
      {"causal_lm_checkpointing_dropout_bf16", "llama3", "",
       R"({"lora": {"target_modules": "all-linear", "lora_dropout": 0.1},
           "training": {"gradient_checkpointing": true, "bf16": true}})"},
      {"causal_lm_packing", "llama3", "", R"({"training": {"packing": true}})"},
      {"causal_lm_packing_window_bf16", "mistral_window", "",
       R"({"training": {"packing": true, "bf16": true}})"},
      {"causal_lm_accumulation", "llama3", "",
       R"({"training": {"gradient_accumulation_steps": 3}})"},
      {"causal_lm_modules_to_save", "llama2", "",
       R"({"lora": {"modules_to_save": ["lm_head", "embed_tokens"]}})"},
      {"causal_lm_modules_to_save_bf16", "llama2", "",
       R"({"lora": {"modules_to_save": ["lm_head", "embed_tokens"]},
           "training": {"bf16": true}})"},
      {"causal_lm_adapter_on_head", "llama2", "",
       R"({"lora": {"target_modules": ["q_proj", "lm_head"]}})"},
      {"causal_lm_no_clipping", "llama3", "",
       R"({"training": {"max_grad_norm": 0}})"},
      {"causal_lm_nf4_bf16", "llama3", "",
       R"({"quantization_config": {"load_in_4bit": true,
               "bnb_4bit_quant_type": "nf4",
               "bnb_4bit_use_double_quant": true},
           "lora": {"target_modules": "all-linear"},
           "training": {"bf16": true}})"},
      {"causal_lm_int8", "llama3", "",
       R"({"quantization_config": {"load_in_8bit": true}})"},
      {"causal_lm_full", "llama3", "", kFull},
      {"causal_lm_full_bf16", "qwen2", "", kFullBf16},
      {"causal_lm_full_checkpointing_bf16", "qwen3", "",
       R"({"fine_tune_type": "full",
           "training": {"gradient_checkpointing": true, "bf16": true}})"},
  };
}

std::vector<Configuration> TextClassifiers() {
  return {
      {"seq_cls_bert", "bert", "", ""},
      {"seq_cls_bert_no_dropout", "bert", kNoDropout, ""},
      {"seq_cls_bert_full", "bert", "", kFull},
      {"seq_cls_bert_full_no_dropout", "bert", kNoDropout, kFull},
      {"seq_cls_bert_full_bf16", "bert", "", kFullBf16},
      {"seq_cls_bert_head", "bert", "", kHead},
      {"seq_cls_bert_bf16", "bert", "", kBf16},
      {"seq_cls_bert_pairs", "bert", kNoDropout,
       R"({"dataset": {"train": "pairs.csv", "eval": "pairs.csv"}})"},
      {"seq_cls_bert_checkpointing", "bert", "",
       R"({"training": {"gradient_checkpointing": true},
           "lora": {"target_modules": "all-linear", "lora_dropout": 0.1}})"},
      {"seq_cls_bert_weights", "bert_weighted", kNoDropout,
       R"({"fine_tune_type": "full",
           "classification": {"class_weights": [1.0, 2.5]}})"},
      {"seq_cls_bert_regression", "bert", kNoDropout,
       R"({"fine_tune_type": "full",
           "dataset": {"train": "numbers.csv", "eval": "numbers.csv"}})"},
      {"seq_cls_roberta_several", "roberta", kNoDropout,
       R"({"fine_tune_type": "full",
           "classification": {"class_weights": [1.0, 2.5]},
           "dataset": {"train": "several.jsonl", "eval": "several.jsonl"}})"},
      {"seq_cls_roberta", "roberta", "", ""},
      {"seq_cls_roberta_full", "roberta", "", kFull},
      {"seq_cls_distilbert", "distilbert", "", ""},
      {"seq_cls_distilbert_full", "distilbert", kNoDropout, kFull},
      {"seq_cls_llama", "llama_classes", "", ""},
      {"seq_cls_llama_bf16", "llama_classes", "", kBf16},
      {"seq_cls_qwen2_full", "qwen2", "", kFull},
  };
}

std::vector<Configuration> ImageClassifiers() {
  return {
      {"image_cls_vit", "vit", "", ""},
      {"image_cls_vit_no_dropout", "vit", kNoDropout, ""},
      {"image_cls_vit_full", "vit", "", kFull},
      {"image_cls_vit_full_no_dropout", "vit", kNoDropout, kFull},
      {"image_cls_vit_full_bf16", "vit", "", kFullBf16},
      {"image_cls_vit_head", "vit", kNoDropout, kHead},
      {"image_cls_vit_bf16", "vit", kNoDropout, kBf16},
      {"image_cls_vit_checkpointing", "vit", "",
       R"({"training": {"gradient_checkpointing": true},
           "lora": {"target_modules": "all-linear", "lora_dropout": 0.1}})"},
      {"image_cls_vit_grey_full", "vit_grey", "", kFull},
  };
}

}  // namespace

std::vector<Configuration> Configurations(const std::string& task) {
  if (task == "CAUSAL_LM") return LanguageModels();
  if (task == "SEQ_CLS") return TextClassifiers();
  return ImageClassifiers();
}

}  // namespace mpsd::ops
