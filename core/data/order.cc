// SPDX-License-Identifier: Apache-2.0
#include "core/data/order.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/check.h"

namespace mpsd::data {

uint64_t Random::Next() {
  state_ += 0x9E3779B97F4A7C15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

uint64_t Random::Below(uint64_t bound) {
  base::CheckLess(0, bound, "the bound of a random number");
  // 2^64 is not a multiple of most bounds: numbers below 2^64 mod bound are
  // drawn again, else small results would be too frequent.
  const uint64_t rejected = (0 - bound) % bound;
  uint64_t number = Next();
  while (number < rejected) number = Next();
  return number % bound;
}

std::vector<int64_t> ShuffledOrder(int64_t count, uint64_t seed,
                                   int64_t epoch) {
  Random random(Random(seed).Next() + static_cast<uint64_t>(epoch));
  std::vector<int64_t> order = PlainOrder(count);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random.Below(i)]);
  }
  return order;
}

std::vector<int64_t> GroupByLength(std::vector<int64_t> order,
                                   const std::vector<int64_t>& lengths,
                                   int64_t batch) {
  base::CheckLess(0, batch, "samples of a batch");
  base::CheckAtMost(order.size(), lengths.size(), "an order and its samples");
  const auto count = static_cast<int64_t>(order.size());
  const int64_t piece = batch * std::clamp<int64_t>(count / (batch * 4), 1, 50);
  int64_t longest = 0;  // index in `order` of the longest sample
  for (int64_t at = 0; at < count; at += piece) {
    std::stable_sort(
        order.begin() + at, order.begin() + std::min(at + piece, count),
        [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
    if (lengths[order[at]] > lengths[order[longest]]) longest = at;
  }
  if (count > 0) std::swap(order[0], order[longest]);
  return order;
}

std::vector<int64_t> PlainOrder(int64_t count) {
  base::CheckAtMost(0, count, "samples of an order");
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

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
