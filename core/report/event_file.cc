// SPDX-License-Identifier: Apache-2.0
#include "core/report/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

namespace mpsd::tensorboard {
namespace fs = std::filesystem;
namespace {

// TensorBoard reads every file whose name contains "tfevents".
constexpr char kPrefix[] = "events.out.tfevents.";
constexpr char kSuffix[] = ".mpsd";

// The number in the name of the newest event file; 0 for none.
absl::StatusOr<int64_t> NewestIn(const fs::path& folder) {
  int64_t newest = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    absl::string_view text = name;
    int64_t number = 0;
    if (absl::ConsumePrefix(&text, kPrefix) &&
        absl::ConsumeSuffix(&text, kSuffix) &&
        absl::SimpleAtoi(text, &number)) {
      newest = std::max(newest, number);
    }
  }
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  return newest;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(
    const fs::path& folder, int64_t next_step, const base::Clock& clock) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  ASSIGN_OR_RETURN(const int64_t newest, NewestIn(folder));
  const absl::Time now = clock.Now();
  // The time as in TensorBoard's own files, but later than that of any older
  // file, even if the clock was set back.
  const int64_t number = std::max(absl::ToUnixSeconds(now), newest + 1);
  fs::path path =
      folder / absl::StrFormat("%s%010d%s", kPrefix, number, kSuffix);
  std::FILE* file = std::fopen(path.c_str(), "wxe");
  if (file == nullptr) return base::ErrnoStatus(errno, path.string());
  std::unique_ptr<EventFile> events(
      new EventFile(std::move(path), file, clock));
  events->Append(VersionEvent(now));
  if (newest > 0) events->Append(RestartEvent(now, next_step));
  return events;
}

void EventFile::Add(int64_t step, const Scalars& scalars) {
  Append(ScalarsEvent(clock_.Now(), step, scalars));
}

void EventFile::Append(std::string_view event) {
  if (waiting_.size() < kMostWaiting) waiting_ += RecordOf(event);
  while (!waiting_.empty()) {
    const ssize_t written =
        write(fileno(file_.get()), waiting_.data(), waiting_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    waiting_.erase(0, static_cast<size_t>(written));
  }
}

}  // namespace mpsd::tensorboard
