// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_BATCH_SEARCH_H_
#define MPSD_CORE_STUDY_BATCH_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

// How a sweep chooses its batches, and what it concludes; uses no device.
namespace mpsd::study {

struct BatchTrial {
  int64_t batch = 0;
  bool fits = false;
  int64_t held_bytes = 0;  // 0: unknown
  double throughput = 0;   // anything per second; 0: not measured
};

// The next batch to try: `first`, then twice the largest that fits, up to
// `most`, and once one does not fit, the midpoint between them. nullopt: the
// largest that fits is known.
std::optional<int64_t> NextBatch(const std::vector<BatchTrial>& trials,
                                 int64_t first, int64_t most);

// The greatest number of trials left, for a progress bar.
int64_t TrialsLeft(const std::vector<BatchTrial>& trials, int64_t first,
                   int64_t most);

// The predicted memory of `batch`, by a straight line through the two largest
// trials below it that fit; with one trial, its memory beyond `resident_bytes`
// grows in proportion to the batch. nullopt without a trial below.
std::optional<int64_t> PredictedBytes(const std::vector<BatchTrial>& trials,
                                      int64_t resident_bytes, int64_t batch);

// 0: no batch fits.
int64_t LargestBatch(const std::vector<BatchTrial>& trials);

// The smallest batch that fits whose throughput is at most `part` below the
// best; 0: no batch fits.
int64_t KneeOf(const std::vector<BatchTrial>& trials, double part);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_BATCH_SEARCH_H_
