// SPDX-License-Identifier: Apache-2.0
#include "server/http/daemon_metrics.h"

#include <iterator>
#include <thread>

#include "server/http/families.h"
#include "server/http/job_metrics.h"
#include "server/store/job.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/fake_clock.h"
#include "tests/server/http/scraped.h"
#include "tests/server/http/served.h"

namespace mpsd::prometheus {
namespace {

using http::Get;

TEST(BoundedLabel, IsShortAndPrintable) {
  EXPECT_EQ(BoundedLabel("night run"), "night run");
  EXPECT_EQ(BoundedLabel(std::string(kLabelBytes, 'x')),
            std::string(kLabelBytes, 'x'));
  EXPECT_LE(BoundedLabel(std::string(kLabelBytes + 1, 'x')).size(),
            kLabelBytes);
  EXPECT_TRUE(BoundedLabel(std::string(kLabelBytes + 1, 'x')).ends_with("…"));
  EXPECT_EQ(BoundedLabel("a\nb\xff"), "a\\nb\\xff");
}

class DaemonMetricsTest : public Scraped {
 protected:
  std::vector<::prometheus::MetricFamily> Collect() const override {
    return metrics_.Collect();
  }
  fakes::FakeClock clock_;
  DaemonMetrics metrics_{clock_};
};

TEST_F(DaemonMetricsTest, ManyReportAndCollectAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int n = 0; n < 200; ++n) {
        SetEverythingOf(metrics_);
        metrics_.Collect();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Shows("mpsd_database_commit_seconds_count 800");
}

class RpcMetricsTest : public Scraped {
 protected:
  RpcMetricsTest() {
    metrics_.MethodServed(get_);
    metrics_.MethodServed(watch_);
  }
  std::vector<::prometheus::MetricFamily> Collect() const override {
    return registry_.Collect();
  }

  const jobs::CallMethod get_{"JobService.Get", /*is_stream=*/false};
  const jobs::CallMethod watch_{"JobService.Watch", /*is_stream=*/true};
  ::prometheus::Registry registry_;
  RpcMetrics metrics_{registry_};
};

TEST_F(RpcMetricsTest, AServedMethodsSeriesStartAtZero) {
  Shows(R"(mpsd_rpc_requests_total{code="ok",method="JobService.Get"} 0
           mpsd_rpc_requests_total{code="internal",method="JobService.Watch"} 0
           mpsd_rpc_seconds_count{method="JobService.Get"} 0
           mpsd_rpc_open_streams{method="JobService.Watch"} 0)");
  Lacks(R"(mpsd_rpc_seconds_count{method="JobService.Watch"})");
  Lacks(R"(mpsd_rpc_open_streams{method="JobService.Get"})");
}

TEST_F(RpcMetricsTest, AUnaryCallIsCountedAndTimed) {
  metrics_.CallStarted(get_);
  metrics_.CallEnded(get_, absl::StatusCode::kNotFound, absl::Milliseconds(7));
  Shows(R"(mpsd_rpc_requests_total{code="not_found",method="JobService.Get"} 1
           mpsd_rpc_seconds_bucket{method="JobService.Get",le="0.005"} 0
           mpsd_rpc_seconds_bucket{method="JobService.Get",le="0.01"} 1)");
}

TEST_F(RpcMetricsTest, AStreamIsOpenUntilItEnds) {
  metrics_.CallStarted(watch_);
  metrics_.CallStarted(watch_);
  Shows(R"(mpsd_rpc_open_streams{method="JobService.Watch"} 2)");
  metrics_.CallEnded(watch_, absl::StatusCode::kCancelled, absl::Hours(3));
  Shows(R"(mpsd_rpc_open_streams{method="JobService.Watch"} 1
           mpsd_rpc_requests_total{code="cancelled",method="JobService.Watch"} 1)");
}

// A status that gRPC sends on may have any number.
TEST_F(RpcMetricsTest, CodesThatDoNotExistHaveOneName) {
  metrics_.CallEnded(get_, static_cast<absl::StatusCode>(17), {});
  const size_t series = Series();
  for (int code : {-1, 18, 99, 1 << 30}) {
    metrics_.CallEnded(get_, static_cast<absl::StatusCode>(code), {});
  }
  EXPECT_EQ(Series(), series);
  Shows(R"(mpsd_rpc_requests_total{code="unknown",method="JobService.Get"} 5)");
}

TEST_F(RpcMetricsTest, EveryCodeHasItsNameInSnakeCase) {
  for (size_t code = 0; code < std::size(kRpcCodes); ++code) {
    EXPECT_EQ(kRpcCodes[code], SnakeCase(absl::StatusCodeToString(
                                   static_cast<absl::StatusCode>(code))));
  }
  EXPECT_EQ(absl::StatusCodeToString(
                static_cast<absl::StatusCode>(std::size(kRpcCodes))),
            "");
}

// What decides how long a scrape takes, counted: the series of a daemon that
// ran a thousand jobs.
constexpr absl::Duration kLinger = absl::Minutes(10);

class ScrapeSizeTest : public Scraped {
 protected:
  std::vector<::prometheus::MetricFamily> Collect() const override {
    std::vector<::prometheus::MetricFamily> families = jobs_.Collect();
    for (auto& family : daemon_.Collect()) families.push_back(family);
    return families;
  }
  void RunJob(int number) {
    const std::string id = "J" + std::to_string(number);
    const std::string owner = "owner" + std::to_string(number);
    jobs_.QueueChanged({{{number, 1}}, {{owner, 1}}, clock_.Now()});
    jobs_.JobStarted({id, "night run", owner, "CAUSAL_LM", "org/tiny", {}});
    jobs::Progress progress;
    progress.step = 1;
    progress.total_steps = 1;
    progress.device = "mps";
    jobs_.StepFinished(id, progress);
    jobs_.Evaluated(id, "mps", {1, 1, 0, 0, {{"accuracy", 1}, {"f1", 1}}});
    jobs_.CheckpointWritten(id, "mps", 1);
    jobs_.WorkerExited(jobs::ExitReason::kDone);
    jobs_.JobEnded(id, jobs::State::kSucceeded);
    SetEverythingOf(daemon_);
  }

