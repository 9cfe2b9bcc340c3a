// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/checks.h"

#include <iterator>
#include <utility>

namespace mpsd::selftest {

std::vector<Check> AllChecks(const Sizes& sizes, bool own_attention) {
  std::vector<Check> all = MatrixChecks(sizes);
  const auto add = [&all](std::vector<Check> checks) {
    all.insert(all.end(), std::make_move_iterator(checks.begin()),
               std::make_move_iterator(checks.end()));
  };
  add(LayerChecks(sizes));
  add(AttentionChecks(sizes, own_attention));
  add(LossChecks(sizes));
  add(DeviceChecks(sizes));
  return all;
}

}  // namespace mpsd::selftest
