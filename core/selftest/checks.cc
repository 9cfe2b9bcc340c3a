// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/checks.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/sha256.h"

namespace mpsd::selftest {

std::vector<Check> AllChecks(const Sizes& sizes, const device::Device& device) {
  std::vector<Check> all = MatrixChecks(sizes);
  const auto add = [&all](std::vector<Check> checks) {
    all.insert(all.end(), std::make_move_iterator(checks.begin()),
               std::make_move_iterator(checks.end()));
  };
  add(LayerChecks(sizes));
  add(AttentionChecks(sizes, device.traits().attends_fused()));
  add(LossChecks(sizes));
  add(ExplicitChecks(sizes, device.traits()));
  add(DeviceChecks(sizes));
  add(DecoderChecks(sizes));
  add(ClassifierChecks(sizes));
  return all;
}

std::string Coverage(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& c : checks) {
    absl::StrAppend(&text, c.kernel, "|", c.shape, "|", c.tolerance, "\n");
  }
  return base::Sha256Hex(text);
}

}  // namespace mpsd::selftest
