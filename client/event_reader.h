// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_EVENT_READER_H_
#define MPSD_CLIENT_EVENT_READER_H_

#include <grpcpp/support/status.h>

#include <functional>

#include "client/console.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// Reads the events that a job has up to now, oldest first: as far as `job`,
// which was read before, has come; of a job that goes on and has neither
// progress nor an evaluation, what comes within a second. `take` may change the
// event that it is given. Sets *interrupted after Ctrl-C.
grpc::Status ReadEvents(const Console& console, const v1::Job& job,
                        const std::function<void(v1::JobEvent&)>& take,
                        bool* interrupted);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_EVENT_READER_H_
