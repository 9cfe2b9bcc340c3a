// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class InfoTest : public ClientTest {
 protected:
  InfoTest() {
    info_.set_version("0.1.0");
    SetTime(info_.mutable_start_time(), absl::Minutes(5));
    info_.set_state_dir("/state");
    info_.set_disk_free_bytes(2'000'000'000);
    info_.set_schema_version(1);
    info_.set_protocol_version(1);
  }

  v1::InfoResponse& info_ = data().info;
};

TEST_F(InfoTest, BeforeAWorkerRan) {
  data().who.set_user("ann");
  data().who.set_role(v1::ROLE_USER);
  data().who.set_way(v1::WAY_SOCKET);
  EXPECT_THAT(RunVerb({"info"}),
              Prints("mpsd           0.1.0 at unix:" + socket_.string() +
                     ", up 5m00s\n"
                     "you            ann, user, by the socket\n"
                     "device         unknown until a worker has run\n"
                     "platform       -\n"
                     "jobs           0 running, 0 queued\n"
                     "state folder   /state, 1.86 GiB free\n"
                     "metrics        off\n"
                     "schema         1\n"
                     "protocol       1\n"));
  const auto json = ParseJson(RunVerb({"info", "--json"}).out);
  EXPECT_EQ(json["version"], "0.1.0");
  EXPECT_EQ(json["disk_free_bytes"], 2'000'000'000);
  EXPECT_TRUE(json["memory"].is_null());
}

TEST_F(InfoTest, WhileAJobRuns) {
  info_.set_device("mps");
  info_.mutable_memory()->set_current_allocated_bytes(3'000'000'000);
  info_.mutable_memory()->set_recommended_max_bytes(48'000'000'000);
  info_.set_running_jobs(1);
  info_.set_queued_jobs(2);
  info_.set_running_job_id(kId);
  info_.set_metrics_address("127.0.0.1:9464");
  info_.add_api_addresses("unix:/s/mpsd.sock");
  info_.add_api_addresses("0.0.0.0:7433");
  info_.set_api_tls(true);
  info_.mutable_host()->set_on_battery(true);
  info_.mutable_pause()->add_reasons(v1::PAUSE_REASON_BATTERY);
  info_.set_hold("the self-test of the device failed");
  info_.set_hold_reason("device");
  const std::string out = RunVerb({"info"}).out;
  for (const char* line :
       {"device         mps, 2.79 GiB allocated, 44.70 GiB recommended at "
        "most\n",
        "machine        battery\n",
        "paused         on battery or in Low Power Mode\n",
        "jobs wait      device: the self-test of the device failed\n",
        "jobs           1 running, 2 queued; now 01KAH0000000000000000000AA\n",
        "API            unix:/s/mpsd.sock\n"
        "API            0.0.0.0:7433, with TLS\n"
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
  EXPECT_THAT(plain, HasSubstr("you            ann, admin, by the socket\n"));
  EXPECT_EQ(plain.find("certificate"), std::string::npos);
  SetTime(who.mutable_certificate_expire_time(), -absl::Hours(24 * 10));
  EXPECT_THAT(
      RunVerb({"info"}).out,
      HasSubstr("certificate    until 2026-01-12 (10 days): have its admin run "
                "`mpsd tls renew` SOON\n"));
}

class DoctorTest : public ClientTest {
 protected:
  DoctorTest() {
    data().info.set_version(MPSD_VERSION);
    v1::Diagnosis well;
    well.set_verdict(v1::VERDICT_PASS);
    SetTime(well.mutable_time(), absl::ZeroDuration());
    Add(well, "machine.architecture", v1::VERDICT_PASS, "arm64, native", "");
    runbook().diagnoses = {well};
  }
  v1::Diagnosis& First() { return runbook().diagnoses.front(); }

  static void Add(v1::Diagnosis& diagnosis, const std::string& name,
                  v1::Verdict verdict, const std::string& found,
                  const std::string& advice) {
    v1::Finding& finding = *diagnosis.add_findings();
    finding.set_name(name);
    finding.set_verdict(verdict);
    finding.set_found(found);
    finding.set_advice(advice);
    if (verdict > diagnosis.verdict()) diagnosis.set_verdict(verdict);
  }
};

TEST_F(DoctorTest, AllIsWell) {
  EXPECT_THAT(RunVerb({"doctor"}),
              Ends(0,
                   AllOf(HasSubstr("VERDICT  GATE"),
                         HasSubstr("ok       daemon.reachable"),
                         HasSubstr("ok       client.version"),
                         HasSubstr("ok       client.round_trip"),
                         HasSubstr("ok       client.clock"),
                         HasSubstr("ok       machine.architecture"),
                         HasSubstr("arm64, native"),
                         HasSubstr("\nok: 5 ok, 0 warn, 0 fail, 0 unknown\n"),
                         Not(HasSubstr("What to do"))),
                   ""));
  First().set_selftest_running(true);
  EXPECT_EQ(RunVerb({"doctor"}).code, 0);
  EXPECT_EQ(sleeps_, 0);
}

TEST_F(DoctorTest, AWarningIsOneAndAFailureTwo) {
  Add(First(), "power.source", v1::VERDICT_WARN, "battery, 62 %",
      "Plug it in.");
  Add(First(), "power.thermal", v1::VERDICT_UNSPECIFIED, "unknown", "");
  EXPECT_THAT(
      RunVerb({"doctor"}),
      Ends(1, AllOf(HasSubstr("warn     power.source"),
                    HasSubstr("unknown  power.thermal"),
                    HasSubstr("What to do:\npower.source: Plug it in.\n"),
                    HasSubstr("warn: 5 ok, 1 warn, 0 fail, 1 unknown"))));
  Add(First(), "torch.matmul", v1::VERDICT_FAIL, "WRONG", "Restart.");
  EXPECT_THAT(RunVerb({"doctor"}),
              Ends(2, HasSubstr("fail: 5 ok, 1 warn, 1 fail")));
}

TEST_F(DoctorTest, TheClientsOwnFindingsCount) {
  data().info.set_version("9.9.9");
  SetTime(data().who.mutable_certificate_expire_time(), absl::Hours(1));
  SetTime(First().mutable_time(), absl::Hours(1));
  EXPECT_THAT(RunVerb({"doctor"}),
              Ends(2, AllOf(HasSubstr("warn     client.version"),
                            HasSubstr("fail     daemon.certificate"),
                            HasSubstr("warn     client.clock"))));
}

TEST_F(DoctorTest, DeepWaitsForTheSelftest) {
  v1::Diagnosis running = First();
  running.set_selftest_running(true);
  Add(running, "device.selftest", v1::VERDICT_UNSPECIFIED, "it runs now", "");
  v1::Diagnosis done = First();
  Add(done, "device.selftest", v1::VERDICT_FAIL, "failed: bmm", "Restart.");
  runbook().diagnoses = {running, running, done};
  const Result result = RunVerb({"doctor", "--deep"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(sleeps_, 2);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("failed: bmm"), Not(HasSubstr("it runs now"))));
  ASSERT_EQ(runbook().asked.size(), 3u);
  EXPECT_TRUE(runbook().asked[0].deep());
  EXPECT_FALSE(runbook().asked[1].deep());
}

TEST_F(DoctorTest, ADaemonThatIsAwayIsAReportedFailure) {
  daemon_->Stop();
  EXPECT_THAT(RunVerb({"doctor"}),
              Ends(2,
                   AllOf(HasSubstr("fail     daemon.reachable"),
                         HasSubstr("0 ok, 0 warn, 1 fail")),
                   HasSubstr("cannot reach mpsd")));
  EXPECT_EQ(ParseJson(RunVerb({"doctor", "--json"}).out)["verdict"], "FAIL");
}

TEST_F(DoctorTest, Thresholds) {
  EXPECT_THAT(RunVerb({"doctor", "--threshold", "doctor.disk_free=5e9"}),
              Prints());
  EXPECT_EQ(runbook().asked.back().thresholds().at("doctor.disk_free"), 5e9);
  EXPECT_THAT(RunVerb({"doctor", "--threshold", "doctor.nothing=1"}),
              Ends(2, "", HasSubstr("doctor.nothing")));
}

TEST_F(DoctorTest, TheEnvironmentIsShownWhereItDrifted) {
  v1::EnvironmentVariable& same = *First().add_environment();
  same.set_name("LANG");
  same.set_daemon("C");
  v1::EnvironmentVariable& drifted = *First().add_environment();
  drifted.set_name("OMP_NUM_THREADS");
  drifted.set_service("8");
  drifted.set_daemon("1\x1b[2J");
  drifted.set_differs(true);
  EXPECT_THAT(RunVerb({"doctor"}).out,
              AllOf(HasSubstr("OMP_NUM_THREADS  8"), HasSubstr("1\\x1b[2J"),
                    Not(HasSubstr("LANG"))));
}

// Whatever a hostile daemon says: nothing steers the terminal.
TEST_F(DoctorTest, NoTextSteersTheTerminal) {
  Add(First(), "\x1b[2J", v1::VERDICT_WARN, "\x1b]0;x\a\n", "\x1b[31m");
  EXPECT_THAT(RunVerb({"doctor"}).out, Not(HasSubstr("\x1b")));
  Fail("Diagnose", StatusCode::PERMISSION_DENIED, "viewers may not");
  EXPECT_THAT(RunVerb({"doctor", "--deep"}),
              Ends(2, HasSubstr("viewers may not")));
}

}  // namespace
}  // namespace mpsd::client
