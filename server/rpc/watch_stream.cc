// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/watch_stream.h"

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "core/base/status_macros.h"
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
      absl::StatusOr<Pull> filled = Fill();
      if (!filled.ok() || *filled != Pull::kMessage) return filled;
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
    absl::StatusOr<bool> found = ReadPage();
    if (!found.ok()) return found.status();
    if (*found) return Pull::kMessage;
    ASSIGN_OR_RETURN(jobs::Job job, reader_.Get(id_));
    if (!jobs::IsFinal(job.state)) return Pull::kWait;
    // Reads again: the job's last events may have come after the first read.
    found = ReadPage();
    if (!found.ok()) return found.status();
    return *found ? Pull::kMessage : Pull::kEnd;
  }

  absl::StatusOr<bool> ReadPage() {
    absl::Status checked = CheckId("id", id_);
    if (checked.ok()) checked = CheckNotNegative("after_sequence", after_);
    if (!checked.ok()) return checked;
    ASSIGN_OR_RETURN(std::vector<jobs::Event> events,
                     reader_.Events(id_, after_));
    page_.assign(std::make_move_iterator(events.begin()),
                 std::make_move_iterator(events.end()));
    return !page_.empty();
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

}  // namespace mpsd::rpc
