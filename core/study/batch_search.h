// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_BATCH_SEARCH_H_
#define MPSD_CORE_STUDY_BATCH_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

// How a sweep chooses its batches, and what it concludes; without a device.
namespace mpsd::study {

struct BatchTrial {
  int64_t batch = 0;
  bool fits = false;
  int64_t held_bytes = 0;  // 0: not known
  double throughput = 0;   // anything per second; 0: not measured
};

// The next batch to try: `first`, then the largest that fits doubled, up to
// `most`, and once one does not fit the middle between both. nullopt: the
// largest that fits is known.
std::optional<int64_t> NextBatch(const std::vector<BatchTrial>& trials,
                                 int64_t first, int64_t most);

// The most trials that are still to come, for a progress bar.
int64_t TrialsLeft(const std::vector<BatchTrial>& trials, int64_t first,
                   int64_t most);

// What `batch` would hold by the two largest trials below it that fit, on a
// straight line; by one trial, what it holds beyond `resident_bytes` grows with
// the batch. nullopt without a trial below.
std::optional<int64_t> PredictedBytes(const std::vector<BatchTrial>& trials,
                                      int64_t resident_bytes, int64_t batch);

// 0: none fits.
int64_t LargestBatch(const std::vector<BatchTrial>& trials);

// The smallest batch that fits whose throughput is no more than `part` below
// the best; 0: none fits.
int64_t KneeOf(const std::vector<BatchTrial>& trials, double part);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_BATCH_SEARCH_H_
