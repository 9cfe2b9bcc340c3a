// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_EXPORTED_CALLS_H_
#define MPSD_SERVER_JOBS_EXPORTED_CALLS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace mpsd::jobs {

// A method of the API.
struct CallMethod {
  std::string name;  // "JobService.Submit"
  bool is_stream = false;
};

// The server reports the calls of the API here. Thread-safe. An implementation
// must not block. Implemented by server/prometheus.
class ExportedCalls {
 public:
  virtual ~ExportedCalls() = default;
  // The server has this method; comes before the method's first call. The
  // methods of all calls are among these, so their number is bounded.
  virtual void MethodServed(const CallMethod& method) = 0;
  virtual void CallStarted(const CallMethod& method) = 0;
  // `code`: what the client was told, kCancelled where the client did not wait
  // for the answer. `duration`: from the call's arrival to its end.
  virtual void CallEnded(const CallMethod& method, absl::StatusCode code,
                         absl::Duration duration) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_EXPORTED_CALLS_H_
