// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/clean_report.h"

#include <gtest/gtest.h>

#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/limits.h"
#include "core/base/printable.h"

namespace mpsd::supervisor {
namespace {

template <typename Report>
Report Cleaned(Report report) {
  Clean(report);
  return report;
}

TEST(CleanReport, NumbersAndPathsStayAsTheyAre) {
  report::Progress progress;
  progress.step = 1;
  progress.loss = 3;
  progress.padded_tokens = 8;
  progress.device = "mps";
  progress.memory = {8, 9, 10, 11, 12};
  const report::Progress clean = Cleaned(progress);
  EXPECT_EQ(clean.step, 1);
  EXPECT_EQ(clean.loss, 3);
  EXPECT_EQ(clean.padded_tokens, 8);
  EXPECT_EQ(clean.device, "mps");
  EXPECT_EQ(clean.memory.peak_allocated_bytes, 12);
  const std::string path(2 * limits::kVersionBytes, '\n');
  EXPECT_EQ(Cleaned(report::Checkpointed{4, path, 100, 2.5, {path}}).path,
            path);
  EXPECT_EQ(
      Cleaned(report::Checkpointed{4, "", 100, 2.5, {path}}).removed_paths,
      std::vector<std::string>{path});
  report::Outcome outcome;
  outcome.output_path = path;
  EXPECT_TRUE(Clean(outcome));
  EXPECT_EQ(outcome.output_path, path);
}

TEST(CleanReport, TextsAreCutAtTheirLimits) {
  struct Text {
    size_t limit;
    std::function<std::string(const std::string&)> of;
  };
  const Text texts[] = {
      {limits::kMessageBytes,
       [](const std::string& t) {
         return Cleaned(report::Failure{report::FailureKind::kInternal, t})
             .message;
       }},
      {limits::kMessageBytes,
       [](const std::string& t) { return CleanText(t); }},
      {limits::kWarningBytes,
       [](const std::string& t) { return CleanWarning(t); }},
      {limits::kStageBytes, [](const std::string& t) { return CleanStage(t); }},
      {limits::kVersionBytes,
       [](const std::string& t) { return CleanVersion(t); }},
      {limits::kVersionBytes,
       [](const std::string& t) {
         report::Progress progress;
         progress.device = t;
         return Cleaned(progress).device;
       }},
      {limits::kMetricNameBytes,
       [](const std::string& t) {
         return Cleaned(report::Evaluated{1, 0, 0, 0, {{t, 1}}})
             .metrics[0]
             .first;
       }},
      {limits::kMetricNameBytes,
       [](const std::string& t) {
         report::Progress progress;
         progress.cpu_fallback_ops[t] = 1;
         return Cleaned(progress).cpu_fallback_ops.begin()->first;
       }},
  };
  for (size_t i = 0; i < std::size(texts); ++i) {
    const auto& [limit, of] = texts[i];
    const std::string whole(limit, 'x');
    EXPECT_EQ(of(whole), whole) << i;
    EXPECT_EQ(of(whole + "x"), std::string(limit - 3, 'x') + "…") << i;
    const std::string hostile = of(std::string(5 << 20, '\x1b'));
    EXPECT_LE(hostile.size(), limit) << i;
    EXPECT_TRUE(base::IsPrintable(hostile)) << i;
    EXPECT_EQ(of("\xe2\x80\xae\xc2\x9b\xff"), "\\u202e\\u009b\\xff") << i;
  }
}

TEST(CleanReport, OnlyAMessageHasLines) {
  const std::string two = "a\nb";
  EXPECT_EQ(CleanText(two), two);
  EXPECT_EQ(
      Cleaned(report::Failure{report::FailureKind::kInternal, two}).message,
      two);
  EXPECT_EQ(CleanWarning(two), "a\\nb");
  EXPECT_EQ(CleanStage(two), "a\\nb");
}

TEST(CleanReport, ListsEndAtTheirLimits) {
  report::Evaluated evaluated;
  for (size_t i = 0; i < limits::kMetrics; ++i) {
    evaluated.metrics.emplace_back(std::to_string(i), i);
  }
  EXPECT_EQ(Cleaned(evaluated).metrics, evaluated.metrics);
  report::Outcome outcome;
  outcome.metrics = evaluated.metrics;
  outcome.metrics.emplace_back("one more", 0);
  EXPECT_EQ(Cleaned(outcome).metrics, evaluated.metrics);
  report::Progress progress;
  for (size_t i = 0; i <= limits::kFallbackOps; ++i) {
    progress.cpu_fallback_ops[std::to_string(i)] = 1;
  }
  EXPECT_EQ(Cleaned(progress).cpu_fallback_ops.size(), limits::kFallbackOps);
  report::Checkpointed checkpointed;
  checkpointed.removed_paths.assign(limits::kRemovedPaths + 1, "p");
  EXPECT_EQ(Cleaned(checkpointed).removed_paths.size(), limits::kRemovedPaths);
}

std::string Matrix(size_t bytes) {
  const std::string end = R"("],"matrix":[[1]]})";
  std::string text = R"({"labels":[")";
  text.append(bytes - text.size() - end.size(), 'x');
  return text + end;
}

TEST(CleanReport, AMatrixIsKeptWholeOrNotAtAll) {
  const auto of = [](const std::string& matrix) {
    report::Outcome outcome;
    outcome.confusion_matrix = matrix;
    const bool kept = Clean(outcome);
    EXPECT_EQ(kept, matrix.empty() || outcome.confusion_matrix != "");
    return outcome.confusion_matrix;
  };
  EXPECT_EQ(of(Matrix(limits::kMatrixBytes)), Matrix(limits::kMatrixBytes));
  for (const std::string& bad :
       {Matrix(limits::kMatrixBytes + 1), std::string(100'000, '['),
        std::string("{}"), std::string("no JSON"),
        std::string(R"({"labels":{}})"), std::string(R"({"labels":[[]]})")}) {
    EXPECT_EQ(of(bad), "");
  }
  EXPECT_EQ(of(""), "");
  EXPECT_EQ(of("{\"labels\":[\"\x7f\"],\"matrix\":[[1]]}"),
            R"({"labels":["\\x7f"],"matrix":[[1]]})");
}

}  // namespace
}  // namespace mpsd::supervisor
