// SPDX-License-Identifier: Apache-2.0
#include "client/run/kept_events.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "core/report/run_page.h"

namespace mpsd::client {

namespace {

constexpr int64_t kMostBytes = 1 << 20;         // of a file that is kept whole
constexpr int64_t kPredictionBytes = 64 << 10;  // of the predictions

struct WantedFile {
  const char* name;
  bool cut;  // the first whole lines are enough
};
constexpr WantedFile kWanted[] = {{"run.json", false},
                                  {"confusion_matrix.json", false},
                                  {"predictions.jsonl", true}};

}  // namespace

bool FilePicker::Accept(const v1::DownloadResponse& part) {
  if (part.has_file()) {
    Cut();
    return Begin(part.file());
  }
  if (text_ == nullptr) return false;
  text_->append(part.data());
  return static_cast<int64_t>(text_->size()) < limit_;
}

void FilePicker::Cut() {
  if (text_ == nullptr || static_cast<int64_t>(text_->size()) <= limit_) {
    return;
  }
  text_->resize(static_cast<size_t>(limit_));
  text_->erase(text_->rfind('\n') + 1);  // npos + 1 is 0
}

void FilePicker::Drop() {
  if (text_ != nullptr) files_.erase(name_);
  text_ = nullptr;
}

bool FilePicker::Begin(const v1::DownloadResponse::File& file) {
  const auto* wanted = std::find_if(
      std::begin(kWanted), std::end(kWanted),
      [&](const WantedFile& one) { return file.path() == one.name; });
  text_ = nullptr;
  if (wanted == std::end(kWanted)) return false;
  if (!wanted->cut && file.size_bytes() > kMostBytes) return false;
  name_ = file.path();
  text_ = &files_[name_];
  limit_ = wanted->cut ? kPredictionBytes : kMostBytes;
  return true;
}

std::string ProtoJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &text, options);
  // Only a time beyond the year 9999 has no JSON.
  return status.ok() ? text : "{}";
}

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kFewest = 64;  // KeptPoints() takes no fewer
constexpr size_t kMostEvaluations = 2000;
constexpr size_t kMostEvaluationBytes = 4 << 20;
constexpr size_t kMostOthers = 5000;
constexpr size_t kMostOtherBytes = 1 << 20;
// This many metrics of an evaluation keep their minimum and maximum.
constexpr size_t kMetricCurves = 8;
// Events are thinned out when there are this many times too many.
constexpr size_t kSlack = 8;

run_page::CurvesPoint StepPoint(const v1::Progress& p) {
  const v1::DeviceMemory& memory = p.memory();
  return {p.step(),
          {p.loss(), p.learning_rate(), p.grad_norm(), p.step_seconds(),
           p.tokens_per_second(), static_cast<double>(memory.footprint_bytes()),
           static_cast<double>(memory.current_allocated_bytes())}};
}

run_page::CurvesPoint EvaluationPoint(const v1::Evaluated& evaluated,
                                      const std::vector<std::string>& names) {
  run_page::CurvesPoint point{evaluated.step(), {evaluated.eval_loss()}};
  for (const std::string& name : names) {
    const auto it = evaluated.metrics().find(name);
    point.values.push_back(it == evaluated.metrics().end() ? kNone
                                                           : it->second);
  }
  return point;
}

// The metrics whose curves keep their extremes: the first by name.
std::vector<std::string> MetricNames(const v1::Evaluated& evaluated) {
  std::vector<std::string> names;
  for (const auto& [name, value] : evaluated.metrics()) names.push_back(name);
  std::sort(names.begin(), names.end());
  names.resize(std::min(names.size(), kMetricCurves));
  return names;
}

size_t Bytes(const std::vector<v1::JobEvent>& events) {
  size_t bytes = 0;
  for (const v1::JobEvent& event : events) bytes += event.ByteSizeLong();
  return bytes;
}

}  // namespace

void KeptEvents::ThinOut(std::vector<v1::JobEvent>& events, size_t most) {
  if (events.size() <= most) return;
  std::vector<run_page::CurvesPoint> points;
  points.reserve(events.size());
  std::vector<std::string> names;
  if (events.back().has_evaluated()) {
    names = MetricNames(events.back().evaluated());
  }
  for (const v1::JobEvent& event : events) {
    points.push_back(event.has_progress()
                         ? StepPoint(event.progress())
                         : EvaluationPoint(event.evaluated(), names));
  }
  std::vector<v1::JobEvent> kept;
  for (const size_t index : run_page::KeptPoints(points, most)) {
    kept.push_back(std::move(events[index]));
  }
  events = std::move(kept);
}

void KeptEvents::Add(v1::JobEvent& event) {
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

void KeptEvents::Finish(run_page::RunData* run) {
  ThinOut(steps_, most_steps_);
  ThinOut(evaluations_, kMostEvaluations);
  for (size_t most = kMostEvaluations / 2;
       most >= kFewest && Bytes(evaluations_) > kMostEvaluationBytes;
       most /= 2) {
    ThinOut(evaluations_, most);
  }
  run->left_out.steps = all_steps_ - std::ssize(steps_);
  run->left_out.evaluations = all_evaluations_ - std::ssize(evaluations_);
  run->left_out.events = all_others_ - std::ssize(others_);
  std::vector<v1::JobEvent> events = std::move(steps_);
  std::move(evaluations_.begin(), evaluations_.end(),
            std::back_inserter(events));
  std::move(others_.begin(), others_.end(), std::back_inserter(events));
  std::sort(events.begin(), events.end(),
            [](const v1::JobEvent& a, const v1::JobEvent& b) {
              return a.sequence() < b.sequence();
            });
  for (const v1::JobEvent& event : events) {
    run->events.push_back(ProtoJson(event));
  }
}

}  // namespace mpsd::client
