// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/retention.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "server/jobs/user_limits.h"

namespace mpsd::retention {
namespace {

using jobs::Collected;

// Folders whose bytes are stored at a time, and names that are read at a time.
constexpr size_t kAtOnce = 500;

Collected KindOf(Part part) {
  return part == Part::kJob ? Collected::kJob : Collected::kCheckpoints;
}

// The ids and names of some jobs, by number.
using Names = std::map<int64_t, jobs::NamedJob>;

absl::StatusOr<Names> NamesOf(jobs::KeptJobs& kept,
                              const std::vector<Removal>& removals,
                              size_t begin, size_t count) {
  std::vector<int64_t> numbers;
  const size_t end = std::min(begin + count, removals.size());
  for (size_t i = begin; i < end; ++i) {
    numbers.push_back(removals[i].job->number);
  }
  ASSIGN_OR_RETURN(std::vector<jobs::NamedJob> named, kept.Names(numbers));
  Names names;
  for (jobs::NamedJob& job : named) names[job.number] = std::move(job);
  return names;
}

void Fail(const std::string& what, jobs::CollectionResult& result) {
  if (result.failed.size() < limits::kCollectionItems) {
    result.failed.push_back(what);
  }
}

}  // namespace

Terms Collector::TermsOf(bool ages_count) const {
  Terms terms;
  terms.now = dependencies_.clock.Now();
  terms.fresh = options_.fresh;
  terms.ages_count = ages_count;
  terms.budget_bytes = budget_;
  terms.used_bytes = dependencies_.folders.TotalBytes();
  return terms;
}

absl::StatusOr<Collector::Made> Collector::Make(bool ages_count) {
  ASSIGN_OR_RETURN(std::vector<jobs::KeptOwner> owners,
                   dependencies_.kept.Ended());
  Made made{std::move(owners), {}, TermsOf(ages_count)};
  made.plan = MakePlan(made.owners, options_.rules, made.terms);
  return made;
}

absl::StatusOr<jobs::CollectionPlan> Collector::Plan() {
  ASSIGN_OR_RETURN(jobs::UnusedBlobs::Found blobs,
                   dependencies_.blobs.Find(limits::kCollectionItems));
  ASSIGN_OR_RETURN(Made made, Make(/*ages_count=*/true));
  jobs::CollectionPlan plan;
  plan.used_bytes = made.terms.used_bytes.value_or(0);
  plan.budget_bytes = made.terms.budget_bytes;
  plan.short_of = ShortOf(made.plan, made.terms);
  plan.freed_bytes = made.plan.freed_bytes + blobs.more_bytes;
  for (jobs::UnusedBlob& blob : blobs.blobs) {
    plan.freed_bytes += blob.size_bytes;
    const bool broke_off = !blob.sender.empty();
    plan.items.push_back(
        {broke_off ? Collected::kPartialUpload : Collected::kBlob,
         std::move(blob.sha256), std::move(blob.sender), "", blob.size_bytes,
         broke_off ? "an interrupted upload that was not resumed"
                   : "an upload that no job, model or file needs"});
  }
  const std::vector<Removal>& removals = made.plan.removals;
  const size_t room = limits::kCollectionItems - plan.items.size();
  const size_t shown = std::min(room, removals.size());
  ASSIGN_OR_RETURN(Names names,
                   NamesOf(dependencies_.kept, removals, 0, shown));
  for (size_t i = 0; i < shown; ++i) {
    const Removal& removal = removals[i];
    jobs::NamedJob& job = names[removal.job->number];
    if (job.id.empty()) continue;  // gone meanwhile
    const jobs::KeepRules rules = options_.rules(removal.owner->name);
    plan.items.push_back({KindOf(removal.part), job.id, removal.owner->name,
                          job.name, removal.bytes,
                          Why(removal, rules, made.terms)});
  }
  plan.more = blobs.more + static_cast<int64_t>(removals.size()) -
              static_cast<int64_t>(shown);
  return plan;
}

absl::StatusOr<jobs::CollectionResult> Collector::Collect(
    const jobs::Wanted& wanted) {
  absl::MutexLock lock(&collecting_);
  ASSIGN_OR_RETURN(jobs::UnusedBlobs::Removed blobs,
                   dependencies_.blobs.Remove());
  CountBlobs(blobs);
  ASSIGN_OR_RETURN(Made made, Make(/*ages_count=*/true));
  absl::StatusOr<jobs::CollectionResult> result = CollectJobs(made, wanted);
  if (!result.ok()) return result;
  result->removed += blobs.blobs + blobs.parts;
  result->freed_bytes += blobs.bytes + blobs.part_bytes;
  return result;
}

absl::StatusOr<int64_t> Collector::Remove(const Removal& removal,
                                          const std::string& id) {
  const absl::Time ended = removal.job->ended;
  return removal.part == Part::kJob
             ? dependencies_.remover.RemoveJob(id, ended)
             : dependencies_.remover.RemoveCheckpoints(id, ended);
}

absl::StatusOr<jobs::CollectionResult> Collector::CollectJobs(
    const Made& made, const jobs::Wanted& wanted) {
  jobs::CollectionResult result;
  const std::vector<Removal>& removals = made.plan.removals;
  for (size_t begin = 0; begin < removals.size(); begin += kAtOnce) {
    ASSIGN_OR_RETURN(Names names,
                     NamesOf(dependencies_.kept, removals, begin, kAtOnce));
    const size_t end = std::min(begin + kAtOnce, removals.size());
    for (size_t i = begin; i < end; ++i) {
      if (!jobs::StillWanted(wanted).ok()) return result;
      const Removal& removal = removals[i];
      const std::string& id = names[removal.job->number].id;
      if (id.empty()) continue;
      const absl::StatusOr<int64_t> freed = Remove(removal, id);
      if (freed.ok()) {
        ++result.removed;
        result.freed_bytes += *freed;
        options_.count(KindOf(removal.part), 1, *freed);
      } else if (!absl::IsNotFound(freed.status())) {
        Fail(absl::StrCat("job ", id, ": ", freed.status().message()), result);
      }
    }
  }
  return result;
}

jobs::StateBytes Collector::Bytes() const {
  return {dependencies_.folders.TotalBytes().value_or(0), budget_};
}

void Collector::Tend(const jobs::Wanted& wanted) {
  StoreMeasured();
  const bool ages_count = clock_trust_.Look(dependencies_.clock.Now(),
                                            dependencies_.clock.Monotonic());
  if (budget_ <= 0 && options_.keeps_all()) return;
  absl::MutexLock lock(&collecting_);
  const absl::StatusOr<Made> made = Make(ages_count);
  const absl::StatusOr<jobs::CollectionResult> result =
      made.ok() ? CollectJobs(*made, wanted) : made.status();
  if (!result.ok()) {
    LogFailures({std::string(result.status().message())});
    return;
  }
  if (result->removed > 0) {
    options_.log(absl::StrCat(
        "retention removed ", result->removed,
        " jobs or checkpoints: ", jobs::BytesInWords(result->freed_bytes)));
  }
  LogFailures(result->failed);
}

void Collector::TendBlobs() {
  const absl::StatusOr<jobs::UnusedBlobs::Removed> removed =
      dependencies_.blobs.Remove();
  if (!removed.ok()) {
    options_.log(
        absl::StrCat("collecting blobs: ", removed.status().message()));
    return;
  }
  CountBlobs(*removed);
  const int64_t bytes = removed->bytes + removed->part_bytes;
  if (removed->blobs + removed->parts == 0) return;
  options_.log(
      absl::StrCat("removed uploads that no job uses: ", bytes, " bytes"));
}

void Collector::CountBlobs(const jobs::UnusedBlobs::Removed& removed) {
  if (removed.blobs > 0) {
    options_.count(Collected::kBlob, removed.blobs, removed.bytes);
  }
  if (removed.parts > 0) {
    options_.count(Collected::kPartialUpload, removed.parts,
                   removed.part_bytes);
  }
  if (removed.blobs + removed.parts > 0) {
    dependencies_.folders.OthersRemoved(removed.bytes + removed.part_bytes);
  }
}

void Collector::StoreMeasured() {
  while (true) {
    const std::vector<jobs::FolderBytes> changed =
        dependencies_.folders.TakeChanged(kAtOnce);
    if (changed.empty()) return;
    const absl::Status stored = dependencies_.kept.SetBytes(changed);
    if (stored.ok()) continue;
    dependencies_.folders.Return(changed);
    return LogFailures({std::string(stored.message())});
  }
}

// A persistent failure is one line.
void Collector::LogFailures(const std::vector<std::string>& failed) {
  std::set<std::string> now(failed.begin(), failed.end());
  for (const std::string& failure : now) {
    if (!logged_.contains(failure)) {
      options_.log(absl::StrCat("retention: ", failure));
    }
  }
  logged_ = std::move(now);
}

}  // namespace mpsd::retention
