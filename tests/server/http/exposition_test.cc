// SPDX-License-Identifier: Apache-2.0
#include "server/http/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "tests/server/http/served.h"

namespace mpsd::prometheus {
namespace {

using http::Get;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

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
  std::string Scrape(const std::string& headers = "") const {
    return Get(exposition_->address(), "/metrics", headers,
               options_.tls.has_value());
  }

  ::prometheus::Registry registry_, more_;
  http::Server::Options options_;
  std::unique_ptr<Exposition> exposition_;
};

TEST_F(ExpositionTest, ServesTheMetricsOfEverySource) {
  ::prometheus::BuildGauge().Name("more").Register(more_).Add({}).Set(7);
  ASSERT_TRUE(Start().ok());
  const std::string text = Scrape();
  EXPECT_THAT(text, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(text, HasSubstr("\nanswer 42\n"));
  EXPECT_THAT(text, HasSubstr("\nmore 7\n"));
  EXPECT_THAT(text, Not(HasSubstr("certificate")));
  const std::string address = exposition_->address();
  EXPECT_THAT(Get(address, "/metrics?x=y"), HasSubstr("\nanswer 42\n"));
  EXPECT_THAT(Get(address, "/healthz"), EndsWith("\r\n\r\nok\n"));
  for (const char* target :
       {"/", "/healthz/", "/metrics/", "/metricsx", "/../metrics"}) {
    EXPECT_THAT(Get(address, target), StartsWith("HTTP/1.1 404 ")) << target;
  }
  exposition_.reset();
  EXPECT_EQ(Get(address, "/metrics"), "");
}

TEST_F(ExpositionTest, TellsWhenItsCertificateEnds) {
  options_.tls =
      http::MakeCertificate(testing_support::FreshFolder("exposition"), 10);
  ASSERT_TRUE(Start().ok());
  const std::string text = Scrape();
  const std::string name =
      "\nmpsd_metrics_certificate_expiry_timestamp_seconds ";
  ASSERT_THAT(text, HasSubstr(name));
  EXPECT_NEAR(std::stod(text.substr(text.find(name) + name.size())),
              absl::ToUnixSeconds(absl::Now() + absl::Hours(240)), 3600);
}

TEST_F(ExpositionTest, AFaultNamesTheOption) {
  ASSERT_TRUE(Start().ok());
  options_.address = exposition_->address();
  const absl::Status taken = Start();
  EXPECT_TRUE(absl::IsUnavailable(taken)) << taken;
  EXPECT_THAT(std::string(taken.message()), HasSubstr(options_.address));
  EXPECT_THAT(std::string(taken.message()), HasSubstr("--metrics-address"));
  options_.address = "9464";
  const absl::Status none = Start();
  EXPECT_TRUE(absl::IsInvalidArgument(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("--metrics-address"));
}

}  // namespace
}  // namespace mpsd::prometheus
