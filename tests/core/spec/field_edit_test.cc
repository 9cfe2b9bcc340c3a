// SPDX-License-Identifier: Apache-2.0
#include "core/spec/field_edit.h"

#include <string>

#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::spec {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

TEST(FieldValue, IsJsonOrElseAText) {
  EXPECT_EQ(FieldValue("1e-4"), Json(1e-4));
  EXPECT_EQ(FieldValue("true"), Json(true));
  EXPECT_EQ(FieldValue("[1]"), Json({1}));
  EXPECT_EQ(FieldValue("linear"), Json("linear"));
  EXPECT_EQ(FieldValue("\"5\""), Json("5"));
  EXPECT_EQ(FieldValue(""), Json(""));
  const std::string deep(limits::kJsonDepth + 1, '[');
  EXPECT_EQ(FieldValue(deep), Json(deep));
}

TEST(SetField, MakesTheObjectsAroundAField) {
  Json spec = {{"lora", nullptr}, {"model", "m"}};
  EXPECT_TRUE(SetField(spec, "lora.r", 8).ok());
  EXPECT_TRUE(SetField(spec, "training.seed", 1).ok());
  EXPECT_TRUE(SetField(spec, "model", "n").ok());
  EXPECT_EQ(spec.dump(),
            R"({"lora":{"r":8},"model":"n","training":{"seed":1}})");
}

TEST(SetField, SaysWhatCannotBe) {
  Json spec = {{"model", "m"}, {"list", {1}}};
  for (const char* field : {"", ".", ".a", "a.", "a..b"}) {
    EXPECT_THAT(std::string(SetField(spec, field, 1).message()),
                HasSubstr("expected the path of a field"));
  }
  EXPECT_THAT(std::string(SetField(spec, "model.a", 1).message()),
              HasSubstr("'model' is no object"));
  EXPECT_THAT(std::string(SetField(spec, "list.0", 1).message()),
              HasSubstr("'list' is no object"));
  std::string deep = "a";
  for (int i = 0; i < limits::kJsonDepth; ++i) deep += ".a";
  EXPECT_THAT(std::string(SetField(spec, deep, 1).message()),
              HasSubstr("65 parts, at most 64"));
  Json list = {1};
  EXPECT_FALSE(SetField(list, "a", 1).ok());
}

TEST(UnsetField, TakesAFieldOut) {
  Json spec = {{"lora", {{"r", 8}}}, {"model", "m"}};
  EXPECT_TRUE(UnsetField(spec, "lora.r").ok());
  EXPECT_EQ(spec.dump(), R"({"lora":{},"model":"m"})");
  for (const char* field : {"lora.r", "lora.r.x", "nothing", "a.b.c"}) {
    EXPECT_THAT(std::string(UnsetField(spec, field).message()),
                HasSubstr("does not set this field"))
        << field;
  }
  EXPECT_THAT(std::string(UnsetField(spec, "model.a").message()),
              HasSubstr("no object"));
}

}  // namespace
}  // namespace mpsd::spec
