// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/retention_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/jobs/user_limits.h"

namespace mpsd::retention {
namespace {

using jobs::KeepRules;
using jobs::KeptJob;
using jobs::KeptOwner;

// An end before this is of a wrong clock, and does not count.
const absl::Time kFirstEnd = absl::FromUnixSeconds(1'704'067'200);  // 2024

// The fate of one job.
struct Fate {
  const KeptOwner* owner = nullptr;
  const KeptJob* job = nullptr;
  bool movable = false;
  bool goes = false, loses_checkpoints = false;
  Rule rule = Rule::kAge, checkpoint_rule = Rule::kCheckpointAge;

  int64_t LeftBytes() const {
    if (goes) return 0;
    return job->bytes - (loses_checkpoints ? job->checkpoint_bytes : 0);
  }
  void Go(Rule why) {
    goes = true;
    rule = why;
  }
  void LoseCheckpoints(Rule why) {
    loses_checkpoints = true;
    checkpoint_rule = why;
  }
};

// Some jobs in the order of their ends.
class Row {
 public:
  explicit Row(std::vector<Fate*> fates) : fates_(std::move(fates)) {}

  int64_t LeftBytes() const {
    int64_t left = 0;
    for (const Fate* fate : fates_) left += fate->LeftBytes();
    return left;
  }

  // Removes what the order of plan.h says until `excess` bytes are gone.
  // Returns the bytes that are left over.
  int64_t Shed(int64_t excess, Rule why) {
    for (const bool succeeded : {true, false}) {
      for (Fate* fate : fates_) {
        if (excess <= 0) return 0;
        if (!fate->movable || fate->goes || fate->loses_checkpoints ||
            fate->job->succeeded != succeeded ||
            fate->job->checkpoint_bytes <= 0) {
          continue;
        }
        excess -= fate->job->checkpoint_bytes;
        fate->LoseCheckpoints(why);
      }
    }
    for (Fate* fate : fates_) {
      if (excess <= 0) return 0;
      if (!fate->movable || fate->goes || fate->LeftBytes() <= 0) continue;
      excess -= fate->LeftBytes();
      fate->Go(why);
    }
    return std::max<int64_t>(excess, 0);
  }

 private:
  std::vector<Fate*> fates_;
};

void ApplyAges(std::vector<Fate*>& fates, const KeepRules& rules,
               const Terms& terms) {
  if (!terms.ages_count) return;
  for (Fate* fate : fates) {
    if (!fate->movable) continue;
    const absl::Duration age = terms.now - fate->job->ended;
    if (rules.age && age > *rules.age) {
      fate->Go(Rule::kAge);
    } else if (rules.checkpoint_age && age > *rules.checkpoint_age &&
               fate->job->checkpoint_bytes > 0) {
      fate->LoseCheckpoints(Rule::kCheckpointAge);
    }
  }
}

// Bound jobs are kept in addition to those that the rule counts.
void ApplyCount(std::vector<Fate*>& fates, int64_t most) {
  int64_t count = 0;
  for (auto fate = fates.rbegin(); fate != fates.rend(); ++fate) {
    if ((*fate)->goes || (*fate)->job->bound) continue;
    if (++count > most && (*fate)->movable) (*fate)->Go(Rule::kCount);
  }
}

void ApplyUserRules(std::vector<Fate*> fates, const KeepRules& rules,
                    const Terms& terms) {
  if (rules.KeepAll()) return;
  ApplyAges(fates, rules, terms);
  if (rules.jobs) ApplyCount(fates, *rules.jobs);
  if (!rules.bytes) return;
  Row row(std::move(fates));
  row.Shed(row.LeftBytes() - *rules.bytes, Rule::kBytes);
}

std::vector<Fate*> ByEnd(std::vector<Fate>& fates) {
  // Keys next to the pointers: a sort through two pointers takes three times as
  // long.
  std::vector<std::pair<int64_t, Fate*>> keyed;
  keyed.reserve(fates.size());
  for (Fate& fate : fates) {
    keyed.emplace_back(absl::ToUnixMicros(fate.job->ended), &fate);
  }
  // Equal ends are ordered by their fates, so that the order is always the
  // same.
  std::sort(keyed.begin(), keyed.end());
  std::vector<Fate*> sorted;
  sorted.reserve(keyed.size());
  for (const auto& [end, fate] : keyed) sorted.push_back(fate);
  return sorted;
}

void ApplyBudget(std::vector<Fate>& fates, const Terms& terms, Plan& plan) {
  if (terms.budget_bytes <= 0 || !terms.used_bytes) return;
  int64_t freed = 0;
  for (const Fate& fate : fates) freed += fate.job->bytes - fate.LeftBytes();
  const int64_t excess = *terms.used_bytes - freed - terms.budget_bytes;
  if (excess <= 0) return;
  plan.over_bytes = Row(ByEnd(fates)).Shed(excess, Rule::kBudget);
  for (const Fate& fate : fates) {
    if (fate.movable) continue;
    (fate.job->bound ? plan.bound_bytes : plan.fresh_bytes) += fate.job->bytes;
  }
}

void List(std::vector<Fate>& fates, Plan& plan) {
  std::erase_if(fates, [](const Fate& fate) {
    return !fate.goes && !fate.loses_checkpoints;
  });
  const std::vector<Fate*> sorted = ByEnd(fates);
  for (const Part part : {Part::kCheckpoints, Part::kJob}) {
    for (const Fate* fate : sorted) {
      if (fate->goes != (part == Part::kJob)) continue;
      const KeptJob& job = *fate->job;
      plan.removals.push_back(
          fate->goes ? Removal{fate->owner, &job, part, fate->rule, job.bytes}
                     : Removal{fate->owner, &job, part, fate->checkpoint_rule,
                               job.checkpoint_bytes});
      plan.freed_bytes += plan.removals.back().bytes;
    }
  }
}

std::string Days(absl::Duration duration) {
  const double days = absl::FDivDuration(duration, absl::Hours(24));
  return days < 10 ? absl::StrFormat("%.1f", days)
                   : absl::StrFormat("%.0f", days);
}

std::string Number(absl::Duration days) {
  return absl::StrCat(absl::FDivDuration(days, absl::Hours(24)));
}

}  // namespace

Plan MakePlan(const std::vector<KeptOwner>& owners, const RulesOf& rules,
              const Terms& terms) {
  size_t count = 0;
  for (const KeptOwner& owner : owners) count += owner.jobs.size();
  std::vector<Fate> fates;
  fates.reserve(count);
  for (const KeptOwner& owner : owners) {
    std::vector<Fate*> own;
    own.reserve(owner.jobs.size());
    for (const KeptJob& job : owner.jobs) {
      Fate& fate = fates.emplace_back();
      fate.owner = &owner;
      fate.job = &job;
      fate.movable = !job.bound && job.ended >= kFirstEnd &&
                     terms.now - job.ended >= terms.fresh;
      own.push_back(&fate);
    }
    ApplyUserRules(std::move(own), rules(owner.name), terms);
  }
  Plan plan;
  ApplyBudget(fates, terms, plan);
  List(fates, plan);
  return plan;
}

std::string Why(const Removal& removal, const KeepRules& rules,
                const Terms& terms) {
  const std::string ended = absl::StrCat(
      "it ended ", Days(terms.now - removal.job->ended), " days ago");
  switch (removal.rule) {
    case Rule::kAge:
      return absl::StrCat(ended, ", keep-days is ",
                          Number(rules.age.value_or(absl::ZeroDuration())));
    case Rule::kCheckpointAge:
      return absl::StrCat(
          ended, ", keep-checkpoints-days is ",
          Number(rules.checkpoint_age.value_or(absl::ZeroDuration())));
    case Rule::kCount:
      return absl::StrCat("newer jobs of ", removal.owner->name,
                          " have ended, keep-jobs is ", rules.jobs.value_or(0));
    case Rule::kBytes:
      return absl::StrCat("the jobs of ", removal.owner->name,
                          " have more bytes, keep-bytes is ",
                          jobs::BytesInWords(rules.bytes.value_or(0)));
    case Rule::kBudget:
      return absl::StrCat("the state folder has ",
                          jobs::BytesInWords(terms.used_bytes.value_or(0)),
                          ", state-budget-bytes is ",
                          jobs::BytesInWords(terms.budget_bytes));
  }
  return "a rule that this mpsd does not know";
}

std::string ShortOf(const Plan& plan, const Terms& terms) {
  if (plan.over_bytes <= 0) return "";
  return absl::StrCat(
      "the state folder stays ", jobs::BytesInWords(plan.over_bytes),
      " beyond its budget of ", jobs::BytesInWords(terms.budget_bytes),
      " after all permitted removals: pinned jobs and those that jobs in the "
      "queue need have ",
      jobs::BytesInWords(plan.bound_bytes), ", jobs that ended within ",
      absl::FormatDuration(terms.fresh), " ",
      jobs::BytesInWords(plan.fresh_bytes),
      ", the rest are jobs that have not ended, uploads, models, the database "
      "and logs; unpin jobs (`mpsctl unpin`) or raise --state-budget-bytes");
}

}  // namespace mpsd::retention
