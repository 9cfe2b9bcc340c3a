// SPDX-License-Identifier: Apache-2.0
#include "client/plot/history.h"

#include <google/protobuf/util/field_comparator.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "client/text/format.h"
#include "core/base/check.h"

namespace mpsd::client {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct StepMetric {
  const char* name;
  double (*value)(const v1::Progress&);
};

// Only what a step has told: bytes that a device does not count are missing.
double BytesOr(bool has, int64_t bytes) {
  return has ? static_cast<double>(bytes) : kNone;
}

constexpr StepMetric kStepMetrics[] = {
    {"loss", [](const v1::Progress& p) { return p.loss(); }},
    {"learning_rate", [](const v1::Progress& p) { return p.learning_rate(); }},
    {"grad_norm", [](const v1::Progress& p) { return p.grad_norm(); }},
    {"step_seconds", [](const v1::Progress& p) { return p.step_seconds(); }},
    {"tokens_per_second",
     [](const v1::Progress& p) { return p.tokens_per_second(); }},
    {"tokens",
     [](const v1::Progress& p) { return static_cast<double>(p.tokens()); }},
    {"epoch", [](const v1::Progress& p) { return p.epoch(); }},
    {"padding_ratio",
     [](const v1::Progress& p) {
       return p.has_padding_ratio() ? p.padding_ratio() : kNone;
     }},
    {"data_wait_ratio",
     [](const v1::Progress& p) {
       return p.has_data_wait_ratio() ? p.data_wait_ratio() : kNone;
     }},
    {"device_utilization_ratio",
     [](const v1::Progress& p) {
       return p.has_device_utilization_ratio() ? p.device_utilization_ratio()
                                               : kNone;
     }},
    {"current_allocated_bytes",
     [](const v1::Progress& p) {
       return BytesOr(p.memory().has_current_allocated_bytes(),
                      p.memory().current_allocated_bytes());
     }},
    {"peak_allocated_bytes",
     [](const v1::Progress& p) {
       return BytesOr(p.memory().has_peak_allocated_bytes(),
                      p.memory().peak_allocated_bytes());
     }},
    {"driver_allocated_bytes",
     [](const v1::Progress& p) {
       return BytesOr(p.memory().has_driver_allocated_bytes(),
                      p.memory().driver_allocated_bytes());
     }},
    {"footprint_bytes",
     [](const v1::Progress& p) {
       return BytesOr(p.memory().has_footprint_bytes(),
                      p.memory().footprint_bytes());
     }},
};

bool SameProgress(const v1::Progress& a, const v1::Progress& b) {
  google::protobuf::util::DefaultFieldComparator comparator;
  comparator.set_treat_nan_as_equal(true);  // a loss may be NaN
  google::protobuf::util::MessageDifferencer differencer;
  differencer.set_field_comparator(&comparator);
  return differencer.Compare(a, b);
}

double StepValue(const std::string& metric, const v1::Progress& progress) {
  for (const StepMetric& known : kStepMetrics) {
    if (metric == known.name) return known.value(progress);
  }
  return kNone;
}

}  // namespace

std::vector<std::string> StepMetrics() {
  std::vector<std::string> names;
  for (const StepMetric& metric : kStepMetrics) names.push_back(metric.name);
  return names;
}

bool IsStepMetric(const std::string& metric) {
  return std::any_of(
      std::begin(kStepMetrics), std::end(kStepMetrics),
      [&](const StepMetric& known) { return metric == known.name; });
}

History::History(std::string metric, size_t most_steps)
    : metric_(std::move(metric)), most_steps_(most_steps) {
  base::Check(most_steps >= 2, "a history has room for two steps");
}

double History::Seconds(absl::Time time) {
  if (begin_ == absl::InfinitePast()) begin_ = time;
  return absl::ToDoubleSeconds(time - begin_);
}

