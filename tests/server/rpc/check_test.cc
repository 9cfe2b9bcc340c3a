// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/check.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <functional>
#include <string>

#include "core/base/limits.h"
#include "core/base/printable.h"
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
  v1::SubmitRequest far = GoodRequest();
  far.set_round_trip_seconds(600);
  EXPECT_TRUE(CheckSubmit(far).ok());
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
        Case{"AfterTooMany",
             [](Request& r) {
               for (int i = 0; i < 65; ++i) r.add_after("a");
             },
             "after: has 65 entries, at most 64 are allowed"},
        Case{"AfterNothing", [](Request& r) { r.add_after(""); },
             "after[0]: must not be empty"},
        Case{"AfterALongName",
             [](Request& r) { r.add_after(std::string(65, 'a')); },
             "after[0]: has 65 bytes"},
        Case{"UnknownKind",
             [](Request& r) { r.set_kind(static_cast<v1::JobKind>(99)); },
             "kind:"},
        Case{"AStudyOfAnotherKind",
             [](Request& r) {
               r.mutable_study()->mutable_smoke();
               r.set_kind(v1::JOB_KIND_PROFILE);
             },
             "study:"},
        Case{"AStudyThatIsTooLong",
             [](Request& r) {
               (*r.mutable_study()
                     ->mutable_smoke()
                     ->mutable_thresholds())[std::string(256 << 10, 'a')] = 1;
             },
             "study: has 262"},
        Case{"AStudyOutOfItsBounds",
             [](Request& r) {
               r.mutable_study()->mutable_batch_sweep()->set_steps(1001);
             },
             "study.batch_sweep.steps: must be a whole number from 1 to 1000, "
             "or 0 for mpsd's own choice, is 1001"},
        Case{"AnUnknownThreshold",
             [](Request& r) {
               (*r.mutable_study()
                     ->mutable_smoke()
                     ->mutable_thresholds())["smoke.epoch"] = 3;
             },
             "study.smoke.thresholds: there is no 'smoke.epoch'; there are "},
        Case{"ARoundTripThatIsNone",
             [](Request& r) { r.set_round_trip_seconds(-0.001); },
             "round_trip_seconds: must be a number from 0 to 600, is -0.001"},
        Case{"ARoundTripThatIsTooLong",
             [](Request& r) { r.set_round_trip_seconds(600.1); },
             "round_trip_seconds: must be a number from 0 to 600, is 600.1"},
        Case{"ARoundTripThatIsNoNumber",
             [](Request& r) { r.set_round_trip_seconds(std::nan("")); },
             "round_trip_seconds: must be a number from 0 to 600, is nan"},
        Case{"NoPath", [](Request& r) { r.mutable_inputs(0)->clear_path(); },
             "inputs[0].path:"},
        Case{"BadHash",
             [](Request& r) { r.mutable_inputs(0)->set_sha256("AB"); },
             "inputs[0].sha256:"},
        Case{"TwicePath", [](Request& r) { *r.add_inputs() = r.inputs(0); },
             "inputs[1].path:"},
        Case{"ManyInputs",
             [](Request& r) {
               for (size_t i = 0; i < limits::kInputs; ++i) {
                 *r.add_inputs() = r.inputs(0);
               }
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

// Each text and count of a request at its limit and one past it.
struct Bound {
  const char* name;
  size_t limit;
  std::function<void(Request&, size_t)> set;
};
class AtTheLimit : public testing::TestWithParam<Bound> {};

TEST_P(AtTheLimit, IsAllowedAndOnePastItIsNot) {
  Request request = GoodRequest();
  GetParam().set(request, GetParam().limit);
  EXPECT_TRUE(CheckSubmit(request).ok()) << CheckSubmit(request);
  request = GoodRequest();
  GetParam().set(request, GetParam().limit + 1);
  EXPECT_EQ(CheckSubmit(request).code(), absl::StatusCode::kInvalidArgument);
}

void AddInputs(Request& r, size_t count, size_t path_bytes) {
  r.clear_inputs();
  for (size_t i = 0; i < count; ++i) {
    std::string path = std::to_string(i);
    path.resize(path_bytes, 'p');
    r.add_inputs()->set_path(path + "-" + std::to_string(i));
    r.mutable_inputs(static_cast<int>(i))->set_sha256(kSha);
  }
}

// A path of `bytes`, in parts that a file may have for a name.
std::string PathOf(size_t bytes, const std::string& begin = "") {
  std::string path = begin;
  path.resize(bytes, 'p');
  for (size_t i = 200; i + 1 < bytes; i += 200) path[i] = '/';
  return path;
}

// Paths of `bytes` together.
void SetPathsBytes(Request& r, size_t bytes) {
  r.clear_inputs();
  while (bytes > 0) {
    const size_t length = std::min<size_t>(bytes, 4000);
    r.add_inputs()->set_path(PathOf(length, std::to_string(r.inputs_size())));
    r.mutable_inputs(r.inputs_size() - 1)->set_sha256(kSha);
    bytes -= length;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Submit, AtTheLimit,
    testing::Values(Bound{"Spec", limits::kSpecBytes,
                          [](Request& r, size_t n) {
                            r.set_spec_json(std::string(n, ' '));
                          }},
                    Bound{"Inputs", limits::kInputs,
                          [](Request& r, size_t n) { AddInputs(r, n, 8); }},
                    Bound{"Path", limits::kPathBytes,
                          [](Request& r, size_t n) {
                            r.mutable_inputs(0)->set_path(PathOf(n));
                          }},
                    Bound{"PathPart", NAME_MAX,
                          [](Request& r, size_t n) {
                            r.mutable_inputs(0)->set_path(
                                "p/" + std::string(n, 'p') + "/p");
                          }},
                    Bound{"PathParts", limits::kPathParts,
                          [](Request& r, size_t n) {
                            std::string path = "p";
                            for (size_t i = 1; i < n; ++i) path += "/p";
                            r.mutable_inputs(0)->set_path(path);
                          }},
                    Bound{"PathsTogether", limits::kPathsBytes,
                          [](Request& r, size_t n) { SetPathsBytes(r, n); }},
                    Bound{"Owner", limits::kOwnerBytes,
                          [](Request& r, size_t n) {
                            r.set_owner(std::string(n, 'o'));
                          }},
                    Bound{"Key", limits::kKeyBytes,
                          [](Request& r, size_t n) {
                            r.set_idempotency_key(std::string(n, 'k'));
                          }},
                    Bound{"Labels", limits::kJobLabels,
                          [](Request& r, size_t n) {
                            r.clear_labels();
                            for (size_t i = 0; i < n; ++i) {
                              (*r.mutable_labels())[std::to_string(i)] = "";
                            }
                          }},
                    Bound{"LabelKey", limits::kJobLabelKeyBytes,
                          [](Request& r, size_t n) {
                            (*r.mutable_labels())[std::string(n, 'l')] = "";
                          }},
                    Bound{"LabelValue", limits::kJobLabelValueBytes,
                          [](Request& r, size_t n) {
                            (*r.mutable_labels())["l"] = std::string(n, 'v');
                          }}),
    [](const auto& info) { return info.param.name; });

TEST(CheckSubmit, RefusesPathsThatNoFileHas) {
  Request request = GoodRequest();
  request.mutable_inputs(0)->set_path(std::string("a\0b", 3));
  EXPECT_EQ(std::string(CheckSubmit(request).message()),
            "inputs[0].path: has a NUL byte, which no file's name has");
  request.mutable_inputs(0)->set_path(std::string(300, 'p'));
  EXPECT_EQ(std::string(CheckSubmit(request).message()),
            "inputs[0].path: has a part of 300 bytes between slashes, at most "
            "255 are a file's name");
}

TEST(CheckSubmit, RefusesWhatATerminalObeys) {
  for (const std::string bad :
       {"a\nb", "a\x1b[2J", "\xc2\x9b", "\xe2\x80\xae"}) {
    Request request = GoodRequest();
    request.set_owner(bad);
    EXPECT_THAT(std::string(CheckSubmit(request).message()),
                StartsWith("owner: '"));
    request = GoodRequest();
    request.set_idempotency_key(bad);
    EXPECT_THAT(std::string(CheckSubmit(request).message()),
                StartsWith("idempotency_key: '"));
    request = GoodRequest();
    (*request.mutable_labels())[bad] = "";
    EXPECT_THAT(std::string(CheckSubmit(request).message()),
                StartsWith("labels: key: '"));
    request = GoodRequest();
    (*request.mutable_labels())["l"] = bad;
    const std::string message(CheckSubmit(request).message());
    EXPECT_THAT(message, StartsWith("labels[l]: '"));
    EXPECT_TRUE(base::IsPrintable(message)) << message;
  }
}

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
