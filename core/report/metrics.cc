// SPDX-License-Identifier: Apache-2.0
#include "core/report/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "core/base/check.h"

namespace mpsd::metrics {

std::vector<int64_t> Predictions::Classes() const {
  std::vector<int64_t> classes(rows());
  for (int64_t row = 0; row < rows(); ++row) {
    const auto first = logits.begin() + row * outputs;
    classes[row] = std::max_element(first, first + outputs) - first;
  }
  return classes;
}

namespace {

using spec::ProblemType;
using ClassIds = std::vector<int64_t>;
using Numbers = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::string_view kCombined = "combined_score";

// How many rows have a label, are predicted to have it, and both.
struct Counts {
  double truth = 0, predicted = 0, both = 0;
  double F1() const {
    return truth + predicted == 0 ? 0 : 2 * both / (truth + predicted);
  }
};

std::map<int64_t, Counts> Count(const ClassIds& truth,
                                const ClassIds& predicted) {
  base::CheckEqual(truth.size(), predicted.size(), "labels and predictions");
  std::map<int64_t, Counts> counts;
  for (size_t i = 0; i < truth.size(); ++i) {
    ++counts[truth[i]].truth;
    ++counts[predicted[i]].predicted;
    if (truth[i] == predicted[i]) ++counts[truth[i]].both;
  }
  return counts;
}

// The counts of each label in a multi-label problem; a logit above zero
// (probability 0.5) predicts the label.
std::vector<Counts> CountColumns(const Predictions& p) {
  std::vector<Counts> counts(p.outputs);
  for (size_t i = 0; i < p.logits.size(); ++i) {
    Counts& of = counts[i % p.outputs];
    const bool truth = p.targets[i] > 0.5f, predicted = p.logits[i] > 0;
    of.truth += truth;
    of.predicted += predicted;
    of.both += truth && predicted;
  }
  return counts;
}

double RowAccuracy(const Predictions& p) {
  int64_t right = 0;
  for (int64_t row = 0; row < p.rows(); ++row) {
    bool all = true;
    for (int64_t i = row * p.outputs; i < (row + 1) * p.outputs; ++i) {
      all &= (p.targets[i] > 0.5f) == (p.logits[i] > 0);
    }
    right += all;
  }
  return static_cast<double>(right) / static_cast<double>(p.rows());
}

double MicroF1(const std::vector<Counts>& columns) {
  Counts all;
  for (const Counts& c : columns) {
    all.truth += c.truth;
    all.predicted += c.predicted;
    all.both += c.both;
  }
  return all.F1();
}

double MacroF1(const std::vector<Counts>& columns) {
  double sum = 0;
  for (const Counts& c : columns) sum += c.F1();
  return sum / static_cast<double>(columns.size());
}

// The mean of power(logit - target).
template <typename Power>
double MeanError(const Predictions& p, Power power) {
  double sum = 0;
  for (size_t i = 0; i < p.logits.size(); ++i) {
    sum += power(double{p.logits[i]} - double{p.targets[i]});
  }
  return sum / static_cast<double>(p.logits.size());
}

bool AllEqual(const Numbers& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](double v) { return v == values.front(); });
}

// `values` minus their mean, divided by the Euclidean norm: the dot product of
// two such vectors is Pearson's correlation.
Numbers Normalized(const Numbers& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) /
                      static_cast<double>(values.size());
  Numbers result = values;
  for (double& v : result) v -= mean;
  const double length = std::sqrt(
      std::inner_product(result.begin(), result.end(), result.begin(), 0.0));
  for (double& v : result) v /= length;
  return result;
}

// Ranks count from 1; equal values get the mean of their ranks.
Numbers Ranks(const Numbers& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return values[a] < values[b]; });
  Numbers ranks(values.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) {
      ++end;
    }
    const double mean = static_cast<double>(begin + 1 + end) / 2;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = mean;
  }
  return ranks;
}

bool HasNan(const Numbers& values) {
  return std::any_of(values.begin(), values.end(),
                     [](double v) { return std::isnan(v); });
}

// The metrics that evaluate's "glue" computes for a task; empty for an unknown
// task.
std::vector<std::string> GlueNames(std::string_view task, ProblemType problem) {
  if (problem == ProblemType::kRegression) {
    if (task == "stsb") return {"pearson", "spearmanr"};
    return {};
  }
  if (problem != ProblemType::kSingleLabel) return {};
  if (task == "cola") return {"matthews_correlation"};
  if (task == "mrpc" || task == "qqp") return {"accuracy", "f1"};
  for (std::string_view other : {"sst2", "mnli", "qnli", "rte", "wnli"}) {
    if (task == other) return {"accuracy"};
  }
  return {};
}

double SingleLabel(const Predictions& p, const ClassIds& classes,
                   std::string_view name) {
  if (name == "accuracy") return Accuracy(p.truth, classes);
  if (name == "f1") return F1Binary(p.truth, classes, 1);
  if (name == "f1_macro") return F1Macro(p.truth, classes);
  return MatthewsCorrelation(p.truth, classes);
}

