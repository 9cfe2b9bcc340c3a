// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_LIST_ORDER_H_
#define MPSD_CLIENT_LIST_ORDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

inline constexpr char kTrainLoss[] = "train_loss";

// One word of `mpsctl list --sort`: "name" for A first, "-name" for Z first;
// "accuracy" for the best first, "-accuracy" for the worst.
struct SortKey {
  v1::JobOrder order = v1::JOB_ORDER_CREATE_TIME;
  bool ascending = false;
  // A metric of the last evaluation, or kTrainLoss, by which the daemon does
  // not sort; "": by `order`.
  std::string metric = {};

  bool operator==(const SortKey&) const = default;
};

// "create_time", "name", "accuracy" …: what a list can be sorted by, besides
// "metrics." and any name.
std::vector<std::string> SortNames();

// The keys of "-eval_loss,name". InvalidArgument, naming the word and what it
// may be, for another one.
absl::StatusOr<std::vector<SortKey>> ParseSort(const std::string& words);

// Whether the key puts both jobs in one place.
bool AreEqual(const v1::Job& a, const v1::Job& b, const SortKey& key);

// Whether `a` comes before `b`; without keys, whether it was made later.
bool ComesBefore(const v1::Job& a, const v1::Job& b,
                 absl::Span<const SortKey> keys);

// Sorts by the keys, the first of which counts most; jobs without a value come
// last, and jobs that are equal in all keep their order.
void SortBy(absl::Span<const SortKey> keys, std::vector<v1::Job>& jobs);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_LIST_ORDER_H_
