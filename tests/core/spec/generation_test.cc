// SPDX-License-Identifier: Apache-2.0
#include "core/spec/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/core/scratch_folder.h"

namespace mpsd::spec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(GenerationSettingsTest, AreThoseOfTheModelsFolder) {
  const fs::path folder = FreshFolder("generation");
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(folder / name) << text;
  };
  std::vector<std::string> ignored;
  const auto read = [&] {
    return ReadGenerationSettings(folder.string(), ignored);
  };
  // The head's and the sampling's settings of older releases are not read.
  write("config.json", R"({"eos_token_id": 2, "do_sample": true})");
  auto settings = read().value();
  EXPECT_THAT(settings.eos_token_id, ElementsAre(2));
  EXPECT_FALSE(settings.do_sample);
  EXPECT_EQ(settings.top_k, 50);
  write("generation_config.json",
        R"({"eos_token_id": [1, 106], "do_sample": true, "top_k": 64,
                   "top_p": 0.95, "temperature": null, "num_beams": 4,
                   "typical_p": 1.0, "suppress_tokens": null,
                   "cache_implementation": "hybrid"})");
  settings = read().value();
  EXPECT_THAT(settings.eos_token_id, ElementsAre(1, 106));
  EXPECT_TRUE(settings.do_sample);
  EXPECT_EQ(settings.top_k, 64);
  EXPECT_EQ(settings.top_p, 0.95);
  EXPECT_EQ(settings.temperature, 1);
  EXPECT_EQ(settings.max_new_tokens, 256);
  EXPECT_THAT(ignored, ElementsAre("num_beams"));
  for (const char* wrong :
       {R"({"top_p": 3})", R"({"eos_token_id": [1, "2"]})", "[]", "{"}) {
    write("generation_config.json", wrong);
    EXPECT_THAT(std::string(read().status().message()),
                HasSubstr("/generation_config.json: "))
        << wrong;
  }
}

TEST(PromptsTest, AreLinesAndErrorsNameThem) {
  const auto prompts =
      ParsePrompts(
          "{\"prompt\": \"a\\nb\"}\r\n \n"
          "{\"messages\": [{\"role\": \"user\", \"content\": \"c\"}]}",
          "p.jsonl")
          .value();
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(prompts[0].text, "a\nb");
  EXPECT_EQ(prompts[1].messages, R"([{"role":"user","content":"c"}])");
  for (const char* wrong :
       {"x", "[]", "{}", R"({"prompt": 3})", R"({"messages": []})",
        R"({"messages": ["a"]})", R"({"messages": [{"content": "a"}]})",
        R"({"prompt": "a", "messages": [{"role": "user"}]})"}) {
    const auto read = ParsePrompts(
        std::string("{\"prompt\": \"a\"}\n\n") + wrong + "\n", "p.jsonl");
    EXPECT_THAT(std::string(read.status().message()),
                StartsWith("p.jsonl:3: expected {\"prompt\": TEXT}"))
        << wrong;
  }
  EXPECT_EQ(ParsePrompts("\n", "p.jsonl").status().message(),
            "p.jsonl: has no prompt");
  std::string many;
  for (size_t i = 0; i < kMostPrompts; ++i) many += "{\"prompt\": \"\"}\n";
  EXPECT_EQ(ParsePrompts(many, "p").value().size(), kMostPrompts);
  EXPECT_THAT(
      std::string(
          ParsePrompts(many + "{\"prompt\": \"\"}", "p").status().message()),
      StartsWith("p:1001: there are more than 1000 prompts"));
}

}  // namespace
}  // namespace mpsd::spec
