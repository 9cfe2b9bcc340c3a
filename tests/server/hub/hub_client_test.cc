// SPDX-License-Identifier: Apache-2.0
#include "server/hub/hub_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/hub/fake_hub.h"

namespace mpsd::hub {
namespace {

using Json = nlohmann::json;
using absl::StatusCode;
using testing::HasSubstr;
using testing::Not;

struct Bytes : HubClient::Receiver {
  absl::Status Begin(int64_t from) override {
    ++begins;
    offset = from;
    return absl::OkStatus();
  }
  absl::Status Take(std::string_view bytes) override {
    got += bytes;
    return got.size() > 1 << 20 ? absl::DataLossError("too long")
                                : absl::OkStatus();
  }
  int begins = 0;
  int64_t offset = -1;
  std::string got;
};

class HubClientTest : public testing::Test {
 protected:
  HubClientTest() {
    for (const char* name : {"http_proxy", "all_proxy", "ALL_PROXY"}) {
      unsetenv(name);
    }
    hub_.Write("org/m/config.json", kLlamaConfig);
    hub_.Write("org/m/model.safetensors", weights_);
    hub_.Write("gated/m/config.json", kLlamaConfig);
    hub_.Write("gated/m/model.safetensors", weights_);
    hub_.Write("private/m/config.json", kLlamaConfig);
    hub_.Write("private/m/model.safetensors", weights_);
    settings_.url = hub_.url();
    settings_.allow_private = true;
  }
  void SetUp() override { Ask(); }

  // A client with the settings and the token as they are now.
  HubClient& Ask() {
    fetch::Client::Options options;
    options.connect_timeout = absl::Minutes(1);
    options.stall = stall_;
    client_ = std::make_unique<HubClient>(settings_, token_, options);
    return *client_;
  }
  Listing Describe(const std::string& id = "org/m") {
    return client_->Describe(id, "main").value();
  }
  absl::Status DescribeError(const std::string& id = "org/m",
                             const std::string& revision = "main") {
    return client_->Describe(id, revision).status();
  }
  absl::Status Get(const Listing& listing, const std::string& path,
                   int64_t offset = 0, const std::string& id = "org/m") {
    bytes_ = {};
    return client_->Download(id, listing.commit, *listing.Find(path), offset,
                             bytes_);
  }
  absl::Status GetWeights(int64_t offset = 0) {
    return Get(listing_, "model.safetensors", offset);
  }
  void Fault(Json fault) {
    if (!fault.contains("path")) fault["path"] = "/repos/";
    hub_.SetFaults(Json::array({fault}));
  }