  fakes::FakeClock clock_;
  JobMetrics jobs_{{{{"version", "0.1.0"}}, kLinger}, clock_};
  DaemonMetrics daemon_{clock_};
};

TEST_F(ScrapeSizeTest, JobsThatEndedLongAgoCostNothing) {
  // The first hundred meet the caps of owners and priorities.
  for (int i = 0; i < 100; ++i) RunJob(i);
  clock_.Advance(kLinger);
  const size_t series = Series(), bytes = Text().size();
  for (int i = 100; i < 1100; ++i) {
    RunJob(i);
    clock_.Advance(absl::Minutes(1));
  }
  clock_.Advance(kLinger);
  EXPECT_EQ(Series(), series);
  EXPECT_EQ(jobs_.job_series(), 0u);
  // Counts have more digits now.
  EXPECT_LT(Text().size(), bytes + 1000);
}

// A client's loop of jobs that fail at once.
TEST_F(ScrapeSizeTest, OfManyJobsThatEndTogetherTheLastLinger) {
  for (int i = 0; i < 1000; ++i) {
    RunJob(i);
    clock_.Advance(absl::Milliseconds(100));
  }
  EXPECT_EQ(jobs_.job_series(), JobMetrics::kMostLingering);
  EXPECT_LT(Series(), 2500u);
  const std::string text = Text();
  EXPECT_NE(text.find("\"J999\""), std::string::npos);
  EXPECT_NE(text.find("\"J900\""), std::string::npos);
  EXPECT_EQ(text.find("\"J899\""), std::string::npos);
}

// However many jobs end, those that still run keep their series.
TEST_F(ScrapeSizeTest, AJobThatHasNotEndedKeepsItsSeries) {
  jobs_.JobStarted({"waits", "night run", "ada", "CAUSAL_LM", "org/tiny", {}});
  for (int i = 0; i < 200; ++i) RunJob(i);
  EXPECT_EQ(jobs_.job_series(), JobMetrics::kMostLingering + 1);
  EXPECT_NE(Text().find("\"waits\""), std::string::npos);
}

class ExpositionTest : public testing::Test {
 protected:
  ExpositionTest() {
    options_.address = "127.0.0.1:0";
    ::prometheus::BuildGauge()
        .Name("answer")
        .Help(std::string(2000, 'h'))
        .Register(registry_)
        .Add({})
        .Set(42);
  }
  absl::Status Start() {
    auto exposition = Exposition::Start(options_, {&registry_, &more_});
    if (!exposition.ok()) return exposition.status();
    exposition_ = *std::move(exposition);
    return absl::OkStatus();
  }

  ::prometheus::Registry registry_, more_;
  http::Server::Options options_;
  std::unique_ptr<Exposition> exposition_;
};

TEST_F(ExpositionTest, ServesTheMetricsOfEverySource) {
  ::prometheus::BuildGauge().Name("more").Register(more_).Add({}).Set(7);
  ASSERT_TRUE(Start().ok());
  const std::string address = exposition_->address();
  const std::string text = Get(address, "/metrics");
  EXPECT_THAT(text, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(text, HasSubstr("\nanswer 42\n"));
  EXPECT_THAT(text, HasSubstr("\nmore 7\n"));
  EXPECT_THAT(text, Not(HasSubstr("certificate")));
  EXPECT_THAT(Get(address, "/metrics?x=y"), HasSubstr("\nanswer 42\n"));
  EXPECT_THAT(Get(address, "/healthz"), EndsWith("\r\n\r\nok\n"));
  for (const char* target :
       {"/", "/healthz/", "/metrics/", "/metricsx", "/../metrics"}) {
    EXPECT_THAT(Get(address, target), StartsWith("HTTP/1.1 404 ")) << target;
  }
  exposition_.reset();
  EXPECT_EQ(Get(address, "/metrics"), "");
}

}  // namespace
}  // namespace mpsd::prometheus
