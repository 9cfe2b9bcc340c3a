// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/diagnose_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/doctor/fake_machine.h"

namespace mpsd::rpc {
namespace {

using doctor::Facts;
using testing::HasSubstr;

class FakeExaminer final : public doctor::Examiner {
 public:
  absl::StatusOr<Facts> Examine(
      bool deep, const std::function<absl::Status()>& wanted) override {
    deep_ = deep;
    if (absl::Status s = wanted(); !s.ok()) return s;
    return facts_;
  }
  Facts facts_ = doctor::HealthyMac();
  bool deep_ = false;
};

Call CallOf(access::Role role) {
  access::Caller caller;
  caller.role = role;
  return Call{access::Rights(caller, false), [] { return absl::OkStatus(); },
              ""};
}

class DiagnoseCallTest : public testing::Test {
 protected:
  absl::Status Ask(access::Role role = access::Role::kViewer) {
    Call call = CallOf(role);
    response_.Clear();
    return Diagnose(&examiner_, call, request_, response_);
  }
  FakeExaminer examiner_;
  v1::DiagnoseRequest request_;
  v1::Diagnosis response_;
};

TEST_F(DiagnoseCallTest, HasTheVerdictTheFindingsAndTheFacts) {
  ASSERT_TRUE(Ask().ok());
  EXPECT_EQ(response_.verdict(), v1::VERDICT_PASS);
  EXPECT_GE(response_.findings_size(), 25);
  EXPECT_EQ(response_.findings(0).name(), "machine.architecture");
  EXPECT_EQ(response_.machine().chip(), "Apple M4 Pro");
  EXPECT_EQ(response_.machine().fast_cores(), 10);
  EXPECT_EQ(response_.host().low_power_mode(), false);
  EXPECT_EQ(response_.worker().end(), v1::WorkerGates::END_DONE);
  EXPECT_EQ(response_.worker().backends(0).name(), "mps");
  EXPECT_TRUE(response_.worker().matmul().right());
  EXPECT_EQ(response_.selftest().state(), v1::SelftestFacts::STATE_PASSED);
  EXPECT_EQ(response_.disk().write_bytes_per_second(), 3e9);
  EXPECT_EQ(response_.mounts(0).type(), "apfs");
  EXPECT_EQ(response_.processes(0).name(), "WindowServer");
  EXPECT_EQ(response_.limits().descriptors(), 8192);
  EXPECT_TRUE(response_.service().runs_mpsd());
  EXPECT_EQ(response_.environment(0).name(), "OMP_WAIT_POLICY");
  EXPECT_TRUE(response_.has_time());
}

// What the machine does not tell is absent in the message, too.
TEST_F(DiagnoseCallTest, WhatIsNotToldIsAbsent) {
  examiner_.facts_ = Facts{};
  ASSERT_TRUE(Ask().ok());
  EXPECT_FALSE(response_.machine().has_translated());
  EXPECT_FALSE(response_.host().has_on_battery());
  EXPECT_FALSE(response_.worker().has_matmul());
  EXPECT_FALSE(response_.worker().has_time());
  EXPECT_FALSE(response_.disk().has_free_bytes());
  EXPECT_FALSE(response_.disk().has_write_bytes_per_second());
  EXPECT_FALSE(response_.limits().has_descriptors());
  EXPECT_FALSE(response_.service().has_runs_mpsd());
  EXPECT_EQ(response_.selftest().state(), v1::SelftestFacts::STATE_UNSPECIFIED);
}

// Whatever bytes a program calls itself by: the message is UTF-8.
TEST_F(DiagnoseCallTest, NamesOfAnyBytesMakeAMessage) {
  const std::string evil = "\xff\x1b[2J" + std::string(10'000, 'x');
  examiner_.facts_.processes->push_back({1, evil, int64_t{40} << 30, true});
  examiner_.facts_.service.file = evil;
  examiner_.facts_.service.runs_mpsd = false;
  examiner_.facts_.mounts[1].folder = evil;
  examiner_.facts_.worker.environment["LD_" + evil] = evil;
  ASSERT_TRUE(Ask().ok());
  EXPECT_EQ(response_.verdict(), v1::VERDICT_WARN);
  v1::Diagnosis parsed;
  EXPECT_TRUE(parsed.ParseFromString(response_.SerializeAsString()));
}

TEST_F(DiagnoseCallTest, ThresholdsAreChecked) {
  (*request_.mutable_thresholds())["doctor.disk_free"] = 1e15;
  ASSERT_TRUE(Ask().ok());
  EXPECT_EQ(response_.verdict(), v1::VERDICT_WARN);
  (*request_.mutable_thresholds())["doctor.nothing"] = 1;
  EXPECT_TRUE(absl::IsInvalidArgument(Ask()));
  request_.clear_thresholds();
  for (int i = 0; i < 65; ++i) {
    (*request_.mutable_thresholds())[std::to_string(i)] = 1;
  }
  EXPECT_THAT(std::string(Ask().message()), HasSubstr("at most 64"));
}

// Who may is the gate's to say.
TEST_F(DiagnoseCallTest, DeepIsHandedOn) {
  request_.set_deep(true);
  EXPECT_TRUE(Ask(access::Role::kUser).ok());
  EXPECT_TRUE(examiner_.deep_);
}

TEST_F(DiagnoseCallTest, WithoutADoctorItIsOff) {
  Call call = CallOf(access::Role::kAdmin);
  EXPECT_TRUE(
      absl::IsUnimplemented(Diagnose(nullptr, call, request_, response_)));
}

}  // namespace
}  // namespace mpsd::rpc
