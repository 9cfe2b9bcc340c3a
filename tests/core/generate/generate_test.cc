// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <cmath>
#include <fstream>

#include "core/generate/generator.h"
#include "core/generate/sampling.h"
#include "core/lora/lora.h"
#include "core/lora/peft_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"

// tests/golden/generation.json, made by Transformers and PEFT, against ours.

namespace mpsd::generate {
namespace {

using Ids = std::vector<std::vector<int32_t>>;

const nlohmann::json& Transformers() {
  static const auto* json = new nlohmann::json([] {
    std::ifstream file(Golden(".", "generation.json"));
    return nlohmann::json::parse(file, nullptr, false);
  }());
  return *json;
}

spec::GenerationSettings Greedy() {
  spec::GenerationSettings settings;
  settings.max_new_tokens = Transformers()["new_tokens"];
  settings.eos_token_id = {2};
  return settings;
}

Ids AnswersOf(const model::Decoder& decoder, const Ids& prompts,
              Generation generation) {
  const auto device = device::OpenCpu().value();
  std::vector<int64_t> rows;
  for (size_t i = 0; i < prompts.size(); ++i) rows.push_back(i);
  Ids ids;
  const auto all = Answers(decoder, *device, generation, prompts, rows).value();
  for (const Answer& answer : all) ids.push_back(answer.ids);
  return ids;
}

class EveryFamily : public testing::TestWithParam<std::string> {};

TEST_P(EveryFamily, AnswersAreThoseOfTransformersTokenForToken) {
  const nlohmann::json& golden = Transformers()["cases"][GetParam()];
  const Ids prompts = golden["prompts"];
  const auto decoder = LoadGolden(GetParam());
  EXPECT_EQ(AnswersOf(*decoder, prompts, {Greedy()}), golden["base"]);
  const fs::path folder = Golden(GetParam(), "adapter");
  const auto adapter =
      lora::Adapter::Attach(*decoder, lora::ReadPeftConfig(folder).value(),
                            at::kCPU)
          .value();
  ASSERT_TRUE(adapter->LoadCheckpoint(folder).ok());
  EXPECT_EQ(AnswersOf(*decoder, prompts, {Greedy()}), golden["adapter"]);
  Generation penalised{Greedy()};
  penalised.settings.repetition_penalty = 1.5;
  EXPECT_EQ(AnswersOf(*decoder, prompts, penalised), golden["penalised"]);
}

std::vector<std::string> Families() {
  std::vector<std::string> names;
  for (const auto& [name, golden] : Transformers()["cases"].items()) {
    names.push_back(name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Golden, EveryFamily, testing::ValuesIn(Families()),
                         [](const auto& info) { return info.param; });

TEST(EveryFamilyTest, IsInTheGoldenFile) {
  size_t decoders = 0;
  for (const auto& entry : fs::directory_iterator(Golden(".", "."))) {
    decoders += fs::exists(entry.path() / "golden.json") &&
                entry.path().filename() != "llama2_sharded";
  }
  EXPECT_EQ(Transformers()["cases"].size(), decoders);
}

TEST(NextTokensTest, ProbabilitiesAreThoseOfTransformersProcessors) {
  for (const auto& row : Transformers()["processors"]) {
    spec::GenerationSettings settings;
    ASSERT_TRUE(spec::TakeGenerationSettings(row["settings"], settings).ok());
    const std::vector<float> logits = row["logits"];
    const std::vector<int32_t> ids = row["ids"];
    std::vector<double> ours(logits.size());
    for (const Candidate& one : NextTokens(settings, logits, ids)) {
      ours[one.id] = one.probability;
    }
    const std::vector<double> theirs = row["probabilities"];
    for (size_t id = 0; id < ours.size(); ++id) {
      EXPECT_NEAR(ours[id], theirs[id], 1e-6) << row["settings"] << " " << id;
      EXPECT_EQ(ours[id] == 0, theirs[id] == 0) << row["settings"] << " " << id;
    }
  }
}

TEST(NextTokensTest, LogitsThatAreNotFiniteHaveNone) {
  EXPECT_TRUE(NextTokens({}, std::vector<float>{0, NAN, 1}, {}).empty());
  EXPECT_TRUE(NextTokens({}, std::vector<float>{-INFINITY}, {}).empty());
}

// Shares of 20,000 draws are within four standard deviations.
TEST(SamplerTest, DrawsByProbabilityAndTheSameForASeedAndRow) {
  const std::vector<Candidate> candidates = {{4, 0.5}, {1, 0.3}, {7, 0.2}};
  Sampler sampler(3, 1), same(3, 1), other(3, 2);
  std::map<int32_t, int> counts;
  int differences = 0;
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) {
    const int32_t id = sampler.Draw(candidates);
    ++counts[id];
    EXPECT_EQ(same.Draw(candidates), id);
    differences += other.Draw(candidates) != id;
  }
  for (const Candidate& one : candidates) {
    const double p = one.probability;
    EXPECT_NEAR(counts[one.id], kDraws * p,
                4 * std::sqrt(kDraws * p * (1 - p)));
  }
  EXPECT_GT(differences, kDraws / 2);
}

Generation Sampled() {
  Generation sampled{Greedy()};
  sampled.settings.do_sample = true;
  sampled.settings.eos_token_id.clear();
  return sampled;
}

TEST(AnswersTest, ASampleDoesNotDependOnTheBatch) {
  const auto decoder = LoadGolden("llama3");
  const Ids prompts = Transformers()["cases"]["llama3"]["prompts"];
  const Ids together = AnswersOf(*decoder, prompts, Sampled());
  EXPECT_EQ(together.front().size(), 24u);
  EXPECT_EQ(AnswersOf(*decoder, {prompts[0]}, Sampled()).front(),
            together.front());
  Generation other = Sampled();
  other.settings.seed = 1;
  EXPECT_NE(AnswersOf(*decoder, prompts, other), together);
}

// No oracle runs bitsandbytes on a CPU: each token is the likeliest after one
// forward of all tokens before it.
TEST(AnswersTest, AQuantisedModelsTokensAreThoseOfItsWholeForward) {
  const std::string folder = Golden("qwen3", "model").string();
  const auto config = spec::ReadModelConfig(folder).value();
  const auto weights = tensorfile::Weights::Open(folder).value();
  const Ids prompts = Transformers()["cases"]["qwen3"]["prompts"];
  for (const bool four : {true, false}) {
    spec::QuantizationSpec quantization;
    quantization.load_in_4bit = four;
    quantization.load_in_8bit = !four;
    model::WeightSource source{weights.get(), at::kCPU, at::kFloat};
    source.quantization = quantization;
    const auto decoder = model::Decoder::Load(source, config).value();
    const Ids answers = AnswersOf(*decoder, prompts, {Greedy()});
    for (size_t row = 0; row < prompts.size(); ++row) {
      std::vector<int64_t> all(prompts[row].begin(), prompts[row].end());
      all.insert(all.end(), answers[row].begin(), answers[row].end());
      model::DecoderInputs inputs;
      inputs.input_ids = at::tensor(all).unsqueeze(0);
      const at::Tensor best = decoder->Logits(inputs).argmax(-1)[0];
      for (size_t i = 0; i < answers[row].size(); ++i) {
        EXPECT_EQ(best[prompts[row].size() + i - 1].item<int64_t>(),
                  answers[row][i])
            << four << " " << row << " " << i;
      }
    }
  }
}

TEST(AnswersTest, EndAtAStopStringAndWhenAsked) {
  const auto decoder = LoadGolden("llama3");
  const auto device = device::OpenCpu().value();
  const Ids prompts = Transformers()["cases"]["llama3"]["prompts"];
  const Ids whole = Transformers()["cases"]["llama3"]["base"];
  Generation generation{Greedy()};
  generation.ends_with_stop = [&](std::span<const int32_t> ids) {
    return ids.size() > prompts[0].size() && ids.back() == whole[0][5];
  };
  const auto answers =
      Answers(*decoder, *device, generation, {prompts[0]}, {0}).value();
  EXPECT_EQ(answers[0].finish, Finish::kStopString);
  EXPECT_LE(answers[0].ids.size(), 6u);
  EXPECT_EQ(answers[0].ids.back(), whole[0][5]);
  generation.go_on = [](int64_t made) { return made < 2; };
  EXPECT_EQ(Answers(*decoder, *device, generation, prompts, {0, 1, 2})
                .status()
                .code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace mpsd::generate
