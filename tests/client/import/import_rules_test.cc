// SPDX-License-Identifier: Apache-2.0
#include "client/import/import_rules.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "core/spec/train_spec.h"

namespace mpsd::client {
namespace {

TEST(ImportRules, EveryNameHasOneRule) {
  std::set<std::string_view> seen;
  for (std::string_view name : RuleNames()) {
    EXPECT_TRUE(seen.insert(name).second) << name;
    EXPECT_NE(FindFieldRule(name) != nullptr, !WhyNoEqual(name).empty())
        << name;
  }
  EXPECT_GT(seen.size(), 150u);
  EXPECT_EQ(FindFieldRule("learning_rat"), nullptr);
  EXPECT_EQ(WhyNoEqual("learning_rat"), "");
}

// The fields of the rules are those of job.json.
TEST(ImportRules, EveryFieldIsThere) {
  const auto spec = spec::ParseTrainSpec(
      R"({"model": "m", "task": "SEQ_CLS", "dataset": {"train": "t"}})", "job");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto all = nlohmann::json::parse(spec::ToJson(*spec));
  for (std::string_view name : RuleNames()) {
    const FieldRule* rule = FindFieldRule(name);
    if (rule == nullptr) continue;
    const auto section = all.find(std::string(rule->section));
    ASSERT_NE(section, all.end()) << name;
    EXPECT_TRUE(section->contains(std::string(rule->field))) << name;
  }
}

}  // namespace
}  // namespace mpsd::client
