// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_WORKER_EXIT_H_
#define MPSD_SERVER_JOBS_WORKER_EXIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/time/time.h"
#include "core/report/report.h"
#include "server/jobs/job.h"
#include "server/jobs/worker_launcher.h"

namespace mpsd::jobs {

// The last message of a worker; none where the worker ended without one.
using LastWord = std::variant<std::monostate, report::Outcome, report::Failure,
                              report::Stopped>;

enum class Asked { kNothing, kPreempt, kCancel };

// What the daemon knows once the process has been reaped.
struct WorkerEnding {
  LastWord last_word;
  int wait_status = 0;  // as waitpid gives it
  Asked asked = Asked::kNothing;
  bool hung = false;       // killed because it sent no message for too long
  absl::Duration silence;  // how long it sent no message
  bool killed_after_grace = false;
  std::string protocol_error;  // killed because of this breach of the protocol
  std::string log_tail;        // the end of its stderr
};

// How the attempt ended, and a message for people. The first of these rows that
// holds decides:
//   nonsense on fd 3, not asked to cancel  ProtocolError
//   said Done                              Done, however the process ended:
//                                          the output was durable by then
//   asked to cancel                        Cancelled
//   silent for too long                    Hung
//   said Failed                            Machine where its errno is the
//                                          machine's fault, else Rejected,
//                                          OutOfMemory, NonFinite, or Crashed
//                                          for an internal error
//   asked to preempt                       Preempted, whether it said so, was
//                                          killed after the grace or crashed
//   said Stopped, unasked                  ProtocolError
//   signal, exit status, exit 0            Crashed
// Where the end of the log holds a device's error (core/host/device_error.h),
// that error decides about a Crashed and a NonFinite: OutOfMemory, Rejected, or
// a Crashed that is tried again, with its advice. Messages of Crashed, Hung and
// ProtocolError end with the log's last lines.
WorkerListener::Result DecideExit(const WorkerEnding& ending);

// "killed by SIGSEGV (segmentation fault)", "exited with status 1".
std::string DescribeWaitStatus(int wait_status);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_WORKER_EXIT_H_
