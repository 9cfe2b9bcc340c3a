// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/job_records.h"

#include "absl/strings/str_cat.h"
#include "core/base/printable.h"
#include "core/base/status_macros.h"
#include "server/rpc/make_record.h"

namespace mpsd::records {
namespace {

// Of a reader, for the writes of others.
constexpr absl::Duration kPatience = absl::Milliseconds(200);

}  // namespace

absl::Time JobRecords::Tend() {
  absl::MutexLock lock(&storing_);
  if (absl::Status stored =
          StoreAttempts(/*now=*/false, absl::InfiniteDuration());
      !stored.ok()) {
    std::string line = absl::StrCat("records: ", stored.message());
    if (line != logged_) options_.log(line);
    logged_ = std::move(line);
  }
  return dependencies_.clock.Now() + options_.interval;
}

absl::Status JobRecords::StoreAttempts(bool now, absl::Duration patience) {
  std::vector<SeenAttempt> seen = dependencies_.watch.TakeChanged(now);
  if (seen.empty()) return absl::OkStatus();
  std::vector<jobs::AttemptRow> rows;
  for (SeenAttempt& attempt : seen) {
    if (attempt.job_id != mounted_id_ || attempt.start != mounted_start_) {
      const absl::StatusOr<jobs::Job> job =
          dependencies_.jobs.Get(attempt.job_id);
      mounted_.clear();
      if (job.ok()) {
        mounted_ = FileSystemsOf(*job, dependencies_.files.Folder(job->id),
                                 options_.mounts());
      }
      mounted_id_ = attempt.job_id;
      mounted_start_ = attempt.start;
    }
    v1::RunAttempt sum = attempt.sum;
    sum.mutable_file_systems()->insert(mounted_.begin(), mounted_.end());
    rows.push_back({attempt.job_id, attempt.start, sum.SerializeAsString()});
  }
  absl::Status stored = dependencies_.past.PutAttempts(rows, patience);
  if (!stored.ok()) dependencies_.watch.Return(std::move(seen));
  return stored;
}

absl::StatusOr<v1::JobRecord> JobRecords::Make(const jobs::Job& job) {
  RecordSources sources;
  sources.job = job;
  ASSIGN_OR_RETURN(std::vector<std::string> attempts,
                   dependencies_.past.Attempts(job.id));
  sources.attempts = std::move(attempts);
  sources.folder = dependencies_.files.Folder(job.id);
  sources.output_dir = dependencies_.files.OutputDir(job.id);
  return MakeRecord(sources);
}

absl::StatusOr<v1::JobRecord> JobRecords::Get(const std::string& id) {
  // What cannot be stored now, as on a hanging disk, is missing in the
  // response, which does not wait for it.
  if (storing_.TryLock()) {
    StoreAttempts(/*now=*/true, kPatience).IgnoreError();
    storing_.Unlock();
  }
  v1::JobRecord record;
  const absl::StatusOr<jobs::Job> job = dependencies_.jobs.Get(id);
  if (job.ok()) {
    absl::StatusOr<v1::JobRecord> made = Make(*job);
    if (!made.ok()) return made;
    record = *std::move(made);
  } else if (absl::IsNotFound(job.status())) {
    ASSIGN_OR_RETURN(const std::string body, dependencies_.past.BodyOf(id));
    if (!record.ParseFromString(body)) {
      return absl::DataLossError(
          absl::StrCat("the record of job ", id, " cannot be read"));
    }
    record.set_id(id);
  } else {
    return job.status();
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> tags,
                   dependencies_.past.TagsOf(id));
  for (const std::string& tag : tags) record.add_tags(base::Printable(tag));
  ASSIGN_OR_RETURN(const std::vector<jobs::JobNote> notes,
                   dependencies_.past.NotesOf(id));
  for (const jobs::JobNote& note : notes) {
    v1::JobNote& out = *record.add_notes();
    out.mutable_time()->set_seconds(absl::ToUnixSeconds(note.time));
    out.set_author(base::Printable(note.author));
    out.set_text(base::Printable(note.text, base::Breaks::kKeep));
  }
  return record;
}

absl::Status JobRecords::Keep(const std::string& id) {
  // The worker of the last attempt has exited: its sum is among those stored
  // here.
  {
    absl::MutexLock lock(&storing_);
    RETURN_IF_ERROR(StoreAttempts(/*now=*/false, absl::InfiniteDuration()));
  }
  absl::StatusOr<jobs::Job> job = dependencies_.jobs.Get(id);
  if (absl::IsDataLoss(job.status())) {
    jobs::Job unreadable;
    unreadable.id = id;
    unreadable.owner = dependencies_.jobs.OwnerOf(id).value_or(std::string());
    unreadable.state = jobs::State::kFailed;
    unreadable.create_time = dependencies_.clock.Now();
    unreadable.message = std::string(job.status().message());
    job = std::move(unreadable);
  }
  if (!job.ok()) return job.status();
  ASSIGN_OR_RETURN(const v1::JobRecord record, Make(*job));
  return dependencies_.past.Put(*job, TextsOf(record),
                                record.SerializeAsString());
}

}  // namespace mpsd::records
