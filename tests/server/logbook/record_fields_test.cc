// SPDX-License-Identifier: Apache-2.0
#include "server/logbook/record_fields.h"

#include <set>
#include <string_view>

#include "gtest/gtest.h"

namespace mpsd::logbook {
namespace {

TEST(RecordFields, EachHasANameAndAColumnOfItsOwn) {
  std::set<std::string_view> names, columns;
  for (const RecordField& field : kRecordFields) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    EXPECT_TRUE(columns.insert(field.column).second) << field.column;
    EXPECT_FALSE(field.about.empty()) << field.name;
    EXPECT_EQ(FieldNamed(field.name), &field);
  }
  EXPECT_EQ(FieldNamed("owner"), &kOwnerField);
  EXPECT_EQ(FieldNamed("id"), &kIdField);
  EXPECT_EQ(FieldNamed("eval"), nullptr);
  EXPECT_EQ(FieldNamed(""), nullptr);
}

TEST(RecordFields, TheFieldThatWasMeant) {
  EXPECT_EQ(NearestField("eval-loss"), "eval_loss");
  EXPECT_EQ(NearestField("modle"), "model");
  EXPECT_EQ(NearestField("xyzzy"), std::nullopt);
}

}  // namespace
}  // namespace mpsd::logbook
