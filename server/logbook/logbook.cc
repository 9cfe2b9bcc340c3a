// SPDX-License-Identifier: Apache-2.0
#include "server/logbook/logbook.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "server/jobs/job.h"
#include "server/logbook/make_record.h"

namespace mpsd::logbook {
namespace {

// The most ends that are looked at before the thread asks whether to stop.
constexpr int kMostEnds = 50;
// What the machine is now tells nothing of a run that ended longer ago.
constexpr absl::Duration kFresh = absl::Minutes(10);

// Whether the next end would meet the same fault.
bool ConcernsAll(const absl::Status& fault) {
  return absl::IsResourceExhausted(fault) || absl::IsUnavailable(fault) ||
         absl::IsPermissionDenied(fault);
}

}  // namespace

absl::Time Logbook::Tend() {
  if (absl::Status s = StoreAttempts(/*now=*/false); !s.ok()) LogFault(s);
  const bool more = WriteSome();
  return dependencies_.clock.Now() +
         (more ? absl::ZeroDuration() : options_.interval);
}

absl::Status Logbook::StoreAttempts(bool now) {
  std::vector<AttemptRow> rows = dependencies_.watch.TakeChanged(now);
  if (rows.empty()) return absl::OkStatus();
  absl::Status stored = dependencies_.store.PutAttempts(rows);
  if (!stored.ok()) dependencies_.watch.Return(std::move(rows));
  return stored;
}

bool Logbook::WriteSome() {
  const absl::StatusOr<std::vector<UnwrittenRecord>> ends =
      dependencies_.store.Unwritten(last_, kMostEnds);
  if (!ends.ok()) {
    LogFault(ends.status());
    return false;
  }
  bool wrote = false;
  for (const UnwrittenRecord& end : *ends) {
    absl::Status written;
    {
      absl::MutexLock lock(&writing_);
      written = Write(end);
    }
    if (!written.ok()) LogFault(written);
    if (ConcernsAll(written)) break;
    wrote = true;
    // A record that cannot be written holds up no other; the next start of
    // mpsd tries it again.
    last_ = end.number;
  }
  if (wrote) Prune();
  return wrote && ends->size() == kMostEnds;
}

absl::Status Logbook::Write(const UnwrittenRecord& unwritten) {
  // The worker of this end has exited: its sum is among those taken here.
  absl::Status status = StoreAttempts(/*now=*/false);
  if (!status.ok()) return status;
  const std::string& id = unwritten.job_id;
  absl::StatusOr<jobs::Job> job = dependencies_.jobs.Get(id);
  // Queued again: it will end again.
  const bool goes_on = job.ok() && !jobs::IsFinal(job->state);
  if (absl::IsNotFound(job.status()) || goes_on) {
    return dependencies_.store.Forget(unwritten.number);
  }
  RecordSources sources;
  if (job.ok()) {
    sources.job = *std::move(job);
  } else if (absl::IsDataLoss(job.status())) {
    sources.job.id = id;
    sources.job.owner = dependencies_.jobs.OwnerOf(id).value_or(std::string());
    sources.job.state = jobs::State::kFailed;
    sources.job.create_time = dependencies_.clock.Now();
    sources.job.message = std::string(job.status().message());
  } else {
    return job.status();
  }
  absl::StatusOr<std::vector<std::string>> attempts =
      dependencies_.store.Attempts(id);
  if (!attempts.ok()) return attempts.status();
  sources.attempts = *std::move(attempts);
  sources.folder = dependencies_.files.Folder(id);
  sources.output_dir = dependencies_.files.OutputDir(id);
  const absl::Time ended = sources.job.end_time.value_or(absl::InfinitePast());
  if (dependencies_.clock.Now() - ended < kFresh) {
    sources.mounts = options_.mounts();
  }
  sources.daemon_version = options_.version;
  sources.daemon_commit = options_.commit;
  return dependencies_.store.Put(ToRow(MakeRecord(sources)), unwritten.number);
}

absl::Status Logbook::WriteRecord(const std::string& job_id) {
  absl::MutexLock lock(&writing_);
  const absl::StatusOr<std::optional<UnwrittenRecord>> unwritten =
      dependencies_.store.UnwrittenOf(job_id);
  if (!unwritten.ok()) return unwritten.status();
  return unwritten->has_value() ? Write(**unwritten) : absl::OkStatus();
}

absl::Status Logbook::Add(const std::string& job_id, const std::string& author,
                          const std::string& text) {
  return AddNote(job_id, author, text, /*rejected=*/false);
}

absl::Status Logbook::AddNote(const std::string& id, const std::string& author,
                              const std::string& text, bool rejected) {
  if (absl::Status s = WriteRecord(id); !s.ok()) return s;
  return dependencies_.store.AddNote(
      id, {dependencies_.clock.Now(), author, text, rejected});
}

absl::StatusOr<std::string> Logbook::AddEntry(const std::string& author,
                                              const std::string& text,
                                              bool rejected) {
  const absl::Time now = dependencies_.clock.Now();
  std::string id = ids_.Next();
  NewRecord entry = ToRow(MakeEntry(id, author, now));
  entry.note = Note{now, author, text, rejected};
  if (absl::Status s = dependencies_.store.Put(entry, 0); !s.ok()) return s;
  Prune();
  return id;
}

void Logbook::Prune() {
  const absl::StatusOr<int64_t> removed =
      dependencies_.store.Prune(options_.most_records);
  if (!removed.ok()) {
    options_.log(absl::StrCat("logbook: ", removed.status().message()));
  } else if (*removed > 0) {
    options_.log(absl::StrCat("logbook: removed ", *removed,
                              " records beyond the ", options_.most_records,
                              " that are kept"));
  }
}

void Logbook::LogFault(const absl::Status& fault) {
  std::string line = absl::StrCat("logbook: ", fault.message());
  if (line == logged_) return;
  options_.log(line);
  logged_ = std::move(line);
}

}  // namespace mpsd::logbook
