// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/check.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::rpc {
namespace {

using ::testing::StartsWith;

const std::string kSha(64, 'a');

v1::SubmitRequest GoodRequest() {
  v1::SubmitRequest request;
  request.set_spec_json("{}");
  auto& input = *request.add_inputs();
  input.set_path("train.jsonl");
  input.set_sha256(kSha);
  (*request.mutable_labels())["team"] = "";
  request.set_owner(std::string(256, 'o'));
  request.set_idempotency_key(std::string(128, 'k'));
  return request;
}

TEST(CheckSubmit, AcceptsWhatTheProtoAllows) {
  EXPECT_TRUE(CheckSubmit(GoodRequest()).ok());
}

struct Case {
  const char* name;
  std::function<void(v1::SubmitRequest&)> spoil;
  const char* begins;
};
class Spoilt : public testing::TestWithParam<Case> {};

TEST_P(Spoilt, NamesTheField) {
  v1::SubmitRequest request = GoodRequest();
  GetParam().spoil(request);
  const absl::Status status = CheckSubmit(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), StartsWith(GetParam().begins));
}

using Request = v1::SubmitRequest;
INSTANTIATE_TEST_SUITE_P(
    Requests, Spoilt,
    testing::Values(
        Case{"NoSpec", [](Request& r) { r.clear_spec_json(); }, "spec_json:"},
        Case{"HugeSpec",
             [](Request& r) { r.set_spec_json(std::string(2 << 20, ' ')); },
             "spec_json:"},
        Case{"NoPath", [](Request& r) { r.mutable_inputs(0)->clear_path(); },
             "inputs[0].path:"},
        Case{"BadHash",
             [](Request& r) { r.mutable_inputs(0)->set_sha256("AB"); },
             "inputs[0].sha256:"},
        Case{"TwicePath", [](Request& r) { *r.add_inputs() = r.inputs(0); },
             "inputs[1].path:"},
        Case{"ManyInputs",
             [](Request& r) {
               for (int i = 0; i < 50000; ++i) *r.add_inputs() = r.inputs(0);
             },
             "inputs:"},
        Case{"LongOwner",
             [](Request& r) { r.set_owner(std::string(257, 'o')); }, "owner:"},
        Case{"LongKey",
             [](Request& r) { r.set_idempotency_key(std::string(129, 'k')); },
             "idempotency_key:"},
        Case{"EmptyLabel", [](Request& r) { (*r.mutable_labels())[""] = "x"; },
             "labels:"},
        Case{"LongLabel",
             [](Request& r) {
               (*r.mutable_labels())[std::string(129, 'l')] = "";
             },
             "labels:"},
        Case{"LongLabelValue",
             [](Request& r) {
               (*r.mutable_labels())["team"] = std::string(257, 'v');
             },
             "labels[team]:"},
        Case{"ManyLabels",
             [](Request& r) {
               for (int i = 0; i < 65; ++i) {
                 (*r.mutable_labels())[std::to_string(i)] = "";
               }
             },
             "labels:"}),
    [](const auto& info) { return info.param.name; });

TEST(Check, FieldsOfOtherRequests) {
  EXPECT_TRUE(CheckId("id", "01J").ok());
  EXPECT_THAT(std::string(CheckId("id", "").message()), StartsWith("id:"));
  EXPECT_FALSE(CheckId("id", std::string(65, 'x')).ok());
  EXPECT_TRUE(CheckSha256("f", kSha).ok());
  for (const std::string& bad :
       {std::string(), std::string(63, 'a'), std::string(65, 'a'),
        std::string(64, 'A'), std::string(64, 'g')}) {
    EXPECT_THAT(std::string(CheckSha256("f", bad).message()), StartsWith("f:"));
  }
  EXPECT_TRUE(CheckNotNegative("n", 0).ok());
  EXPECT_THAT(std::string(CheckNotNegative("n", -1).message()),
              StartsWith("n:"));
}

}  // namespace
}  // namespace mpsd::rpc
