// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class InfoTest : public ClientTest {
 protected:
  InfoTest() {
    v1::InfoResponse& info = data().info;
    info.set_version("0.1.0");
    SetTime(info.mutable_start_time(), absl::Minutes(5));
    info.set_state_dir("/state");
    info.set_disk_free_bytes(2'000'000'000);
    info.set_schema_version(1);
    info.set_protocol_version(1);
  }
};

TEST_F(InfoTest, BeforeAWorkerRan) {
  data().who.set_user("ann");
  data().who.set_role(v1::ROLE_USER);
  data().who.set_way(v1::WAY_SOCKET);
  const Result result = RunVerb({"info"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "mpsd           0.1.0 at unix:" + socket_.string() +
                            ", up 5m00s\n"
                            "you            ann, user, by the socket\n"
                            "worker         -\n"
                            "torch          -\n"
                            "device         not known before a worker ran\n"
                            "platform       -\n"
                            "jobs           0 running, 0 queued\n"
                            "state folder   /state, 2.0 GB free\n"
                            "metrics        off\n"
                            "schema         1\n"
                            "protocol       1\n");
}

TEST_F(InfoTest, WhileAJobRuns) {
  v1::InfoResponse& info = data().info;
  info.set_device("mps");
  info.mutable_memory()->set_current_allocated_bytes(3'000'000'000);
  info.mutable_memory()->set_recommended_max_bytes(48'000'000'000);
  info.set_running_jobs(1);
  info.set_queued_jobs(2);
  info.set_running_job_id(kId);
  info.set_metrics_address("127.0.0.1:9464");
  info.mutable_host()->set_on_battery(true);
  info.mutable_pause()->add_reasons(v1::PAUSE_REASON_BATTERY);
  info.set_hold("the self-test of the device failed");
  info.set_hold_reason("device");
  const std::string out = RunVerb({"info"}).out;
  for (const char* line :
       {"device         mps, 3.0 GB allocated, 48.0 GB recommended at most\n",
        "machine        battery\n",
        "paused         on battery or in Low Power Mode\n",
        "jobs wait      device: the self-test of the device failed\n",
        "jobs           1 running, 2 queued; now 01KAH0000000000000000000AA\n",
        "metrics        http://127.0.0.1:9464/metrics\n"}) {
    EXPECT_NE(out.find(line), std::string::npos) << out;
  }
}

TEST_F(InfoTest, WhoYouAreAndHowLongTheCertificateLasts) {
  v1::WhoAmIResponse& who = data().who;
  who.set_user("ann");
  who.set_role(v1::ROLE_ADMIN);
  who.set_way(v1::WAY_SOCKET);
  const std::string plain = RunVerb({"info"}).out;
  EXPECT_NE(plain.find("you            ann, admin, by the socket\n"),
            std::string::npos);
  EXPECT_EQ(plain.find("certificate"), std::string::npos);
  SetTime(who.mutable_certificate_expire_time(), -absl::Hours(24 * 10));
  EXPECT_NE(RunVerb({"info"}).out.find(
                "certificate    until 2026-01-12 (10 days): have its admin run "
                "`mpsd tls renew` SOON\n"),
            std::string::npos);
}

TEST_F(InfoTest, WhereTheMetricsAre) {
  v1::InfoResponse& info = data().info;
  info.set_metrics_address("mac:9464");
  info.set_metrics_tls(true);
  EXPECT_NE(RunVerb({"info"}).out.find("  https://mac:9464/metrics\n"),
            std::string::npos);
  info.set_metrics_address("unix:/run/m");
  EXPECT_NE(RunVerb({"info"}).out.find("metrics        unix:/run/m\n"),
            std::string::npos);
}

TEST_F(InfoTest, WhereThePageIs) {
  v1::InfoResponse& info = data().info;
  EXPECT_EQ(RunVerb({"info"}).out.find("web page"), std::string::npos);
  info.set_page_address("127.0.0.1:9465");
  EXPECT_NE(
      RunVerb({"info"}).out.find("web page       http://127.0.0.1:9465/\n"),
      std::string::npos);
  info.set_page_address("unix:/run/p");
  EXPECT_NE(RunVerb({"info"}).out.find("web page       unix:/run/p\n"),
            std::string::npos);
}

TEST_F(InfoTest, Json) {
  const auto json = nlohmann::json::parse(RunVerb({"info", "--json"}).out);
  EXPECT_EQ(json["version"], "0.1.0");
  EXPECT_EQ(json["disk_free_bytes"], 2'000'000'000);
  EXPECT_TRUE(json["memory"].is_null());
}

TEST_F(InfoTest, WhatTheStateFolderHas) {
  data().info.set_state_dir("/state");
  data().info.set_disk_free_bytes(2'000'000'000);
  data().info.set_state_bytes(18'200'000);
  EXPECT_THAT(RunVerb({"info"}).out,
              testing::HasSubstr("/state, 18.2 MB, 2.0 GB free\n"));
  data().info.set_state_budget_bytes(1'100'000'000'000);
  EXPECT_THAT(RunVerb({"info"}).out,
              testing::HasSubstr(
                  "/state, 18.2 MB of a budget of 1.1 TB, 2.0 GB free\n"));
}

}  // namespace
}  // namespace mpsd::client
