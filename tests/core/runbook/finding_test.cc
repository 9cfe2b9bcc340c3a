// SPDX-License-Identifier: Apache-2.0
#include "core/runbook/finding.h"

#include "gtest/gtest.h"

namespace mpsd::runbook {
namespace {

TEST(Finding, JsonHasWhatIsThereAlone) {
  EXPECT_EQ(ToJson({"disk.free", Verdict::kWarn, "3 GB", "make room", 3.0, 5.0,
                    "GB"}),
            nlohmann::json({{"name", "disk.free"},
                            {"verdict", "VERDICT_WARN"},
                            {"found", "3 GB"},
                            {"advice", "make room"},
                            {"value", 3.0},
                            {"threshold", 5.0},
                            {"unit", "GB"}}));
  EXPECT_EQ(ToJson({"power", Verdict::kNotTold, "not told"}),
            nlohmann::json({{"name", "power"},
                            {"verdict", "VERDICT_UNSPECIFIED"},
                            {"found", "not told"}}));
}

TEST(Finding, TheWorstDecides) {
  EXPECT_EQ(Worst({}), Verdict::kNotTold);
  EXPECT_EQ(Worst({{"a", Verdict::kNotTold, ""}, {"b", Verdict::kPass, ""}}),
            Verdict::kPass);
  EXPECT_EQ(Worst({{"a", Verdict::kFail, ""}, {"b", Verdict::kWarn, ""}}),
            Verdict::kFail);
}

TEST(Finding, TheMostSevereComeFirstOthersKeepTheirOrder) {
  std::vector<Finding> findings = {{"a", Verdict::kPass, ""},
                                   {"b", Verdict::kFail, ""},
                                   {"c", Verdict::kPass, ""},
                                   {"d", Verdict::kNotTold, ""},
                                   {"e", Verdict::kFail, ""}};
  SortBySeverity(findings);
  std::string order;
  for (const Finding& finding : findings) order += finding.name;
  EXPECT_EQ(order, "beacd");
}

}  // namespace
}  // namespace mpsd::runbook
