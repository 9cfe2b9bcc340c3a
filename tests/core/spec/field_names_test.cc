// SPDX-License-Identifier: Apache-2.0
#include "core/spec/field_names.h"

#include <gtest/gtest.h>

namespace mpsd::spec {
namespace {

using Known = std::set<std::string, std::less<>>;

TEST(EditDistance, CountsEditsAndSwaps) {
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("seed", "seed"), 0);
  EXPECT_EQ(EditDistance("learning_rat", "learning_rate"), 1);
  EXPECT_EQ(EditDistance("packign", "packing"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(NearestName, IsNearOrNone) {
  const std::vector<std::string_view> names = {"cosine", "linear", "r"};
  EXPECT_EQ(NearestName("cosin", names), "cosine");
  EXPECT_EQ(NearestName("Linear", names), "linear");
  EXPECT_EQ(NearestName("step", names), std::nullopt);
  EXPECT_EQ(NearestName("x", names), std::nullopt);
}

TEST(UnknownField, NamesTheFieldThatWasMeant) {
  struct Case {
    std::string section, name, expected;
  };
  const Known known = {"learning_rate", "seed", "bf16"};
  const std::vector<Case> cases = {
      {"training", "learning_rat",
       "unknown field; did you mean \"learning_rate\"?"},
      {"training", "learning-rate",
       "unknown field; did you mean \"learning_rate\"?"},
      {"training", "lr", "unknown field; did you mean \"learning_rate\"?"},
      {"training", "rank", "unknown field; did you mean \"lora.r\"?"},
      {"training", "lora_alpha",
       "unknown field; did you mean \"lora.lora_alpha\"?"},
      {"training", "device", "unknown field; did you mean \"device\"?"},
      {"", "batch_size",
       "unknown field; did you mean "
       "\"training.per_device_train_batch_size\"?"},
      {"", "epochs",
       "unknown field; did you mean \"training.num_train_epochs\"?"},
      {"", "packing", "unknown field; did you mean \"training.packing\"?"},
      {"lora", "alpha", "unknown field; did you mean \"lora_alpha\"?"},
      {"training", "max_seq_length",
       "unknown field; did you mean \"max_length\"?"},
      {"training", "fp16",
       "not supported: training in float16 needs loss scaling; use \"bf16\": "
       "true for a smaller base model, adapters and optimizer stay in "
       "float32"},
      {"training", "optim",
       "not supported: the optimizer is AdamW "
       "(adamw_torch)"},
      {"training", "torch_compile",
       "not supported: mpsd has no such training argument; leave it out"},
      {"lora", "use_dora",
       "not supported: only plain LoRA and rsLoRA (use_rslora) are there"},
      {"training", "zzz",
       "unknown field; the fields here are bf16, learning_rate, seed"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(UnknownField(c.section, c.name, known), c.expected) << c.name;
  }
}

}  // namespace
}  // namespace mpsd::spec