  const std::string weights_ = Weights(10'000);
  FakeHub hub_{testing_support::FreshFolder("hub_client")};
  Settings settings_;
  std::string token_;
  absl::Duration stall_ = absl::Minutes(1);  // a busy machine is no stall
  std::unique_ptr<HubClient> client_;
  Listing listing_;
  Bytes bytes_;
};

TEST_F(HubClientTest, ListsAndDownloadsAcrossRedirects) {
  listing_ = Describe();
  EXPECT_EQ(listing_.files.size(), 2u);
  ASSERT_TRUE(Get(listing_, "config.json").ok());
  EXPECT_EQ(bytes_.got, kLlamaConfig);
  ASSERT_TRUE(GetWeights().ok());
  EXPECT_EQ(bytes_.got, weights_);
  EXPECT_EQ(bytes_.begins, 1);
  ASSERT_TRUE(GetWeights(9'990).ok());
  EXPECT_EQ(bytes_.got, weights_.substr(9'990));
  EXPECT_EQ(bytes_.offset, 9'990);
}

TEST_F(HubClientTest, AFileOfNoBytesBeginsToo) {
  hub_.Write("org/m/vocab.txt", "");
  listing_ = Describe();
  ASSERT_TRUE(Get(listing_, "vocab.txt").ok());
  EXPECT_EQ(bytes_.begins, 1);
}

TEST_F(HubClientTest, TheTokenGoesToTheHubAlone) {
  token_ = "hf_member";
  Ask();
  const Listing gated = Describe("gated/m");
  ASSERT_TRUE(Get(gated, "model.safetensors", 0, "gated/m").ok());
  bool hub = false, cdn = false;
  for (const Json& entry : hub_.Log()) {
    const bool own = entry["server"] == "hub";
    EXPECT_EQ(entry["authorization"], own ? "Bearer hf_member" : "");
    (own ? hub : cdn) = true;
  }
  EXPECT_TRUE(hub && cdn);
}

// Same host, other port: another server, maybe another user's.
TEST_F(HubClientTest, TheTokenFollowsNoRedirectElsewhere) {
  token_ = "hf_member";
  Ask();
  Fault({{"path", "^/api/models/org"},
         {"kind", "redirect"},
         {"to", hub_.cdn() + "/steal"}});
  EXPECT_FALSE(DescribeError().ok());
  const Json last = hub_.Log().back();
  EXPECT_EQ(last["server"], "cdn");
  EXPECT_EQ(last["authorization"], "");
}

TEST_F(HubClientTest, SaysWhyTheHubRefuses) {
  EXPECT_EQ(DescribeError("org/none").code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(DescribeError("org/none").message()),
              HasSubstr("has no model org/none, or it is private and mpsd has "
                        "no token for it (--hub-token-file)"));
  EXPECT_EQ(DescribeError("private/m").code(), StatusCode::kNotFound);
  EXPECT_EQ(DescribeError("org/m", "v9").code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(DescribeError("org/m", "v9").message()),
              HasSubstr("no revision v9 of org/m"));
  const Listing gated = Describe("gated/m");
  for (const char* token : {"", "hf_other"}) {
    token_ = token;
    Ask();
    const absl::Status refused = Get(gated, "model.safetensors", 0, "gated/m");
    EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("is gated"));
  }
  token_ = "hf_stale";
  Ask();
  EXPECT_EQ(DescribeError().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(DescribeError().message()),
              HasSubstr("does not take mpsd's token"));
}

TEST_F(HubClientTest, WhatMayEndWellLaterIsUnavailable) {
  for (const int code : {408, 429, 500, 502, 503, 504}) {
    Fault({{"path", "/api/models"},
           {"kind", "status"},
           {"code", code},
           {"headers", {{"Retry-After", "7"}}}});
    EXPECT_EQ(DescribeError().code(), StatusCode::kUnavailable) << code;
    EXPECT_EQ(client_->asked_wait(), absl::Seconds(7));
  }
  for (const int code : {400, 402, 410, 451}) {
    Fault({{"path", "/api/models"}, {"kind", "status"}, {"code", code}});
    EXPECT_EQ(DescribeError().code(), StatusCode::kFailedPrecondition) << code;
  }
}

// A signed link that has ended; the hub gives a new one.
TEST_F(HubClientTest, ARefusalOfTheOtherServerIsTriedAgain) {
  listing_ = Describe();
  for (const int code : {400, 403, 404}) {
    Fault({{"kind", "status"}, {"code", code}});
    EXPECT_EQ(GetWeights().code(), StatusCode::kUnavailable) << code;
  }
}

TEST_F(HubClientTest, AnAnswerThatIsNoJsonNamesTheOption) {
  Fault({{"path", "/api/models"}, {"kind", "json"}, {"body", "<html>Log in"}});
  EXPECT_THAT(std::string(DescribeError().message()),
              HasSubstr("--hub right?"));
}

TEST_F(HubClientTest, ABrokenTransferGivesWhatCame) {
  listing_ = Describe();
  Fault({{"kind", "break"}, {"bytes", 4'000}});
  EXPECT_EQ(GetWeights().code(), StatusCode::kUnavailable);
  EXPECT_EQ(bytes_.got, weights_.substr(0, 4'000));
}

TEST_F(HubClientTest, AServerThatIgnoresTheRangeBeginsAnew) {
  listing_ = Describe();
  Fault({{"kind", "whole"}});
  ASSERT_TRUE(GetWeights(5'000).ok());
  EXPECT_EQ(bytes_.offset, 0);
  EXPECT_EQ(bytes_.got, weights_);
}

TEST_F(HubClientTest, NoBytesAtTheOffsetIsOutOfRange) {
  listing_ = Describe();
  EXPECT_EQ(GetWeights(10'000).code(), StatusCode::kOutOfRange);
}

TEST_F(HubClientTest, HeadersThatContradictTheListAreDataLoss) {
  listing_ = Describe();
  for (const Json& headers :
       {Json{{"X-Repo-Commit", std::string(40, 'd')}},
        Json{{"X-Linked-Etag", "\"" + std::string(64, 'd') + "\""}},
        Json{{"X-Linked-Size", "10001"}}}) {
    Fault({{"path", "/resolve/"}, {"kind", "headers"}, {"headers", headers}});
    EXPECT_EQ(GetWeights().code(), StatusCode::kDataLoss) << headers;
  }
  for (const char* kind : {"more", "less"}) {
    Fault({{"kind", kind}, {"told", true}});
    EXPECT_EQ(GetWeights().code(), StatusCode::kDataLoss) << kind;
    EXPECT_EQ(bytes_.got, "") << "told in time";
  }
}

TEST_F(HubClientTest, ABodyWithoutEndIsTheReceiversToEnd) {
  listing_ = Describe();
  Fault({{"kind", "endless"}});
  const absl::Time start = absl::Now();
  EXPECT_EQ(GetWeights().code(), StatusCode::kDataLoss);
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
}

TEST_F(HubClientTest, AnErrorsBodyWithoutEndIsCut) {
  listing_ = Describe();
  Fault({{"path", "/api/models"},
         {"kind", "status"},
         {"code", 404},
         {"body", std::string(1 << 20, 'x')}});
  EXPECT_EQ(DescribeError().code(), StatusCode::kNotFound);
}

TEST_F(HubClientTest, RedirectsInACircleEnd) {
  Fault({{"path", "/api/models"},
         {"kind", "redirect"},
         {"to", "/api/models/x/y/revision/z"}});
  EXPECT_THAT(std::string(DescribeError().message()),
              HasSubstr("more than 5 times"));
  EXPECT_LE(hub_.Log().size(), 6u);
}

TEST_F(HubClientTest, RedirectsLeadToHttpAlone) {
  for (const char* to : {"file:///etc/passwd", "ftp://example.com/x", "",
                         "http://user:pw@127.0.0.1/", "dict://127.0.0.1:1/x"}) {
    Fault({{"path", "/api/models"}, {"kind", "redirect"}, {"to", to}});
    EXPECT_EQ(DescribeError().code(), StatusCode::kFailedPrecondition) << to;
  }
}

// The hub may stand on this machine where --hub says so; a redirect from there
// to another port of it is another matter.
TEST_F(HubClientTest, NoRedirectLeadsToAPrivateAddress) {
  settings_.allow_private = false;
  Ask();
  listing_ = Describe();
  ASSERT_TRUE(Get(listing_, "config.json").ok()) << "the hub's own";
  const size_t before = hub_.Log().size();
  std::vector<std::string> places = {hub_.cdn() + "/x"};
  for (const char* place :
       {"http://localhost:1/", "http://169.254.169.254/latest/meta-data",
        "http://[::1]:22/", "http://10.0.0.1/", "http://0.0.0.0:1/",
        "http://2130706433:1/", "http://[::ffff:127.0.0.1]:1/"}) {
    places.emplace_back(place);
  }
  for (const std::string& to : places) {
    Fault({{"path", "/resolve/"}, {"kind", "redirect"}, {"to", to}});
    const absl::Status refused = GetWeights();
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << to << refused;
    EXPECT_THAT(std::string(refused.message()),
                testing::AllOf(HasSubstr("not one of the public internet"),
                               HasSubstr("--hub-allow-private")));
  }
  for (size_t i = before; i < hub_.Log().size(); ++i) {
    EXPECT_EQ(hub_.Log()[i]["server"], "hub");
  }
}

TEST_F(HubClientTest, ASilentServerIsTriedAgain) {
  Fault({{"path", "/api/models"}, {"kind", "silent"}});
  stall_ = absl::Seconds(1);
  Ask();
  const absl::Time start = absl::Now();
  EXPECT_EQ(DescribeError().code(), StatusCode::kUnavailable);
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
}

TEST_F(HubClientTest, NoErrorTellsASignature) {
  listing_ = Describe();
  stall_ = absl::Seconds(1);
  Ask();
  for (const Json& fault :
       {Json{{"kind", "status"}, {"code", 403}}, Json{{"kind", "silent"}},
        Json{{"kind", "break"}, {"bytes", 0}}}) {
    Fault(fault);
    EXPECT_THAT(std::string(GetWeights().message()), Not(HasSubstr("s3cret")));
  }
}

TEST_F(HubClientTest, ARevisionIsOnePartOfThePath) {
  EXPECT_EQ(DescribeError("org/m", "refs/pr/1").code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(hub_.Log().back()["path"]),
              HasSubstr("/api/models/org/m/revision/refs/pr/1?blobs=true"));
}

}  // namespace
}  // namespace mpsd::hub
