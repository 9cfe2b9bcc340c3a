// SPDX-License-Identifier: Apache-2.0
#include "core/model/load_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::model {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(WarningsTest, AreThereForWhatIsNotAlike) {
  EXPECT_THAT(Warnings({}), IsEmpty());
  EXPECT_THAT(
      Warnings({{"a.bias", "b"}, {"c"}, true}),
      ElementsAre(AllOf(HasSubstr("has 2 tensors"), HasSubstr("a.bias, b")),
                  AllOf(HasSubstr("lacks 1 tensors"), HasSubstr(": c")),
                  HasSubstr("not tied")));
}

TEST(WarningsTest, NameTheFirstOfMany) {
  LoadReport report;
  for (int i = 0; i < 5000; ++i) {
    report.unused.push_back("tensor" + std::to_string(i));
  }
  const std::vector<std::string> warnings = Warnings(report);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0],
              AllOf(HasSubstr("5000"), HasSubstr("tensor7 and "),
                    HasSubstr("4992 more"), Not(HasSubstr("tensor8"))));
}

TEST(IsOldBufferTest, IsOfTheFamilyThatHadIt) {
  using spec::Family;
  const char* rotary = "model.layers.3.self_attn.rotary_emb.inv_freq";
  EXPECT_TRUE(IsOldBuffer(rotary, Family::kDecoder));
  EXPECT_FALSE(IsOldBuffer(rotary, Family::kEncoder));
  for (const char* name : {"position_ids", "bert.embeddings.position_ids"}) {
    EXPECT_TRUE(IsOldBuffer(name, Family::kEncoder));
    EXPECT_FALSE(IsOldBuffer(name, Family::kDecoder));
    EXPECT_FALSE(IsOldBuffer(name, Family::kVision));
  }
  EXPECT_FALSE(IsOldBuffer("my_position_ids", Family::kEncoder));
}

}  // namespace
}  // namespace mpsd::model
