// SPDX-License-Identifier: Apache-2.0
#include "core/train/fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "nlohmann/json.hpp"

namespace mpsd::train {
namespace {

using json = nlohmann::ordered_json;
using spec::TrainSpec;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

RunInputs Inputs() {
  return {{{"config.json", "c0"}, {"model.safetensors", "w0"}},
          {{"adapter_model.safetensors", "a0"}},
          "t0",
          "e0",
          "cpu"};
}

absl::Status Check(const TrainSpec& before, const TrainSpec& after) {
  return CheckFingerprint(MakeFingerprint(before, Inputs()),
                          MakeFingerprint(after, Inputs()));
}

// A new field of the spec must say what it is to a run that goes on.
TEST(FingerprintTest, EveryFieldHasARole) {
  std::vector<std::string> with_role;
  for (const auto& [path, role] : FieldRoles()) with_role.push_back(path);
  EXPECT_EQ(FieldPaths(), with_role);
}

TEST(FingerprintTest, HoldsWhatIsNotTheDefaultAndNothingElse) {
  TrainSpec spec;
  spec.name = "a name";
  spec.training.learning_rate = 1e-3;
  spec.training.gradient_accumulation_steps = 4;
  spec.training.logging_steps = 7;
  EXPECT_EQ(nlohmann::json::parse(MakeFingerprint(spec, Inputs())),
            nlohmann::json::parse(R"({"version": 1, "values": {
                "training.learning_rate": 0.001,
                "training.per_device_train_batch_size * )"
                                  R"(training.gradient_accumulation_steps": 32,
                "model/config.json": "c0", "model/model.safetensors": "w0",
                "adapter/adapter_model.safetensors": "a0",
                "data.train": "t0", "data.eval": "e0", "device": "cpu"}})"));
}

// As a later release, with a field more, and its predecessor find each other's.
TEST(FingerprintTest, AFieldThatIsAbsentHasItsDefault) {
  const std::string now = MakeFingerprint({}, Inputs());
  json other = json::parse(now);
  other["values"]["training.seed"] = 42;  // written out
  EXPECT_TRUE(CheckFingerprint(other.dump(), now).ok());
  EXPECT_TRUE(CheckFingerprint(now, other.dump()).ok());
  other["values"]["training.neftune_noise_alpha"] = 5;
  EXPECT_THAT(std::string(CheckFingerprint(other.dump(), now).message()),
              HasSubstr("training.neftune_noise_alpha is null, the "
                        "checkpoint's is 5"));
}

TEST(FingerprintTest, WhatMayChangeMayChange) {
  const std::function<void(TrainSpec&)> changes[] = {
      [](TrainSpec& s) { s.name = "other"; },
      [](TrainSpec& s) { s.model = "/moved"; },
      [](TrainSpec& s) { s.model_id = "me/tiny"; },
      [](TrainSpec& s) { s.adapter = "/moved"; },
      [](TrainSpec& s) { s.dataset.train = {"/moved"}; },
      [](TrainSpec& s) { s.dataset.eval = {"/moved"}; },
      [](TrainSpec& s) { s.dataset.predict = {"more"}; },
      [](TrainSpec& s) { s.dataset.max_predict_samples = 3; },
      [](TrainSpec& s) { s.device = spec::DeviceChoice::kCpu; },
      [](TrainSpec& s) { s.allow_cpu_fallback = true; },
      [](TrainSpec& s) { s.lora.lora_dropout = 0; },
      [](TrainSpec& s) { s.training.num_train_epochs = 9; },
      [](TrainSpec& s) { s.training.max_steps = 9; },
      [](TrainSpec& s) { s.training.per_device_eval_batch_size = 1; },
      [](TrainSpec& s) {
        s.training.per_device_train_batch_size = 2;
        s.training.gradient_accumulation_steps = 4;
      },
      [](TrainSpec& s) { s.training.padding_free = true; },
      [](TrainSpec& s) { s.training.auto_find_batch_size = true; },
      [](TrainSpec& s) { s.training.gradient_checkpointing = true; },
      [](TrainSpec& s) {
        s.training.recompute_granularity = spec::Recompute::kSelective;
      },
      [](TrainSpec& s) { s.training.eval_steps = 9; },
      [](TrainSpec& s) { s.training.save_steps = 9; },
      [](TrainSpec& s) { s.training.save_total_limit = 9; },
      [](TrainSpec& s) { s.training.logging_steps = 9; },
      [](TrainSpec& s) { s.training.load_best_model_at_end = true; },
      [](TrainSpec& s) { s.training.early_stopping_patience = 9; },
      [](TrainSpec& s) { s.training.early_stopping_threshold = 9; },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    TrainSpec after;
    changes[i](after);
    const absl::Status s = Check({}, after);
    EXPECT_TRUE(s.ok()) << i << " " << s;
  }
}

TEST(FingerprintTest, WhatChangesTheMathematicsIsRefusedByName) {
  struct Change {
    std::function<void(TrainSpec&)> make;
    const char* says;
  };
  const Change changes[] = {
      {[](TrainSpec& s) { s.task = spec::Task::kSeqCls; },
       R"(task is "SEQ_CLS", the checkpoint's is "CAUSAL_LM")"},
      {[](TrainSpec& s) { s.lora.r = 4; },
       "lora.r is 4, the checkpoint's is 8"},
      {[](TrainSpec& s) { s.lora.lora_dropout = 0.1; },
       "lora.lora_dropout is 0.1, the checkpoint's is 0.0"},
      {[](TrainSpec& s) { s.training.learning_rate = 1; },
       "training.learning_rate is 1.0, the checkpoint's is 5e-05"},
      {[](TrainSpec& s) { s.training.gradient_accumulation_steps = 2; },
       "gradient_accumulation_steps is 16, the checkpoint's is 8"},
      {[](TrainSpec& s) { s.training.lr_scheduler_type = "cosine"; },
       "training.lr_scheduler_type"},
      {[](TrainSpec& s) { s.training.warmup_steps = 1; },
       "training.warmup_steps"},
      {[](TrainSpec& s) { s.training.weight_decay = 1; },
       "training.weight_decay"},
      {[](TrainSpec& s) { s.training.max_length = 7; }, "training.max_length"},
      {[](TrainSpec& s) { s.training.packing = true; }, "training.packing"},
      {[](TrainSpec& s) { s.training.seed = 7; }, "training.seed"},
      {[](TrainSpec& s) { s.training.bf16 = true; }, "training.bf16"},
      {[](TrainSpec& s) { s.training.assistant_only_loss = true; },
       "training.assistant_only_loss is true, the checkpoint's is null"},
      {[](TrainSpec& s) { s.training.metric_for_best_model = "f1"; },
       "training.metric_for_best_model"},
      {[](TrainSpec& s) { s.quantization_config.load_in_4bit = true; },
       "quantization_config.load_in_4bit"},
      {[](TrainSpec& s) {
         s.classification.class_weights = {1, 2};
       },
       "classification.class_weights is [1.0,2.0]"},
      {[](TrainSpec& s) { s.dataset.text_columns = {"a"}; },
       "dataset.text_columns"},
      {[](TrainSpec& s) { s.gradients = spec::Gradients::kAutograd; },
       R"(gradients is "autograd")"},
  };
  for (const Change& change : changes) {
    TrainSpec after;
    change.make(after);
    for (const absl::Status& s : {Check({}, after), Check(after, {})}) {
      EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition) << s;
    }
    EXPECT_THAT(std::string(Check({}, after).message()),
                AllOf(HasSubstr("of another job: "), HasSubstr(change.says),
                      Not(HasSubstr(";"))));
  }
}

