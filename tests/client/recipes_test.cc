// SPDX-License-Identifier: Apache-2.0
// deploy/recipes: every one is a job, and its memory in the README is what the
// daemon would say of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "core/spec/memory_estimate.h"
#include "core/spec/targets.h"
#include "core/spec/train_spec.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kRoot = MPSD_TEST_SOURCE_DIR;
const fs::path kFolder = kRoot / "deploy/recipes";

std::string Read(const fs::path& path) {
  auto text = base::ReadFile(path);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

std::vector<std::string> Recipes() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".json")
      names.push_back(entry.path().stem());
  }
  return names;
}

spec::TrainSpec SpecOf(const std::string& recipe) {
  const fs::path path = kFolder / (recipe + ".json");
  auto spec = spec::ParseTrainSpec(Read(path), path.filename().string());
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *spec : spec::TrainSpec();
}

// config.json of the model that the recipe names.
spec::ModelConfig ConfigOf(const std::string& recipe,
                           const spec::TrainSpec& spec) {
  const fs::path path =
      kRoot / "tests/client/testdata/recipes" / (recipe + ".config.json");
  auto config = spec::ParseModelConfig(Read(path), path.filename().string());
  EXPECT_TRUE(config.ok()) << config.status();
  if (!config.ok()) return {};
  const size_t labels = spec.classification.label_names.size();
  if (spec.task != spec::Task::kCausalLm) {
    config->num_labels = labels > 0 ? static_cast<int64_t>(labels) : 2;
  }
  return *config;
}

TEST(Recipes, AreFive) { EXPECT_EQ(Recipes().size(), 5u); }

TEST(Recipes, AreJobsOfTheirModels) {
  for (const std::string& recipe : Recipes()) {
    SCOPED_TRACE(recipe);
    const spec::TrainSpec spec = SpecOf(recipe);
    const spec::ModelConfig config = ConfigOf(recipe, spec);
    EXPECT_FALSE(spec.name.empty());
    EXPECT_TRUE(spec::CheckTask(spec, config).ok())
        << spec::CheckTask(spec, config);
    if (spec.fine_tune_type == spec::FineTuneType::kLora) {
      EXPECT_TRUE(spec::MatchTargets(spec.lora, config).ok());
    }
  }
}

TEST(Recipes, NeedTheMemoryThatTheReadmeNames) {
  const std::string readme = Read(kFolder / "README.md");
  for (const std::string& recipe : Recipes()) {
    const spec::TrainSpec spec = SpecOf(recipe);
    const int64_t bytes =
        spec::EstimateMemory(spec, ConfigOf(recipe, spec)).total_bytes;
    const std::string memory =
        absl::StrFormat("| %.2f GiB |", static_cast<double>(bytes) / (1 << 30));
    const std::string row = absl::StrCat("| [", recipe, ".json](");
    bool found = false;
    for (const absl::string_view piece : absl::StrSplit(readme, '\n')) {
      const std::string line(piece);
      if (!line.starts_with(row)) continue;
      found = true;
      EXPECT_THAT(line, HasSubstr(memory));
    }
    EXPECT_TRUE(found) << "README.md has no row of " << recipe;
  }
}

}  // namespace
}  // namespace mpsd::client
