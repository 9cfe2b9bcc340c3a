// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_LIST_FILTER_H_
#define MPSD_SERVER_JOBS_LIST_FILTER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "server/jobs/job.h"

namespace mpsd::jobs {

// What a list of jobs is sorted by; jobs that are equal in it, by the order in
// which they came. The numbers are those of v1.JobOrder.
enum class ListOrder {
  kCreated = 1,  // the order in which the jobs came
  kEndTime = 2,
  kName = 3,  // its first kOrderedCharacters, A and a alike (ASCII)
  kOwner = 4,
  kState = 5,
  kPriority = 6,
  kEvalLoss = 7,
  kDeviceTime = 8,
  kStoredBytes = 9,
};
inline constexpr ListOrder kAllListOrders[] = {
    ListOrder::kCreated,  ListOrder::kEndTime,    ListOrder::kName,
    ListOrder::kOwner,    ListOrder::kState,      ListOrder::kPriority,
    ListOrder::kEvalLoss, ListOrder::kDeviceTime, ListOrder::kStoredBytes};
// So few that a name cut to limits::kNameBytes has them whole.
inline constexpr int kOrderedCharacters = 60;

// Where in a list a job stands. The place says it by itself: the next page
// begins behind it also when the job was changed or deleted since.
struct ListPlace {
  std::string id;
  // The job's value of the order: monostate for kCreated and for a job without
  // a value; microseconds for times.
  std::variant<std::monostate, int64_t, double, std::string> value;

  bool operator==(const ListPlace&) const = default;
};
ListPlace PlaceOf(const Job& job, ListOrder order);

struct ListFilter {
  std::vector<State> states;                  // empty: all
  std::string owner;                          // empty: all
  std::map<std::string, std::string> labels;  // all must match
  int limit = 50;
  std::optional<ListPlace> after;  // exclusive; absent: from the first
  // For a table of jobs: spec_json, confusion_matrix and warnings stay empty,
  // and texts are cut to limits.h. A row that cannot be read as a whole comes
  // with its readable columns and says so in its message. A summary is never
  // written back.
  bool summaries = false;

  // In id, name, owner, model, message, or a label's key or value, upper and
  // lower case alike; empty: all.
  std::string text;
  // Present: of jobs of others `text` is looked for in id and owner alone.
  std::optional<std::string> text_of_owner;
  // At or after the first, before the second.
  std::optional<absl::Time> created_from, created_to, ended_from, ended_to;
  std::string model;              // empty: all
  std::vector<std::string> tags;  // all must match
  std::optional<bool> pinned, held;
  ListOrder order = ListOrder::kCreated;
  bool past = false;  // deleted jobs (PastJobs::List) instead of the others
  // Smallest, oldest, A first; jobs without a value are last either way.
  bool ascending = false;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_LIST_FILTER_H_
