// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_RUN_KEPT_EVENTS_H_
#define MPSD_CLIENT_RUN_KEPT_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/run_page/run_document.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// Takes a job's events, however many they are, and keeps what a page needs to
// draw them: of the steps and of the evaluations what run_page::KeptPoints()
// keeps, of the others the latest.
class KeptEvents {
 public:
  // `most_steps`: Progress events that are kept, at least 64.
  explicit KeptEvents(size_t most_steps) : most_steps_(most_steps) {}

  // Takes an event that comes after those taken before.
  void Add(v1::JobEvent& event);

  // The events as the run document has them, and how many are left out. Call it
  // once, at the end.
  void Finish(run_page::RunData* run);

 private:
  // Thins `events` out to `most`.
  static void ThinOut(std::vector<v1::JobEvent>& events, size_t most);

  const size_t most_steps_;
  std::vector<v1::JobEvent> steps_;
  std::vector<v1::JobEvent> evaluations_;
  std::deque<v1::JobEvent> others_;
  size_t others_bytes_ = 0;
  int64_t all_steps_ = 0;
  int64_t all_evaluations_ = 0;
  int64_t all_others_ = 0;
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_RUN_KEPT_EVENTS_H_
