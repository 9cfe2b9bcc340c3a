// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_EVENT_FIELDS_H_
#define MPSD_SERVER_JOBS_EVENT_FIELDS_H_

#include <string_view>

#include "core/report/report.h"
#include "server/jobs/job.h"

// The field lists of what an event holds, by the names that the database, the
// API and the metrics have for them. A worker's report is walked by its own
// list (core/report/report.h); only what the daemon names otherwise, adds or
// leaves out stands here.
namespace mpsd::jobs {

template <typename V>
void EventFields(V& v, auto& e, const StateChanged*) {
  v("state", e.state);
  v("message", e.message);
}

// Two counts become the shares that people compare, and behind those stand the
// rates of the attempt.
template <typename V>
void EventFields(V& v, auto& e, const Progress*) {
  const auto told = [&](const char* name, auto& value) {
    const std::string_view field = name;
    if (field == "seconds") return v("step_seconds", value);
    if (field == "padded_tokens") return v("padding_ratio", e.padding_ratio);
    if (field == "data_wait_seconds") {
      v("data_wait_ratio", e.data_wait_ratio);
      v("tokens_per_second", e.tokens_per_second);
      return v("eta_seconds", e.eta_seconds);
    }
    v(name, value);
  };
  Fields(told, e, static_cast<const report::Progress*>(nullptr));
}

// Without what only the run's own eval.jsonl keeps: the number of its labels,
// how long it took, and whether it was the best so far. The job's row has the
// one that is.
template <typename V>
void EventFields(V& v, auto& e, const Evaluated*) {
  const auto told = [&](const char* name, auto& value) {
    const std::string_view field = name;
    if (field != "label_tokens" && field != "seconds" && field != "best") {
      v(name, value);
    }
  };
  Fields(told, e, static_cast<const report::Evaluated*>(nullptr));
}

// A row of its own: what was removed is another row's end.
template <typename V>
void EventFields(V& v, auto& e, const Checkpoint*) {
  v("step", e.step);
  v("path", e.path);
  v("size_bytes", e.size_bytes);
  v("seconds", e.seconds);
  v("create_time_us", e.create_time);
}

template <typename V>
void EventFields(V& v, auto& e, const Note*) {
  v("text", e.text);
  v("is_warning", e.is_warning);
}

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_EVENT_FIELDS_H_
