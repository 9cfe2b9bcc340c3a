// SPDX-License-Identifier: Apache-2.0
#include "core/spec/module_names.h"

#include <gtest/gtest.h>

namespace mpsd::spec {
namespace {

TEST(ModuleNames, MeanFullNamesAndTheirEnds) {
  const std::vector<std::string> entries = {"q_proj", "mlp.up_proj",
                                            "model.layers.0.self_attn.v_proj"};
  ModuleNames names(entries);
  EXPECT_TRUE(names.Mean("model.layers.3.self_attn.q_proj"));
  EXPECT_TRUE(names.Mean("q_proj"));
  EXPECT_TRUE(names.Mean("model.layers.0.mlp.up_proj"));
  EXPECT_TRUE(names.Mean("model.layers.0.self_attn.v_proj"));
  EXPECT_FALSE(names.Mean("model.layers.1.self_attn.v_proj"));
  EXPECT_FALSE(names.Mean("model.layers.0.xmlp.up_proj"));
  EXPECT_FALSE(names.Mean("up_proj"));
  EXPECT_FALSE(names.Mean("eq_proj"));
  EXPECT_FALSE(names.Mean("q_proj.x"));
  EXPECT_FALSE(names.Mean(""));
}

TEST(ModuleNames, TellsTheFirstThatWasNotMet) {
  const std::vector<std::string> entries = {"a", "b", "a", "x.a"};
  ModuleNames names(entries);
  EXPECT_EQ(*names.Unmet(), "a");
  EXPECT_TRUE(names.Mean("x.a"));
  EXPECT_EQ(*names.Unmet(), "b");
  EXPECT_TRUE(names.Mean("b"));
  EXPECT_EQ(names.Unmet(), nullptr);
}

}  // namespace
}  // namespace mpsd::spec
