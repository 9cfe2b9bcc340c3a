// SPDX-License-Identifier: Apache-2.0
#include "core/text/training_template.h"

#include <gtest/gtest.h>

namespace mpsd::text {
namespace {

TEST(TrainingTemplate, IsForStockTemplatesAlone) {
  EXPECT_EQ(TrainingTemplate(""), std::nullopt);
  EXPECT_EQ(TrainingTemplate("{{ messages[0].content }}"), std::nullopt);
}

// The edits themselves are compared with TRL's templates by
// tests/live/text/compare_labels.py: stock templates are not kept here.
TEST(EditTemplate, EachEditMustFitOnce) {
  EXPECT_EQ(EditTemplate("a b c", {}), "a b c");
  EXPECT_EQ(EditTemplate("a b c", {{"a", "c"}, {"b", "x"}}), "c x c");
  EXPECT_EQ(EditTemplate("a b c", {{"a", "c"}, {"c", "x"}}), std::nullopt);
  EXPECT_EQ(EditTemplate("a b c", {{"d", "x"}}), std::nullopt);
  EXPECT_EQ(EditTemplate("aaa", {{"aa", "x"}}), std::nullopt);
}

}  // namespace
}  // namespace mpsd::text