// Of patterns that match a module the first one counts.
TEST(FingerprintTest, TheOrderOfPatternsIsPartOfIt) {
  TrainSpec one, other;
  one.lora.rank_pattern = {{"q", 2}, {"q_proj", 4}};
  other.lora.rank_pattern = {{"q_proj", 4}, {"q", 2}};
  EXPECT_FALSE(Check(one, other).ok());
  EXPECT_TRUE(Check(one, one).ok());
}

TEST(FingerprintTest, OtherContentIsNamedByItsFile) {
  const auto differs = [](const std::function<void(RunInputs&)>& change) {
    RunInputs inputs = Inputs();
    change(inputs);
    return std::string(CheckFingerprint(MakeFingerprint({}, Inputs()),
                                        MakeFingerprint({}, inputs))
                           .message());
  };
  EXPECT_THAT(differs([](auto& i) { i.model["model.safetensors"] = "w1"; }),
              HasSubstr("model/model.safetensors is sha256 w1, the "
                        "checkpoint's is sha256 w0"));
  EXPECT_THAT(differs([](auto& i) { i.model["chat_template.jinja"] = "x"; }),
              HasSubstr("model/chat_template.jinja is sha256 x, the "
                        "checkpoint's is not there"));
  EXPECT_THAT(differs([](auto& i) { i.adapter.clear(); }),
              HasSubstr("adapter/adapter_model.safetensors is not there"));
  EXPECT_THAT(differs([](auto& i) {
                i.train = "t1";
                i.eval = "";
              }),
              AllOf(HasSubstr("data.eval is not there"), HasSubstr("; "),
                    HasSubstr("data.train is sha256 t1")));
  EXPECT_THAT(differs([](auto& i) { i.device = "cuda"; }),
              HasSubstr(R"(device is "cuda", the checkpoint's is "cpu")"));
}

TEST(FingerprintTest, ANewerReleasesIsSaidToBeOne) {
  const std::string now = MakeFingerprint({}, Inputs());
  const absl::Status newer =
      CheckFingerprint(R"({"version": 2, "values": {}})", now);
  EXPECT_EQ(newer.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(newer.message()), HasSubstr("of a newer mpsd"));
  for (const char* broken :
       {"", "{}", "[1]", R"({"version": 1})", R"({"version": 1, "values": 3})",
        R"({"version": "1", "values": {}})"}) {
    EXPECT_EQ(CheckFingerprint(broken, now).code(),
              absl::StatusCode::kInvalidArgument)
        << broken;
  }
}

}  // namespace
}  // namespace mpsd::train
