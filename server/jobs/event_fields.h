// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_EVENT_FIELDS_H_
#define MPSD_SERVER_JOBS_EVENT_FIELDS_H_

#include <string_view>

#include "core/report/report.h"
#include "server/jobs/job.h"

// The field lists of an event, by the names that the database, the API and the
// metrics use. A worker's report is walked by its own list
// (core/report/report.h); this file adds only what the daemon renames, adds or
// leaves out.
namespace mpsd::jobs {

template <typename V>
void EventFields(V& v, auto& e, const StateChanged*) {
  v("state", e.state);
  v("message", e.message);
}

// The daemon replaces two of the worker's counts by shares, which people
// compare, and appends the rates of the attempt.
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

// Leaves out the fields that only the run's own eval.jsonl keeps: the number of
// label tokens, the seconds that the evaluation took, and whether it was the
// best so far. The job's row has the best evaluation.
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

// Leaves out the removed paths: each removes the row of another checkpoint.
template <typename V>
void EventFields(V& v, auto& e, const Checkpoint*) {
  const auto told = [&](const char* name, auto& value) {
    const std::string_view field = name;
    if (field == "removed_paths") return;
    v(field == "bytes" ? "size_bytes" : name, value);
  };
  Fields(told, e, static_cast<const report::Checkpointed*>(nullptr));
  v("create_time_us", e.create_time);
}

template <typename V>
void EventFields(V& v, auto& e, const Note*) {
  v("text", e.text);
  v("is_warning", e.is_warning);
}

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_EVENT_FIELDS_H_
