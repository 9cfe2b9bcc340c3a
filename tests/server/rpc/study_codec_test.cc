// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/study_codec.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::rpc {
namespace {

using testing::HasSubstr;

TEST(StudyCodec, TheKindIsThatOfTheStudy) {
  v1::SubmitRequest request;
  EXPECT_EQ(KindOf(request), jobs::JobKind::kTraining);
  request.mutable_study()->mutable_smoke();
  EXPECT_EQ(KindOf(request), jobs::JobKind::kSmoke);
  request.set_kind(v1::JOB_KIND_SMOKE);
  EXPECT_EQ(KindOf(request), jobs::JobKind::kSmoke);
}

TEST(StudyCodec, AContradictionHasNoKind) {
  v1::SubmitRequest request;
  request.mutable_study()->mutable_smoke();
  request.set_kind(v1::JOB_KIND_PROFILE);
  EXPECT_EQ(KindOf(request), std::nullopt);
  request.set_kind(v1::JOB_KIND_TRAINING);
  EXPECT_EQ(KindOf(request), std::nullopt);
  request.clear_study();
  request.set_kind(v1::JOB_KIND_PROFILE);
  EXPECT_EQ(KindOf(request), std::nullopt) << "a study without its options";
  request.set_kind(static_cast<v1::JobKind>(99));
  EXPECT_EQ(KindOf(request), std::nullopt);
  // A study that only a newer client knows.
  request.clear_kind();
  request.mutable_study();
  EXPECT_EQ(KindOf(request), std::nullopt);
}

// A kind of study that one of the lists lacks would be found here.
TEST(StudyCodec, EveryKindGoesThereAndBack) {
  for (const jobs::JobKind kind : jobs::kAllJobKinds) {
    if (!jobs::IsStudy(kind)) continue;
    v1::Study study;
    DecodeStudy(kind, R"({"thresholds":{"smoke.epochs":3}})", study);
    v1::SubmitRequest request;
    *request.mutable_study() = study;
    EXPECT_EQ(KindOf(request), kind) << jobs::Name(kind);
    EXPECT_EQ(EncodeStudy(study), R"({"thresholds":{"smoke.epochs":3}})");
    v1::StudyResult result;
    const std::string name(jobs::Name(kind));
    EXPECT_TRUE(
        DecodeStudyResult(
            kind, R"({"verdict":"VERDICT_WARN",")" + name + R"(":{}})", result)
            .ok())
        << name;
    EXPECT_EQ(result.verdict(), v1::VERDICT_WARN);
  }
}

// What the worker would refuse once the job has its turn.
TEST(StudyCodec, OptionsOutOfTheirBoundsAreRefused) {
  const auto message = [](const v1::Study& study) {
    const absl::Status status = CheckStudy(study);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_TRUE(CheckStudy({}).ok());
  v1::Study study;
  study.mutable_probe()->set_steps(-3);
  EXPECT_EQ(message(study),
            "study.probe.steps: must be a whole number from 1 to 1000, or 0 "
            "for mpsd's own choice, is -3");
  study.mutable_batch_sweep()->set_memory_limit_bytes(
      std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(message(study), HasSubstr("memory_limit_bytes: must be"));
  study.mutable_device_comparison()->add_devices("cpu");
  EXPECT_EQ(message(study),
            "study.device_comparison.devices: must be none, or two of cpu, "
            "cuda and mps, is [\"cpu\"]");
  study.mutable_profile()->set_steps(0);
  EXPECT_EQ(message(study),
            "study.profile.steps: must be a whole number from 1 to 1000, is 0");
  (*study.mutable_smoke()->mutable_thresholds())["smoke.epochs"] =
      std::numeric_limits<double>::infinity();
  EXPECT_EQ(message(study),
            "study.smoke.thresholds: smoke.epochs: must be a number, is "
            "\"Infinity\"");
  study.mutable_device_comparison()->add_devices("\x1b[31m");
  study.mutable_device_comparison()->add_devices("cpu");
  EXPECT_THAT(message(study),
              HasSubstr("must be cpu, cuda or mps, is \"\\u001b[31m\""));
}

// Options that mpsctl sends today, and those that say nothing.
TEST(StudyCodec, OptionsWithinTheirBoundsAreTaken) {
  for (const jobs::JobKind kind : jobs::kAllJobKinds) {
    if (!jobs::IsStudy(kind)) continue;
    v1::Study study;
    DecodeStudy(kind, "{}", study);
    EXPECT_TRUE(CheckStudy(study).ok()) << CheckStudy(study);
  }
  v1::Study study;
  study.mutable_device_comparison()->set_warmup_steps(0);
  EXPECT_TRUE(CheckStudy(study).ok()) << CheckStudy(study);
}

TEST(StudyCodec, WhatMakesNoSenseIsNoResult) {
  v1::StudyResult result;
  for (const char* json :
       {"", "[]", "{}", R"({"smoke":{}})", R"({"profile":7})", "\xff"}) {
    const absl::Status status =
        DecodeStudyResult(jobs::JobKind::kProfile, json, result);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << json;
    EXPECT_THAT(std::string(status.message()), HasSubstr("profile"));
  }
  EXPECT_TRUE(DecodeStudyResult(jobs::JobKind::kProfile,
                                R"({"profile":{},"of_tomorrow":[1]})", result)
                  .ok());
}

TEST(StudyCodec, WithoutAStudyThereAreNoOptions) {
  EXPECT_EQ(EncodeStudy({}), "");
  v1::Study study;
  DecodeStudy(jobs::JobKind::kTraining, "{}", study);
  EXPECT_EQ(study.study_case(), v1::Study::STUDY_NOT_SET);
}

}  // namespace
}  // namespace mpsd::rpc
