// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/job_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <utility>

#include "core/base/descriptor.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "grpcpp/alarm.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"

namespace mpsd::rpc {
namespace {

class WatchSource : public Source<v1::JobEvent> {
 public:
  WatchSource(jobs::JobReader& reader, const v1::WatchRequest& request,
              Wake wake)
      : reader_(reader),
        id_(request.id()),
        after_(request.after_sequence()),
        // Subscribes before the first read of the store, so that an event
        // between the two wakes the stream. gRPC's thread runs this
        // constructor, so the first read waits for Next.
        subscription_(reader.Subscribe(id_, std::move(wake))) {}
  ~WatchSource() override { reader_.Unsubscribe(subscription_); }

  absl::StatusOr<Pull> Next(v1::JobEvent& message) override {
    if (page_.empty()) {
      ASSIGN_OR_RETURN(const Pull filled, Fill());
      if (filled != Pull::kMessage) return filled;
    }
    const jobs::Event event = std::move(page_.front());
    page_.pop_front();
    after_ = event.sequence;
    ToProto(event, message);
    return Pull::kMessage;
  }

 private:
  // Returns kMessage once page_ has events.
  absl::StatusOr<Pull> Fill() {
    RETURN_IF_ERROR(ReadPage());
    if (!page_.empty()) return Pull::kMessage;
    ASSIGN_OR_RETURN(jobs::Job job, reader_.Get(id_));
    if (!jobs::IsFinal(job.state)) return Pull::kWait;
    // Reads again: the job's last events may have come after the first read.
    RETURN_IF_ERROR(ReadPage());
    return page_.empty() ? Pull::kEnd : Pull::kMessage;
  }

  absl::Status ReadPage() {
    RETURN_IF_ERROR(CheckId("id", id_));
    RETURN_IF_ERROR(CheckNotNegative("after_sequence", after_));
    ASSIGN_OR_RETURN(std::vector<jobs::Event> events,
                     reader_.Events(id_, after_));
    page_.assign(std::make_move_iterator(events.begin()),
                 std::make_move_iterator(events.end()));
    return absl::OkStatus();
  }

  jobs::JobReader& reader_;
  const std::string id_;
  int64_t after_;
  const int64_t subscription_;
  std::deque<jobs::Event> page_;
};

}  // namespace

std::unique_ptr<Source<v1::JobEvent>> MakeWatchSource(
    jobs::JobReader& reader, const v1::WatchRequest& request, Wake wake) {
  return std::make_unique<WatchSource>(reader, request, std::move(wake));
}

namespace {

constexpr size_t kChunkBytes = 64 << 10;

// Reads at most `max` bytes of the file from `offset` on; empty at the end of
// the file.
absl::StatusOr<std::string> ReadFrom(const std::string& path, int64_t offset,
                                     size_t max) {
  // The system adds the two.
  if (offset >
      std::numeric_limits<int64_t>::max() - static_cast<int64_t>(max)) {
    return std::string();
  }
  // Each chunk opens the file again, so that a waiting follower holds no
  // descriptor.
  const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid() && errno == ENOENT) return std::string();
  if (!fd.valid()) return base::ErrnoStatus(errno, path);
  return base::ReadAt(fd.get(), offset, max, path);
}

class LogSource : public Source<v1::LogChunk> {
 public:
  LogSource(jobs::JobReader& reader, const v1::LogsRequest& request,
            absl::Duration poll_interval, Wake wake)
      : reader_(reader),
        id_(request.id()),
        follow_(request.follow()),
        offset_(request.offset_bytes()),
        poll_interval_(poll_interval),
        wake_(std::move(wake)),
        subscription_(reader.Subscribe(id_, wake_)) {}
  ~LogSource() override { reader_.Unsubscribe(subscription_); }

  absl::StatusOr<Pull> Next(v1::LogChunk& message) override {
    RETURN_IF_ERROR(CheckId("id", id_));
    RETURN_IF_ERROR(CheckNotNegative("offset_bytes", offset_));
    // Read the state before the file: once the state is final, the job's last
    // lines are in the file.
    ASSIGN_OR_RETURN(jobs::Job job, reader_.Get(id_));
    ASSIGN_OR_RETURN(std::string bytes,
                     ReadFrom(reader_.LogPath(id_), offset_, kChunkBytes));
    if (bytes.empty()) {
      if (!follow_ || jobs::IsFinal(job.state)) return Pull::kEnd;
      SetAlarm();
      return Pull::kWait;
    }
    message.set_offset_bytes(offset_);
    offset_ += static_cast<int64_t>(bytes.size());
    message.set_data(std::move(bytes));
    return Pull::kMessage;
  }

 private:
  // The worker writes to the file without notifying the daemon, so no event
  // wakes the stream for new lines.
  void SetAlarm() {
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(std::chrono::system_clock::now() +
                    absl::ToChronoMilliseconds(poll_interval_),
                // gRPC's thread calls this for a cancelled alarm too, possibly
                // after the source is gone, so the lambda owns a copy of wake.
                [wake = wake_](bool expired) {
                  if (expired) wake();
                });
  }

  jobs::JobReader& reader_;
  const std::string id_;
  const bool follow_;
  int64_t offset_;
  const absl::Duration poll_interval_;
  const Wake wake_;
  const int64_t subscription_;
  std::unique_ptr<grpc::Alarm> alarm_;  // destroying the source cancels it
};

}  // namespace

std::unique_ptr<Source<v1::LogChunk>> MakeLogSource(
    jobs::JobReader& reader, const v1::LogsRequest& request,
    absl::Duration poll_interval, Wake wake) {
  return std::make_unique<LogSource>(reader, request, poll_interval,
                                     std::move(wake));
}

}  // namespace mpsd::rpc
