// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/collector.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "server/jobs/user_limits.h"

namespace mpsd::jobs {

void MeasuredFolders::Begin() {
  absl::MutexLock lock(&mutex_);
  measuring_ = true;
  jobs_removed_.clear();
  checkpoints_removed_.clear();
  others_removed_ = 0;
}

void MeasuredFolders::Set(int64_t total_bytes,
                          const std::vector<FolderBytes>& folders) {
  absl::MutexLock lock(&mutex_);
  total_ = total_bytes;
  std::map<std::string, FolderBytes> measured;
  for (const FolderBytes& folder : folders) measured[folder.id] = folder;
  // The walk may have met a folder under its name during removal: its earlier
  // figures count, too.
  for (const auto& [id, bytes] : jobs_removed_) {
    const auto found = measured.find(id);
    const int64_t seen = found == measured.end() ? 0 : found->second.bytes;
    Shrink(std::max(seen, bytes));
    if (found != measured.end()) measured.erase(found);
  }
  for (const auto& [id, bytes] : checkpoints_removed_) {
    const auto found = measured.find(id);
    if (found == measured.end()) continue;
    Shrink(std::max(found->second.checkpoint_bytes, bytes));
    found->second.bytes -= found->second.checkpoint_bytes;
    found->second.checkpoint_bytes = 0;
  }
  Shrink(others_removed_);
  for (const auto& [id, folder] : measured) {
    const auto known = folders_.find(id);
    if (known == folders_.end() || known->second != folder) changed_.insert(id);
  }
  folders_ = std::move(measured);
  measuring_ = false;
}

void MeasuredFolders::JobRemoved(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  const auto found = folders_.find(id);
  const int64_t bytes = found == folders_.end() ? 0 : found->second.bytes;
  if (measuring_) jobs_removed_[id] = bytes;
  Shrink(bytes);
  if (found != folders_.end()) folders_.erase(found);
}

void MeasuredFolders::CheckpointsRemoved(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  const auto found = folders_.find(id);
  if (found == folders_.end()) {
    if (measuring_) checkpoints_removed_[id] = 0;
    return;
  }
  FolderBytes& folder = found->second;
  if (measuring_) checkpoints_removed_[id] = folder.checkpoint_bytes;
  Shrink(folder.checkpoint_bytes);
  folder.bytes -= folder.checkpoint_bytes;
  folder.checkpoint_bytes = 0;
}

void MeasuredFolders::OthersRemoved(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (measuring_) others_removed_ += bytes;
  Shrink(bytes);
}

int64_t MeasuredFolders::BytesOf(const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = folders_.find(id);
  return found == folders_.end() ? 0 : found->second.bytes;
}

std::optional<int64_t> MeasuredFolders::TotalBytes() const {
  absl::MutexLock lock(&mutex_);
  return total_;
}

std::vector<FolderBytes> MeasuredFolders::TakeChanged(size_t limit) {
  absl::MutexLock lock(&mutex_);
  std::vector<FolderBytes> taken;
  while (taken.size() < limit && !changed_.empty()) {
    const auto id = changed_.begin();
    const auto folder = folders_.find(*id);
    if (folder != folders_.end()) taken.push_back(folder->second);
    changed_.erase(id);
  }
  return taken;
}

void MeasuredFolders::Return(const std::vector<FolderBytes>& folders) {
  absl::MutexLock lock(&mutex_);
  for (const FolderBytes& folder : folders) changed_.insert(folder.id);
}

void MeasuredFolders::Shrink(int64_t bytes) {
  if (total_) total_ = std::max<int64_t>(0, *total_ - bytes);
}

}  // namespace mpsd::jobs

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

  // Removes what the order of collector.h says until `excess` bytes are gone.
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
      "and logs; unpin jobs (`mpsctl set ID --unpin`) or raise "
      "--state-budget-bytes");
}

bool ClockTrust::Look(absl::Time wall, absl::Duration monotonic) {
  if (!wall_) {
    wall_ = wall;
    monotonic_ = monotonic;
    return false;
  }
  const absl::Duration differ =
      absl::AbsDuration((wall - *wall_) - (monotonic - monotonic_));
  if (differ > kStep) {
    wall_ = wall;
    monotonic_ = monotonic;
    return false;
  }
  return monotonic - monotonic_ >= kSettle;
}

}  // namespace mpsd::retention