void History::Add(const v1::JobEvent& event) {
  const absl::Time time = ToTime(event.time());
  switch (event.event_case()) {
    case v1::JobEvent::kState:
      // The clock of the samples starts.
      if (event.state().state() == v1::JOB_STATE_RUNNING) Seconds(time);
      return;
    case v1::JobEvent::kProgress:
      return AddStep(event.progress(), time);
    case v1::JobEvent::kEvaluated:
      return AddEvaluation(event.evaluated(), time);
    default:
      return;
  }
}

void History::AddStep(const v1::Progress& progress, absl::Time time) {
  if (!steps_.empty() && progress.step() <= steps_.back().step) {
    ++resumes_;
    std::erase_if(steps_, [&](const Sample& sample) {
      return sample.step >= progress.step();
    });
    std::erase_if(evaluations_, [&](const Sample& sample) {
      return sample.step >= progress.step();
    });
  }
  const int64_t before = steps_.empty() ? 0 : steps_.back().step;
  const double tokens = steps_.empty() ? 0 : steps_.back().tokens;
  // A step that the daemon no longer has counts as this one.
  const double passed =
      static_cast<double>(progress.step()) - static_cast<double>(before);
  steps_.push_back({progress.step(),
                    tokens + passed * static_cast<double>(progress.tokens()),
                    Seconds(time), StepValue(metric_, progress)});
  if (steps_.size() > most_steps_) Thin();
}

void History::Thin() {
  // The later of a pair gives its place, so that the last step stays last. A
  // value that is missing, or infinite, is not averaged away.
  size_t kept = 0;
  for (size_t i = 0; i < steps_.size(); i += 2) {
    Sample sample = steps_[i];
    if (i + 1 < steps_.size()) {
      const double value = sample.value;
      sample = steps_[i + 1];
      sample.value = value / 2 + sample.value / 2;
    }
    steps_[kept++] = sample;
  }
  steps_.resize(kept);
}

void History::AddEvaluation(const v1::Evaluated& evaluated, absl::Time time) {
  for (const auto& [name, value] : evaluated.metrics()) names_.insert(name);
  double value = evaluated.eval_loss();
  if (!IsStepMetric(metric_) && metric_ != "eval_loss") {
    const auto it = evaluated.metrics().find(metric_);
    if (it == evaluated.metrics().end()) return;
    value = it->second;
  }
  std::erase_if(evaluations_, [&](const Sample& sample) {
    return sample.step >= evaluated.step();
  });
  const double tokens = steps_.empty() ? 0 : steps_.back().tokens;
  evaluations_.push_back({evaluated.step(), tokens, Seconds(time), value});
}

bool RowReached::Add(const v1::JobEvent& event) {
  if (event.has_progress()) {
    progress_ = progress_ || SameProgress(event.progress(), job_.progress());
  } else if (event.has_evaluated()) {
    const double latest = job_.has_eval_loss_after() ? job_.eval_loss_after()
                                                     : job_.eval_loss_before();
    const double loss = event.evaluated().eval_loss();
    evaluated_ = evaluated_ || loss == latest ||
                 (std::isnan(loss) && std::isnan(latest));
  }
  const bool has_evaluation =
      job_.has_eval_loss_after() || job_.has_eval_loss_before();
  return (progress_ || !job_.has_progress()) && (evaluated_ || !has_evaluation);
}

std::vector<Sample> Smoothed(const std::vector<Sample>& samples) {
  if (samples.empty()) return {};
  const double half_life = std::max(
      1.0,
      static_cast<double>(samples.back().step - samples.front().step) / 50);
  std::vector<Sample> smooth;
  double sum = 0, weights = 0;
  int64_t last = samples.front().step;
  for (const Sample& sample : samples) {
    if (!std::isfinite(sample.value)) continue;
    const double fade =
        std::exp2(-static_cast<double>(sample.step - last) / half_life);
    // A mean of means, so that no sum passes what a double holds.
    const double before = weights * fade;
    weights = before + 1;
    sum = sum * (before / weights) + sample.value / weights;
    last = sample.step;
    smooth.push_back(sample);
    smooth.back().value = sum;
  }
  return smooth;
}

}  // namespace mpsd::client
