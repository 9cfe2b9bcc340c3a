// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_facts.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/models/disk_blobs.h"

namespace mpsd::models {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ModelFactsTest : public testing::Test {
 protected:
  ModelFactsTest()
      : folder_(fs::path(testing::TempDir()) /
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::ofstream(folder_ / "config.json") << kTinyConfig;
  }
  ~ModelFactsTest() override { fs::remove_all(folder_); }

  const fs::path folder_;
};

TEST_F(ModelFactsTest, ADecoder) {
  const ModelFacts facts = FactsOf(folder_, {});
  EXPECT_EQ(facts.family, "llama");
  EXPECT_GT(facts.parameters, 1000);
  EXPECT_THAT(facts.tasks, ElementsAre("CAUSAL_LM", "SEQ_CLS"));
  EXPECT_GT(facts.least_memory_bytes, 0);
  EXPECT_FALSE(facts.fits.has_value()) << "the machine's memory is not known";
  EXPECT_THAT(facts.problem, HasSubstr("from_scratch"));
}

TEST_F(ModelFactsTest, WhetherItFits) {
  const int64_t least = FactsOf(folder_, {}).least_memory_bytes;
  EXPECT_EQ(FactsOf(folder_, {least, "", 0}).fits, true);
  EXPECT_EQ(FactsOf(folder_, {least - 1, "", 0}).fits, false);
  EXPECT_EQ(FactsOf(folder_, {least, "mps", 1}).fits, false);
}

TEST_F(ModelFactsTest, AnEncoderClassifies) {
  std::ofstream(folder_ / "config.json") << R"({
      "architectures": ["BertModel"], "model_type": "bert", "vocab_size": 32,
      "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
      "num_attention_heads": 2, "max_position_embeddings": 64,
      "type_vocab_size": 2, "hidden_act": "gelu"})";
  EXPECT_THAT(FactsOf(folder_, {}).tasks, ElementsAre("SEQ_CLS"));
}

TEST_F(ModelFactsTest, WhatMpsdCannotTrainSaysWhy) {
  std::ofstream(folder_ / "config.json")
      << R"({"architectures": ["T5Model"], "model_type": "t5\u001b[2J"})";
  ModelFacts facts = FactsOf(folder_, {});
  EXPECT_THAT(facts.tasks, IsEmpty());
  EXPECT_THAT(facts.problem, HasSubstr("t5"));
  EXPECT_EQ(facts.problem.find('\x1b'), std::string::npos);
  fs::remove(folder_ / "config.json");
  EXPECT_THAT(FactsOf(folder_, {}).problem, HasSubstr("no config.json"));
  std::ofstream(folder_ / "config.json") << kTinyConfig;
  std::ofstream(folder_ / "model.safetensors") << "broken";
  facts = FactsOf(folder_, {});
  EXPECT_THAT(facts.tasks, IsEmpty());
  EXPECT_THAT(facts.problem, HasSubstr("model.safetensors"));
}

}  // namespace
}  // namespace mpsd::models