namespace mpsd::jobs {
namespace {

using retention::Part;
using retention::Removal;
using retention::Terms;

// Folders whose bytes are stored at a time, and names that are read at a time.
constexpr size_t kAtOnce = 500;

Collected PartKind(Part part) {
  return part == Part::kJob ? Collected::kJob : Collected::kCheckpoints;
}

// The ids and names of some jobs, by number.
using Names = std::map<int64_t, NamedJob>;

absl::StatusOr<Names> NamesOf(KeptJobs& kept,
                              const std::vector<Removal>& removals,
                              size_t begin, size_t count) {
  std::vector<int64_t> numbers;
  const size_t end = std::min(begin + count, removals.size());
  for (size_t i = begin; i < end; ++i) {
    numbers.push_back(removals[i].job->number);
  }
  ASSIGN_OR_RETURN(std::vector<NamedJob> named, kept.Names(numbers));
  Names names;
  for (NamedJob& job : named) names[job.number] = std::move(job);
  return names;
}

void Fail(const std::string& what, CollectionResult& result) {
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
  ASSIGN_OR_RETURN(std::vector<KeptOwner> owners, dependencies_.kept.Ended());
  Made made{std::move(owners), {}, TermsOf(ages_count)};
  made.plan = retention::MakePlan(made.owners, options_.rules, made.terms);
  return made;
}

void Collector::CountFresh(const Made& made, CollectionPlan& plan) const {
  Terms terms = made.terms;
  terms.fresh = absl::ZeroDuration();
  const retention::Plan all =
      retention::MakePlan(made.owners, options_.rules, terms);
  for (const Removal& removal : all.removals) {
    const absl::Time until = removal.job->ended + made.terms.fresh;
    if (until <= terms.now) continue;
    ++plan.fresh;
    plan.fresh_until = std::min(plan.fresh_until, until);
  }
}

absl::StatusOr<CollectionPlan> Collector::Plan() {
  ASSIGN_OR_RETURN(UnusedBlobs::Found blobs,
                   dependencies_.blobs.Find(limits::kCollectionItems));
  ASSIGN_OR_RETURN(Made made, Make(/*ages_count=*/true));
  CollectionPlan plan;
  plan.used_bytes = made.terms.used_bytes.value_or(0);
  plan.budget_bytes = made.terms.budget_bytes;
  plan.short_of = retention::ShortOf(made.plan, made.terms);
  CountFresh(made, plan);
  plan.freed_bytes = made.plan.freed_bytes + blobs.more_bytes;
  for (UnusedBlob& blob : blobs.blobs) {
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
    NamedJob& job = names[removal.job->number];
    if (job.id.empty()) continue;  // gone meanwhile
    const KeepRules rules = options_.rules(removal.owner->name);
    plan.items.push_back({PartKind(removal.part), job.id, removal.owner->name,
                          job.name, removal.bytes,
                          retention::Why(removal, rules, made.terms)});
  }
  plan.more = blobs.more + static_cast<int64_t>(removals.size()) -
              static_cast<int64_t>(shown);
  return plan;
}

absl::StatusOr<CollectionResult> Collector::Collect(const Wanted& wanted) {
  absl::MutexLock lock(&collecting_);
  ASSIGN_OR_RETURN(UnusedBlobs::Removed blobs, dependencies_.blobs.Remove());
  CountBlobs(blobs);
  ASSIGN_OR_RETURN(Made made, Make(/*ages_count=*/true));
  absl::StatusOr<CollectionResult> result = CollectJobs(made, wanted);
  if (!result.ok()) return result;
  result->removed += blobs.blobs + blobs.parts;
  result->freed_bytes += blobs.bytes + blobs.part_bytes;
  return result;
}

absl::StatusOr<int64_t> Collector::Remove(const Removal& removal,
                                          const std::string& id) {
  const absl::Time ended = removal.job->ended;
  return removal.part == Part::kJob
             ? dependencies_.remove_job(id, ended)
             : dependencies_.remove_checkpoints(id, ended);
}

absl::StatusOr<CollectionResult> Collector::CollectJobs(const Made& made,
                                                        const Wanted& wanted) {
  CollectionResult result;
  const std::vector<Removal>& removals = made.plan.removals;
  for (size_t begin = 0; begin < removals.size(); begin += kAtOnce) {
    ASSIGN_OR_RETURN(Names names,
                     NamesOf(dependencies_.kept, removals, begin, kAtOnce));
    const size_t end = std::min(begin + kAtOnce, removals.size());
    for (size_t i = begin; i < end; ++i) {
      if (!StillWanted(wanted).ok()) return result;
      const Removal& removal = removals[i];
      const std::string& id = names[removal.job->number].id;
      if (id.empty()) continue;
      const absl::StatusOr<int64_t> freed = Remove(removal, id);
      if (freed.ok()) {
        ++result.removed;
        result.freed_bytes += *freed;
        options_.count(PartKind(removal.part), 1, *freed);
      } else if (!absl::IsNotFound(freed.status())) {
        Fail(absl::StrCat("job ", id, ": ", freed.status().message()), result);
      }
    }
  }
  return result;
}

StateBytes Collector::Bytes() const {
  return {dependencies_.folders.TotalBytes().value_or(0), budget_};
}

void Collector::Tend(const Wanted& wanted) {
  StoreMeasured();
  const bool ages_count = clock_trust_.Look(dependencies_.clock.Now(),
                                            dependencies_.clock.Monotonic());
  if (budget_ <= 0 && options_.keeps_all()) return;
  absl::MutexLock lock(&collecting_);
  const absl::StatusOr<Made> made = Make(ages_count);
  const absl::StatusOr<CollectionResult> result =
      made.ok() ? CollectJobs(*made, wanted) : made.status();
  if (!result.ok()) {
    LogFailures({std::string(result.status().message())});
    return;
  }
  if (result->removed > 0) {
    options_.log(absl::StrCat(
        "retention removed ", result->removed,
        " jobs or checkpoints: ", BytesInWords(result->freed_bytes)));
  }
  LogFailures(result->failed);
}

void Collector::TendBlobs() {
  const absl::StatusOr<UnusedBlobs::Removed> removed =
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

void Collector::CountBlobs(const UnusedBlobs::Removed& removed) {
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
    const std::vector<FolderBytes> changed =
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

}  // namespace mpsd::jobs
