// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/http/daemon_metrics.h"

namespace mpsd::prometheus {

// A fixture whose metrics a test reads as a scrape has them.
class Scraped : public testing::Test {
 protected:
  virtual std::vector<::prometheus::MetricFamily> Collect() const = 0;

  std::string Text() const {
    return ::prometheus::TextSerializer().Serialize(Collect());
  }
  size_t Series() const {
    size_t series = 0;
    for (const auto& family : Collect()) series += family.metric.size();
    return series;
  }
  // Each line of `lines` is one of the scrape; spaces around it do not count.
  void Shows(const std::string& lines) const {
    const std::string text = "\n" + Text();
    for (const absl::string_view line : absl::StrSplit(lines, '\n')) {
      EXPECT_THAT(text, testing::HasSubstr(absl::StrCat(
                            "\n", absl::StripAsciiWhitespace(line), "\n")));
    }
  }
  void Lacks(const std::string& part) const {
    EXPECT_THAT(Text(), testing::Not(testing::HasSubstr(part)));
  }
};

// Every metric has a series afterwards.
inline void SetEverythingOf(DaemonMetrics& metrics) {
  metrics.rpc().MethodServed({"JobService.Submit", /*is_stream=*/false});
  metrics.rpc().MethodServed({"JobService.Watch", /*is_stream=*/true});
  metrics.disk().SetRoom(10, 20, absl::Minutes(5));
  metrics.disk().SetBytes({{"logs", 1}, {"results", 2}}, absl::Minutes(5));
  metrics.Committed(absl::Milliseconds(1));
  metrics.SelftestPassed("mps", absl::FromUnixSeconds(1'700'000'000));
  metrics.PullsRun(1);
  metrics.PullEnded("succeeded");
  metrics.PullReceived(1);
  metrics.SetBudget(1);
  metrics.Collected(jobs::Collected::kJob, 1, 1);
  metrics.CertificateEnds(absl::FromUnixSeconds(1'800'000'000));
}

}  // namespace mpsd::prometheus
