// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_EVENT_READER_H_
#define MPSD_CLIENT_EVENT_READER_H_

#include <grpcpp/support/status.h>

#include <functional>

#include "client/console.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// Finds out when a stream of stored and new events has come as far as a job's
// row, which was read before: the stream of a job that has not ended stays
// open.
class RowReached {
 public:
  explicit RowReached(const v1::Job& job) : job_(job) {}

  // Takes the next event; returns whether the row's progress and its latest
  // evaluation were among the events.
  bool Add(const v1::JobEvent& event);

 private:
  const v1::Job job_;
  bool progress_ = false;
  bool evaluated_ = false;
};

// Reads the events that a job has up to now, oldest first: as far as `job`,
// which was read before, has come; of a job that goes on and has neither
// progress nor an evaluation, what comes within a second. `take` may change the
// event that it is given. Sets *interrupted after Ctrl-C.
grpc::Status ReadEvents(const Console& console, const v1::Job& job,
                        const std::function<void(v1::JobEvent&)>& take,
                        bool* interrupted);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_EVENT_READER_H_
