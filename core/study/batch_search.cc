// SPDX-License-Identifier: Apache-2.0
#include "core/study/batch_search.h"

#include <algorithm>
#include <limits>

namespace mpsd::study {
namespace {

// The smallest batch that does not fit.
std::optional<int64_t> SmallestMiss(const std::vector<BatchTrial>& trials) {
  std::optional<int64_t> miss;
  for (const BatchTrial& trial : trials) {
    if (trial.fits) continue;
    miss = std::min(miss.value_or(trial.batch), trial.batch);
  }
  return miss;
}

// The largest batch that fits below any that does not.
int64_t LargestHit(const std::vector<BatchTrial>& trials) {
  const int64_t below =
      SmallestMiss(trials).value_or(std::numeric_limits<int64_t>::max());
  int64_t largest = 0;
  for (const BatchTrial& trial : trials) {
    if (trial.fits && trial.batch < below) {
      largest = std::max(largest, trial.batch);
    }
  }
  return largest;
}

int64_t Doublings(int64_t from, int64_t to) {
  int64_t count = 0;
  for (; from < to; from *= 2) ++count;
  return count;
}

}  // namespace

std::optional<int64_t> NextBatch(const std::vector<BatchTrial>& trials,
                                 int64_t first, int64_t most) {
  if (trials.empty()) return std::min(first, most);
  const int64_t largest = LargestHit(trials);
  if (const auto miss = SmallestMiss(trials)) {
    if (*miss - largest <= 1) return std::nullopt;
    return largest + (*miss - largest) / 2;
  }
  if (largest >= most) return std::nullopt;
  return std::min(2 * largest, most);
}

int64_t TrialsLeft(const std::vector<BatchTrial>& trials, int64_t first,
                   int64_t most) {
  if (trials.empty()) return 1 + Doublings(first, most);
  const int64_t largest = LargestHit(trials);
  if (const auto miss = SmallestMiss(trials)) {
    return Doublings(1, *miss - largest);
  }
  return Doublings(largest, most);
}

std::optional<int64_t> PredictedBytes(const std::vector<BatchTrial>& trials,
                                      int64_t resident_bytes, int64_t batch) {
  const BatchTrial* last = nullptr;
  const BatchTrial* before = nullptr;
  for (const BatchTrial& trial : trials) {
    if (!trial.fits || trial.held_bytes <= 0 || trial.batch >= batch) continue;
    if (last == nullptr || trial.batch > last->batch) {
      before = last;
      last = &trial;
    } else if (before == nullptr || trial.batch > before->batch) {
      before = &trial;
    }
  }
  if (last == nullptr) return std::nullopt;
  const double from =
      before == nullptr ? 0 : static_cast<double>(before->batch);
  const auto base = static_cast<double>(before == nullptr ? resident_bytes
                                                          : before->held_bytes);
  // Memory that shrinks with the batch is noise.
  const double slope =
      std::max(0.0, (static_cast<double>(last->held_bytes) - base) /
                        (static_cast<double>(last->batch) - from));
  return last->held_bytes +
         static_cast<int64_t>(slope * static_cast<double>(batch - last->batch));
}

int64_t LargestBatch(const std::vector<BatchTrial>& trials) {
  return LargestHit(trials);
}

int64_t KneeOf(const std::vector<BatchTrial>& trials, double part) {
  double best = 0;
  for (const BatchTrial& trial : trials) {
    if (trial.fits) best = std::max(best, trial.throughput);
  }
  int64_t knee = 0;
  for (const BatchTrial& trial : trials) {
    if (!trial.fits || trial.throughput < (1 - part) * best) continue;
    if (knee == 0 || trial.batch < knee) knee = trial.batch;
  }
  return knee;
}

}  // namespace mpsd::study
