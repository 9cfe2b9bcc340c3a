// SPDX-License-Identifier: Apache-2.0
#include "server/http/run_data.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "client/run/kept_events.h"
#include "core/base/status_macros.h"
#include "server/rpc/downloads.h"
#include "server/rpc/job_calls.h"
#include "server/rpc/job_streams.h"

namespace mpsd::web {
namespace {

// As many steps as a report of one job has at most.
constexpr size_t kMostSteps = 8000;
constexpr int64_t kLogBytes = 64 << 10;

// Calls `take` with each message that the source has now, until it returns
// false.
template <typename Message, typename Take>
absl::Status Drain(rpc::Source<Message>& source, Take take) {
  while (true) {
    Message message;
    ASSIGN_OR_RETURN(const rpc::Pull pull, source.Next(message));
    if (pull == rpc::Pull::kWait || pull == rpc::Pull::kEnd) break;
    if (pull == rpc::Pull::kMessage && !take(message)) break;
  }
  return absl::OkStatus();
}

absl::Status ReadEvents(jobs::JobReader& reader, const std::string& id,
                        run_page::RunData& run) {
  v1::WatchRequest request;
  request.set_id(id);
  client::KeptEvents events(kMostSteps);
  const auto source = rpc::MakeWatchSource(reader, request, [] {});
  const absl::Status status = Drain(*source, [&](v1::JobEvent& event) {
    events.Add(event);
    return true;
  });
  events.Finish(&run);
  return status;
}

absl::Status ReadLog(jobs::JobReader& reader, const std::string& id,
                     run_page::RunData& run) {
  std::error_code missing;
  const auto bytes = std::filesystem::file_size(reader.LogPath(id), missing);
  if (missing) return absl::OkStatus();  // no attempt has begun
  v1::LogsRequest request;
  request.set_id(id);
  int64_t before =
      std::max<int64_t>(0, static_cast<int64_t>(bytes) - kLogBytes);
  request.set_offset_bytes(before);
  const auto source =
      rpc::MakeLogSource(reader, request, absl::InfiniteDuration(), [] {});
  const absl::Status status = Drain(*source, [&](v1::LogChunk& chunk) {
    run.log += chunk.data();
    return run.log.size() < static_cast<size_t>(kLogBytes);
  });
  if (before > 0) {
    const size_t line = run.log.find('\n') + 1;  // npos + 1 is 0
    run.log.erase(0, line);
    before += static_cast<int64_t>(line);
  }
  run.left_out.log_bytes = before;
  return status;
}

void ReadFiles(jobs::JobReader& reader, const v1::DownloadRequest& request,
               run_page::RunData& run) {
  const auto source = rpc::MakeDownloadSource(reader, request);
  client::FilePicker picker(run.files);
  const absl::Status status = Drain(
      *source, [&](v1::DownloadResponse& part) { return picker.Accept(part); });
  picker.Cut();
  if (!status.ok()) picker.Drop();
}

}  // namespace

absl::StatusOr<run_page::RunData> ReadRun(jobs::JobReader& reader,
                                          const access::Rights& rights,
                                          const std::string& id) {
  v1::GetJobRequest get;
  get.set_id(id);
  v1::Job job;
  absl::Status status = rpc::GetJob(reader, rights, get, job);
  if (status.ok()) {
    constexpr access::Method kWatch("JobService.Watch");
    status = access::CheckOwner(kWatch.rule(), rights, id, job.owner());
  }
  if (!status.ok()) return status;
  run_page::RunData run;
  run.job = client::ProtoJson(job);
  status = ReadEvents(reader, id, run);
  if (status.ok()) status = ReadLog(reader, id, run);
  if (!status.ok()) return status;
  v1::DownloadRequest download;
  download.set_job_id(id);
  download.set_manifest(true);
  ReadFiles(reader, download, run);
  download.set_predictions(true);
  ReadFiles(reader, download, run);
  return run;
}

}  // namespace mpsd::web
