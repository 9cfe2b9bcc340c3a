// SPDX-License-Identifier: Apache-2.0
#include "core/data/packing.h"

#include <algorithm>
#include <deque>
#include <map>

#include "core/base/check.h"

namespace mpsd::data {

std::vector<std::vector<int64_t>> PackBestFit(
    const std::vector<int64_t>& lengths, const std::vector<int64_t>& order,
    int64_t capacity) {
  // Stable: among equal lengths `order`, which changes by epoch, decides.
  std::vector<int64_t> longest_first = order;
  std::stable_sort(
      longest_first.begin(), longest_first.end(),
      [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<int64_t>> rows;
  // Rows with space left, by space. The queue keeps rows of equal space in the
  // order in which they got it, as TRL does, so that equal inputs pack alike.
  std::map<int64_t, std::deque<size_t>> rows_by_space;
  for (int64_t index : longest_first) {
    base::CheckIndex(index, lengths.size(), "a sample to be packed");
    base::CheckAtMost(lengths[index], capacity, "a sample and its row");
    auto fit = rows_by_space.lower_bound(lengths[index]);
    size_t row = rows.size();
    int64_t space = capacity;
    if (fit == rows_by_space.end()) {
      rows.emplace_back();
    } else {
      space = fit->first;
      row = fit->second.front();
      fit->second.pop_front();
      if (fit->second.empty()) rows_by_space.erase(fit);
    }
    rows[row].push_back(index);
    const int64_t left = space - lengths[index];
    if (left > 0) rows_by_space[left].push_back(row);
  }
  return rows;
}

}  // namespace mpsd::data
