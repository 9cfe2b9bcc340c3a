// SPDX-License-Identifier: Apache-2.0
#include "core/study/smoke_against.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace mpsd::study {
namespace {

using nlohmann::json;
using runbook::Finding;
using runbook::Verdict;
using testing::HasSubstr;

json Environment() {
  return {{"mpsd_version", "0.1.0"},
          {"torch_version", "2.11.0"},
          {"operating_system", "macOS 26.1"},
          {"processor", "Apple M2"},
          {"train_sha256", "d1"},
          {"spec_json", "{}"},
          {"variables", {{"OMP_NUM_THREADS", "4"}}},
          {"model_sha256", {{"config.json", "m1"}, {"w.safetensors", "m2"}}}};
}

class CompareSmokeTest : public testing::Test {
 protected:
  json here_ = {{"device", "mps"},
                {"environment", Environment()},
                {"memory_from", "driver"},
                {"epochs",
                 {{{"epoch", 1}, {"driver_bytes", 1000}},
                  {{"epoch", 2}, {"driver_bytes", 1100}}}},
                {"step_seconds", {{"median", 0.2}}}};
  json there_ = {{"device", "mps"},
                 {"environment", Environment()},
                 {"memory_from", "driver"},
                 {"epoch_bytes", {1000.0, 1000.0}},
                 {"step_seconds", 0.1}};

  Finding Of(const std::string& name) const {
    for (Finding& finding : CompareSmoke(here_, there_, {})) {
      if (finding.name == name) return finding;
    }
    ADD_FAILURE() << "no finding " << name;
    return {};
  }
  Verdict Worst() const {
    return runbook::Worst(CompareSmoke(here_, there_, {}));
  }
};

TEST_F(CompareSmokeTest, EqualMachinesPass) {
  EXPECT_EQ(Worst(), Verdict::kPass);
  EXPECT_EQ(Of("against.data").verdict, Verdict::kPass);
  EXPECT_EQ(Of("against.step_seconds").value, 2);
  EXPECT_THAT(Of("against.model").found, HasSubstr("2 are equal"));
}

TEST_F(CompareSmokeTest, EachDifferenceIsNamed) {
  json& there = there_["environment"];
  there["train_sha256"] = "d2";
  EXPECT_EQ(Of("against.data").verdict, Verdict::kFail);
  there["torch_version"] = "2.12.0";
  EXPECT_EQ(Of("against.torch").verdict, Verdict::kWarn);
  EXPECT_THAT(Of("against.torch").found, HasSubstr("2.12.0"));
  there["variables"] = {{"OMP_NUM_THREADS", "8"}, {"PYTORCH_X", "1"}};
  EXPECT_EQ(Of("against.variable.OMP_NUM_THREADS").verdict, Verdict::kWarn);
  EXPECT_THAT(Of("against.variable.PYTORCH_X").found,
              HasSubstr("here not set, there 1"));
  there["model_sha256"]["w.safetensors"] = "m3";
  EXPECT_EQ(Of("against.model.w.safetensors").verdict, Verdict::kFail);
  there["processor"] = "Apple M4";
  EXPECT_EQ(Of("against.processor").verdict, Verdict::kPass)
      << "another machine is what a handoff is about";
  there["spec_json"] = "{\"x\": 1}";
  EXPECT_EQ(Of("against.job").verdict, Verdict::kFail);
}

TEST_F(CompareSmokeTest, MoreMemoryThanThereIsAWarning) {
  EXPECT_EQ(Of("against.memory").verdict, Verdict::kPass);
  here_["epochs"][1]["driver_bytes"] = 1270;
  EXPECT_EQ(Of("against.memory").verdict, Verdict::kWarn);
  here_["memory_from"] = "footprint";
  EXPECT_EQ(Of("against.memory").verdict, Verdict::kNotTold);
}

TEST_F(CompareSmokeTest, WhatOneSideLacksIsNotTold) {
  there_ = json::object();
  for (const Finding& finding : CompareSmoke(here_, there_, {})) {
    if (finding.name.starts_with("against.model.") ||
        finding.name.starts_with("against.variable.")) {
      continue;
    }
    EXPECT_EQ(finding.verdict, Verdict::kNotTold) << finding.name;
  }
}

// What another machine says may be anything.
TEST_F(CompareSmokeTest, HostileReferencesAreQuotedAndBounded) {
  json& variables = there_["environment"]["variables"];
  for (int i = 0; i < 1000; ++i) {
    variables[absl::StrCat("V\x1b[2J", i)] = std::string(100'000, 'x');
  }
  there_["epoch_bytes"] = "many";
  there_["step_seconds"] = json::array();
  there_["device"] = {{"a", 1}};
  const auto findings = CompareSmoke(here_, there_, {});
  EXPECT_LT(findings.size(), 60u);
  for (const Finding& finding : findings) {
    EXPECT_LT(finding.found.size(), 1000u) << finding.name;
    EXPECT_EQ(finding.name.find('\x1b'), std::string::npos);
  }
}

}  // namespace
}  // namespace mpsd::study
