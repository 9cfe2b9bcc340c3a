// SPDX-License-Identifier: Apache-2.0
#include "core/study/trained_values.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/scratch_folder.h"

namespace mpsd::study {
namespace {

using Initial = std::vector<std::pair<std::string, at::Tensor>>;

class TrainedValuesTest : public testing::Test {
 protected:
  const std::filesystem::path file_ =
      testing_support::FreshFolder("trained_values") / "kept.safetensors";
  optim::ParameterSet first_{
      Initial{{"a.weight", at::arange(6, at::kFloat).reshape({2, 3})},
              {"b.bias", at::ones({4})}},
      at::kCPU};
};

TEST_F(TrainedValuesTest, EachIsVisitedInItsOrder) {
  std::string visited;
  VisitTensors(first_, Part::kValue,
               [&](const std::string& name, std::span<const float> elements) {
                 visited += name + " " + std::to_string(elements.size()) + " " +
                            std::to_string(elements.back()) + "\n";
               });
  EXPECT_EQ(visited, "a.weight 6 5.000000\nb.bias 4 1.000000\n");
}

TEST_F(TrainedValuesTest, WhatIsKeptIsFoundByName) {
  for (const optim::ParameterSet::Group& group : first_.groups()) {
    group.gradients.fill_(7);
  }
  // Another run trains `a` in other numbers, `b` in another shape, and `c`.
  optim::ParameterSet second(Initial{{"c.weight", at::ones({1})},
                                     {"b.bias", at::ones({3})},
                                     {"a.weight", at::zeros({2, 3})}},
                             at::kCPU);
  for (const Part part : {Part::kValue, Part::kGradient}) {
    ASSERT_TRUE(KeepTensors(file_, first_, part).ok());
    std::string visited;
    ASSERT_TRUE(
        VisitPairs(file_, second, part,
                   [&](const std::string& name, std::span<const float> elements,
                       std::span<const float> kept) {
                     visited += name + " " + std::to_string(elements[5]) + " " +
                                std::to_string(kept[5]) + "\n";
                   })
            .ok());
    EXPECT_EQ(visited, part == Part::kValue ? "a.weight 0.000000 5.000000\n"
                                            : "a.weight 0.000000 7.000000\n");
  }
}

TEST_F(TrainedValuesTest, AFileThatIsNotThere) {
  const auto visit = [](const std::string&, std::span<const float>,
                        std::span<const float>) {};
  EXPECT_FALSE(VisitPairs(file_, first_, Part::kValue, visit).ok());
  EXPECT_FALSE(KeepTensors(file_ / "none" / "x", first_, Part::kValue).ok());
}

}  // namespace
}  // namespace mpsd::study
