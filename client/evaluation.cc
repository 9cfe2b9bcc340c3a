// SPDX-License-Identifier: Apache-2.0
#include "client/evaluation.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/text/format.h"
#include "core/base/json_depth.h"

namespace mpsd::client {
namespace {

constexpr int kLabelColumns = 24;  // a longer label is cut

using Row = std::vector<std::string>;

std::map<std::string, double> ByName(const MetricMap& metrics) {
  return {metrics.begin(), metrics.end()};
}

std::string Padded(const std::string& text, int width, bool left) {
  const std::string gap(std::max(0, width - Width(text)), ' ');
  return left ? text + gap : gap + text;
}

// Prints rows indented by two, with the first column to the left and the others
// to the right.
void PrintRows(const std::vector<Row>& rows, std::ostream& out) {
  std::vector<int> widths(rows[0].size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], Width(row[i]));
    }
  }
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      out << "  " << Padded(row[i], widths[i], i == 0);
    }
    out << '\n';
  }
}

struct Matrix {
  std::vector<std::string> labels;
  std::vector<std::vector<int64_t>> counts;
};

std::optional<Matrix> ParseMatrix(const std::string& text) {
  const auto json = base::ParseTree<nlohmann::json>(text);
  Matrix matrix;
  try {
    matrix.labels = json.at("labels").get<std::vector<std::string>>();
    json.at("matrix").get_to(matrix.counts);
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  bool square =
      !matrix.labels.empty() && matrix.counts.size() == matrix.labels.size();
  for (const auto& row : matrix.counts) {
    square = square && row.size() == matrix.labels.size();
  }
  if (!square) return std::nullopt;
  return matrix;
}

}  // namespace

std::string MetricsText(const MetricMap& metrics) {
  std::string text;
  for (const auto& [name, value] : ByName(metrics)) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", Printable(name), " ",
                    Loss(value));
  }
  return text;
}

void PrintMetrics(const v1::Job& job, std::ostream& out) {
  if (job.metrics().empty()) return;
  const bool final = job.state() == v1::JOB_STATE_SUCCEEDED;
  std::vector<Row> rows = {{"metric", final ? "final" : "latest"}};
  const v1::Evaluated& best = job.best_evaluation();
  const bool with_best = !best.metrics().empty();
  if (with_best) {
    rows[0].push_back(absl::StrCat("best, at step ", best.step()));
  }
  for (const auto& [name, value] : ByName(job.metrics())) {
    rows.push_back({Printable(name), Loss(value)});
    if (!with_best) continue;
    const auto found = best.metrics().find(name);
    rows.back().push_back(found == best.metrics().end() ? "-"
                                                        : Loss(found->second));
  }
  PrintRows(rows, out);
}

void PrintConfusionMatrix(const std::string& json, std::ostream& out) {
  const std::optional<Matrix> matrix = ParseMatrix(json);
  if (!matrix) return;
  std::vector<Row> rows = {{"true \\ predicted"}};
  for (size_t i = 0; i < matrix->labels.size(); ++i) {
    const std::string label = Cut(Printable(matrix->labels[i]), kLabelColumns);
    rows[0].push_back(label);
    rows.push_back({label});
    for (int64_t count : matrix->counts[i]) {
      rows.back().push_back(absl::StrCat(count));
    }
  }
  PrintRows(rows, out);
}

}  // namespace mpsd::client
