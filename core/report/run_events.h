// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/report/run_page.h"

// What mpsctl and the daemon's web page keep of a run for its page.

namespace mpsd::run_page {

// Extracts the small text files that a run's page shows from the parts of a
// download: run.json, confusion_matrix.json and the first lines of
// predictions.jsonl. A file larger than 1 MiB is omitted, and predictions end
// after 64 KiB.
class FilePicker {
 public:
  // `files` gets the files by name, and must outlive the picker.
  explicit FilePicker(std::map<std::string, std::string>& files)
      : files_(files) {}

  // A file begins, or the current one continues. Both return false if no later
  // part is needed: an unwanted file begins, or a wanted one is as long as it
  // should be.
  bool Begin(const std::string& path, int64_t size_bytes);
  bool Append(std::string_view data);
  // Removes the bytes beyond the limit, and then an unfinished line.
  void Cut();
  // Drops the incomplete file.
  void Drop();

 private:
  std::map<std::string, std::string>& files_;
  std::string name_;
  std::string* text_ = nullptr;  // of the current file
  int64_t limit_ = 0;
};

// Takes any number of a job's events, and keeps what a page needs to draw them:
// of the steps and the evaluations those that KeptPoints() keeps, of the others
// the latest. Event: v1.JobEvent, which core does not know.
template <typename Event>
class KeptEvents {
 public:
  // `most_steps`: Progress events that are kept, at least 64.
  explicit KeptEvents(size_t most_steps) : most_steps_(most_steps) {}

  // Takes an event that comes after those taken before.
  void Add(const Event& event);

  // The events for the run document, as `to_json` writes each, and how many are
  // omitted. Call it once, at the end.
  template <typename ToJson>
  void Finish(const ToJson& to_json, RunData* run);

 private:
  using Events = std::vector<Event>;
  static constexpr size_t kFewest = 64;  // KeptPoints() takes no fewer
  static constexpr size_t kMostEvaluations = 2000;
  static constexpr size_t kMostEvaluationBytes = 4 << 20;
  static constexpr size_t kMostOthers = 5000;
  static constexpr size_t kMostOtherBytes = 1 << 20;
  // This many metrics of an evaluation keep their minimum and maximum.
  static constexpr size_t kMetricCurves = 8;
  // Events are thinned out when there are this many times too many.
  static constexpr size_t kSlack = 8;

  // Thins `events`, all steps or all evaluations, out to `most`.
  static void ThinOut(Events& events, size_t most);
  static CurvesPoint PointOf(const Event& event,
                             const std::vector<std::string>& metrics);

  const size_t most_steps_;
  Events steps_, evaluations_;
  Events sampled_;  // the first, and the latest that fit
  std::deque<Event> others_;
  size_t sampled_bytes_ = 0, others_bytes_ = 0;
  int64_t all_steps_ = 0, all_evaluations_ = 0, all_others_ = 0;
};

template <typename Event>
CurvesPoint KeptEvents<Event>::PointOf(
    const Event& event, const std::vector<std::string>& metrics) {
  if (event.has_progress()) {
    const auto& p = event.progress();
    const auto& memory = p.memory();
    return {
        p.step(),
        {p.loss(), p.learning_rate(), p.grad_norm(), p.step_seconds(),
         p.tokens_per_second(), static_cast<double>(memory.footprint_bytes()),
         static_cast<double>(memory.current_allocated_bytes())}};
  }
  const auto& evaluated = event.evaluated();
  CurvesPoint point{evaluated.step(), {evaluated.eval_loss()}};
  for (const std::string& name : metrics) {
    const auto found = evaluated.metrics().find(name);
    point.values.push_back(found == evaluated.metrics().end()
                               ? std::numeric_limits<double>::quiet_NaN()
                               : found->second);
  }
  return point;
}

template <typename Event>
void KeptEvents<Event>::ThinOut(Events& events, size_t most) {
  if (events.size() <= most) return;
  // The metrics whose curves keep their extremes: the first by name.
  std::vector<std::string> names;
  for (const auto& [name, value] : events.back().evaluated().metrics()) {
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  names.resize(std::min(names.size(), kMetricCurves));
  std::vector<CurvesPoint> points;
  points.reserve(events.size());
  for (const Event& event : events) points.push_back(PointOf(event, names));
  Events kept;
  for (const size_t index : KeptPoints(points, most)) {
    kept.push_back(std::move(events[index]));
  }
  events = std::move(kept);
}

template <typename Event>
void KeptEvents<Event>::Add(const Event& event) {
  if (event.has_progress()) {
    ++all_steps_;
    // Counts of the whole job, which the latest event and the row contain.
    if (!steps_.empty()) {
      steps_.back().mutable_progress()->clear_cpu_fallback_ops();
    }
    steps_.push_back(event);
    if (steps_.size() >= kSlack * most_steps_) {
      ThinOut(steps_, kSlack / 2 * most_steps_);
    }
  } else if (event.has_sampled()) {
    ++all_others_;
    sampled_bytes_ += event.ByteSizeLong();
    sampled_.push_back(event);
    while (sampled_bytes_ > kMostOtherBytes && sampled_.size() > 2) {
      sampled_bytes_ -= sampled_[1].ByteSizeLong();
      sampled_.erase(sampled_.begin() + 1);
    }
  } else if (event.has_evaluated()) {
    ++all_evaluations_;
    evaluations_.push_back(event);
    if (evaluations_.size() >= kSlack * kMostEvaluations) {
      ThinOut(evaluations_, kSlack / 2 * kMostEvaluations);
    }
  } else {
    ++all_others_;
    others_bytes_ += event.ByteSizeLong();
    others_.push_back(event);
    while (others_.size() > kMostOthers || others_bytes_ > kMostOtherBytes) {
      others_bytes_ -= others_.front().ByteSizeLong();
      others_.pop_front();
    }
  }
}

template <typename Event>
template <typename ToJson>
void KeptEvents<Event>::Finish(const ToJson& to_json, RunData* run) {
  ThinOut(steps_, most_steps_);
  ThinOut(evaluations_, kMostEvaluations);
  const auto bytes = [this] {
    size_t sum = 0;
    for (const Event& event : evaluations_) sum += event.ByteSizeLong();
    return sum;
  };
  for (size_t most = kMostEvaluations / 2;
       most >= kFewest && bytes() > kMostEvaluationBytes; most /= 2) {
    ThinOut(evaluations_, most);
  }
  run->left_out.steps = all_steps_ - std::ssize(steps_);
  run->left_out.evaluations = all_evaluations_ - std::ssize(evaluations_);
  run->left_out.events =
      all_others_ - std::ssize(others_) - std::ssize(sampled_);
  Events events = std::move(steps_);
  std::move(evaluations_.begin(), evaluations_.end(),
            std::back_inserter(events));
  std::move(sampled_.begin(), sampled_.end(), std::back_inserter(events));
  std::move(others_.begin(), others_.end(), std::back_inserter(events));
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.sequence() < b.sequence();
  });
  for (const Event& event : events) run->events.push_back(to_json(event));
}

}  // namespace mpsd::run_page
