// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/parameter.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::sweeps {
namespace {

using testing::HasSubstr;

std::string Error(const std::vector<Parameter>& parameters) {
  const absl::Status status = CheckParameters(parameters);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

Parameter Of(const std::string& field) { return {field, Choices{{"1", "2"}}}; }

TEST(CheckParameters, WhatMakesSenseIsFine) {
  EXPECT_TRUE(CheckParameters({{{"training.learning_rate", LogUniform{1e-5, 1}},
                                {"lora.r", Integers{4, 4}},
                                {"lora.lora_dropout", Uniform{-1, 0.5}},
                                {"lora", Choices{{"{}", "null"}}}}})
                  .code() == absl::StatusCode::kInvalidArgument)
      << "lora and lora.r";
  EXPECT_TRUE(CheckParameters({{{"training.learning_rate", LogUniform{1e-5, 1}},
                                {"lora.r", Integers{4, 4}},
                                {"lora.lora_dropout", Uniform{-1, 0.5}},
                                {"loran", Choices{{"a", "\"b\"", ""}}}}})
                  .ok());
}

TEST(CheckParameters, FieldsAreBounded) {
  EXPECT_THAT(Error({}), HasSubstr("at least one field"));
  std::vector<Parameter> many;
  for (int i = 0; i < limits::kSweepFields; ++i) {
    many.push_back(Of("f" + std::to_string(i)));
  }
  EXPECT_TRUE(CheckParameters(many).ok());
  many.push_back(Of("one_more"));
  EXPECT_THAT(Error(many), HasSubstr("at most 16"));
  EXPECT_TRUE(CheckParameters({{Of(std::string(kFieldBytes, 'f'))}}).ok());
  EXPECT_THAT(Error({Of(std::string(kFieldBytes + 1, 'f'))}),
              HasSubstr("at most 128"));
  EXPECT_THAT(Error({Of("")}), HasSubstr("a field is empty"));
  EXPECT_THAT(Error({Of("a\x1b[2J")}), HasSubstr("no field's name"));
  EXPECT_THAT(Error({Of("lora.r"), Of("lora.r")}), HasSubstr("named twice"));
  EXPECT_THAT(Error({Of("lora"), Of("lora.r")}), HasSubstr("a part of"));
  EXPECT_THAT(Error({Of("lora.r"), Of("lora")}), HasSubstr("a part of"));
}

TEST(CheckParameters, ValuesAreBounded) {
  EXPECT_THAT(Error({{"f", Choices{}}}), HasSubstr("has no values"));
  Choices many;
  for (int i = 0; i < limits::kSweepJobs; ++i) {
    many.values.push_back(std::to_string(i));
  }
  EXPECT_TRUE(CheckParameters({{{"f", many}}}).ok());
  many.values.emplace_back("more");
  EXPECT_THAT(Error({{"f", many}}), HasSubstr("501 values"));
  EXPECT_TRUE(
      CheckParameters({{{"f", Choices{{std::string(kValueBytes, 'v')}}}}})
          .ok());
  EXPECT_THAT(Error({{"f", Choices{{std::string(kValueBytes + 1, 'v')}}}}),
              HasSubstr("4097 bytes"));
  // Of all fields together.
  Choices half;
  for (size_t i = 0; i < kValuesBytes / kValueBytes / 2; ++i) {
    half.values.push_back(std::string(kValueBytes - 2, 'v') +
                          std::to_string(10 + i));
  }
  EXPECT_TRUE(CheckParameters({{{"f", half}, {"g", half}}}).ok());
  EXPECT_THAT(Error({{"f", half}, {"g", half}, {"h", Choices{{"1"}}}}),
              HasSubstr("the values have 262145 bytes, at most 262144"));
}

TEST(CheckParameters, AValueIsNamedOnceHoweverItIsSpelt) {
  EXPECT_THAT(Error({{"f", Choices{{"1e-4", "0.0001"}}}}),
              HasSubstr("0.0001 twice"));
  EXPECT_THAT(Error({{"f", Choices{{"a", "\"a\""}}}}), HasSubstr("twice"));
}

TEST(CheckParameters, ARangeHasNumbersInIt) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (const Uniform range : {Uniform{1, 1}, Uniform{2, 1}, Uniform{nan, 1},
                              Uniform{0, inf}, Uniform{-1e308, 1e308}}) {
    EXPECT_THAT(Error({{"f", range}}), HasSubstr("a range of numbers"));
  }
  EXPECT_THAT(Error({{"f", LogUniform{0, 1}}}), HasSubstr("above 0"));
  EXPECT_THAT(Error({{"f", LogUniform{-1, 1}}}), HasSubstr("above 0"));
  EXPECT_THAT(Error({{"f", Integers{2, 1}}}), HasSubstr("of integers"));
  EXPECT_THAT(Error({{"f", Integers{0, INT64_MAX}}}), HasSubstr("of integers"));
  EXPECT_THAT(Error({{"f", Integers{INT64_MIN, 0}}}), HasSubstr("of integers"));
}

}  // namespace
}  // namespace mpsd::sweeps