double Regression(const Predictions& p, std::string_view name) {
  if (name == "mse") return MeanError(p, [](double d) { return d * d; });
  if (name == "mae") return MeanError(p, [](double d) { return std::abs(d); });
  const Numbers said(p.logits.begin(), p.logits.end());
  const Numbers truth(p.targets.begin(), p.targets.end());
  return name == "pearson" ? Pearson(said, truth) : Spearman(said, truth);
}

double MultiLabel(const Predictions& p, std::string_view name) {
  if (name == "accuracy") return RowAccuracy(p);
  const std::vector<Counts> columns = CountColumns(p);
  return name == "f1_micro" ? MicroF1(columns) : MacroF1(columns);
}

double Mean(const Values& values) {
  double sum = 0;
  for (const auto& [name, value] : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

Values Compute(const Predictions& p, std::string_view glue_task) {
  Values values;
  if (p.rows() == 0) return values;
  const bool single = p.problem == ProblemType::kSingleLabel;
  const ClassIds classes = single ? p.Classes() : ClassIds();
  for (std::string& name : MetricNames(p.problem, p.outputs, glue_task)) {
    const double value = name == kCombined ? Mean(values)
                         : single          ? SingleLabel(p, classes, name)
                         : p.problem == ProblemType::kRegression
                             ? Regression(p, name)
                             : MultiLabel(p, name);
    values.emplace_back(std::move(name), value);
  }
  return values;
}

double Perplexity(double loss) { return std::exp(loss); }

std::vector<int64_t> ConfusionMatrix(const Predictions& p) {
  std::vector<int64_t> matrix(p.outputs * p.outputs);
  const ClassIds classes = p.Classes();
  for (int64_t row = 0; row < p.rows(); ++row) {
    ++matrix[p.truth[row] * p.outputs + classes[row]];
  }
  return matrix;
}

double Accuracy(const ClassIds& truth, const ClassIds& predicted) {
  if (truth.empty()) return kNan;
  int64_t right = 0;
  for (size_t i = 0; i < truth.size(); ++i) right += truth[i] == predicted[i];
  return static_cast<double>(right) / static_cast<double>(truth.size());
}

double F1Binary(const ClassIds& truth, const ClassIds& predicted,
                int64_t positive) {
  return Count(truth, predicted)[positive].F1();
}

double F1Macro(const ClassIds& truth, const ClassIds& predicted) {
  if (truth.empty()) return kNan;
  double sum = 0;
  const std::map<int64_t, Counts> counts = Count(truth, predicted);
  for (const auto& [label, of] : counts) sum += of.F1();
  return sum / static_cast<double>(counts.size());
}

double MatthewsCorrelation(const ClassIds& truth, const ClassIds& predicted) {
  const auto rows = static_cast<double>(truth.size());
  double right = 0, product = 0, truths = 0, predictions = 0;
  for (const auto& [label, of] : Count(truth, predicted)) {
    right += of.both;
    product += of.truth * of.predicted;
    truths += of.truth * of.truth;
    predictions += of.predicted * of.predicted;
  }
  const double scale = (rows * rows - predictions) * (rows * rows - truths);
  return scale == 0 ? 0 : (right * rows - product) / std::sqrt(scale);
}

double Pearson(const Numbers& a, const Numbers& b) {
  if (a.size() < 2 || AllEqual(a) || AllEqual(b)) return kNan;
  const Numbers x = Normalized(a), y = Normalized(b);
  const double r = std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  return std::isnan(r) ? kNan : std::clamp(r, -1.0, 1.0);
}

double Spearman(const Numbers& a, const Numbers& b) {
  if (HasNan(a) || HasNan(b)) return kNan;
  return Pearson(Ranks(a), Ranks(b));
}

bool GreaterIsBetter(std::string_view metric) {
  if (metric.starts_with("eval_")) metric.remove_prefix(5);
  return !metric.ends_with("loss") && metric != "mse" && metric != "mae" &&
         metric != "perplexity";
}

std::vector<std::string> MetricNames(ProblemType problem, int64_t outputs,
                                     std::string_view glue_task) {
  std::vector<std::string> names = GlueNames(glue_task, problem);
  if (names.size() > 1) names.emplace_back(kCombined);
  if (!names.empty()) return names;
  switch (problem) {
    case ProblemType::kSingleLabel:
      if (outputs != 2) return {"accuracy", "f1_macro", "matthews_correlation"};
      return {"accuracy", "f1", "f1_macro", "matthews_correlation"};
    case ProblemType::kRegression:
      if (outputs != 1) return {"mse", "mae"};
      return {"pearson", "spearmanr", "mse", "mae"};
    case ProblemType::kMultiLabel:
      return {"accuracy", "f1_micro", "f1_macro"};
  }
  return {};
}

}  // namespace mpsd::metrics
