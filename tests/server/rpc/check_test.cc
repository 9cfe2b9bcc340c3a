// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/check.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/limits.h"
#include "core/base/text.h"
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

using Request = v1::SubmitRequest;

// Requests that are spoilt in one field, which the error begins with.
struct Case {
  const char* name;
  std::function<void(Request&)> spoil;
  const char* begins;
};
const Case kSpoilt[] = {
    {"no spec", [](Request& r) { r.clear_spec_json(); }, "spec_json:"},
    {"nothing after", [](Request& r) { r.add_after(""); },
     "after[0]: must not be empty"},
    {"unknown kind",
     [](Request& r) { r.set_kind(static_cast<v1::JobKind>(99)); }, "kind:"},
    {"a study of another kind",
     [](Request& r) {
       r.mutable_study()->mutable_smoke();
       r.set_kind(v1::JOB_KIND_PROFILE);
     },
     "study:"},
    {"a study that is too long",
     [](Request& r) {
       auto& smoke = *r.mutable_study()->mutable_smoke();
       (*smoke.mutable_thresholds())[std::string(256 << 10, 'a')] = 1;
     },
     "study: has 262"},
    {"a study out of its bounds",
     [](Request& r) {
       r.mutable_study()->mutable_batch_sweep()->set_steps(1001);
     },
     "study.batch_sweep.steps: must be a whole number from 1 to 1000, or 0 for "
     "mpsd's own choice, is 1001"},
    {"an unknown threshold",
     [](Request& r) {
       auto& smoke = *r.mutable_study()->mutable_smoke();
       (*smoke.mutable_thresholds())["smoke.epoch"] = 3;
     },
     "study.smoke.thresholds: there is no 'smoke.epoch'; there are "},
    {"a round trip that is none",
     [](Request& r) { r.set_round_trip_seconds(-0.001); },
     "round_trip_seconds: must be a number from 0 to 600, is -0.001"},
    {"a round trip that is too long",
     [](Request& r) { r.set_round_trip_seconds(600.1); },
     "round_trip_seconds: must be a number from 0 to 600, is 600.1"},
    {"a round trip that is no number",
     [](Request& r) { r.set_round_trip_seconds(std::nan("")); },
     "round_trip_seconds: must be a number from 0 to 600, is nan"},
    {"no path", [](Request& r) { r.mutable_inputs(0)->clear_path(); },
     "inputs[0].path:"},
    {"bad hash", [](Request& r) { r.mutable_inputs(0)->set_sha256("AB"); },
     "inputs[0].sha256:"},
    {"a path twice", [](Request& r) { *r.add_inputs() = r.inputs(0); },
     "inputs[1].path:"},
    {"empty label", [](Request& r) { (*r.mutable_labels())[""] = "x"; },
     "labels:"},
    {"a NUL byte in a path",
     [](Request& r) { r.mutable_inputs(0)->set_path(std::string("a\0b", 3)); },
     "inputs[0].path: has a NUL byte, which no file's name has"},
    {"a long part of a path",
     [](Request& r) { r.mutable_inputs(0)->set_path(std::string(300, 'p')); },
     "inputs[0].path: has a part of 300 bytes between slashes, at most 255 are "
     "a file's name"},
};

TEST(CheckSubmit, NamesTheSpoiltField) {
  for (const Case& spoilt : kSpoilt) {
    SCOPED_TRACE(spoilt.name);
    Request request = GoodRequest();
    spoilt.spoil(request);
    const absl::Status status = CheckSubmit(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), StartsWith(spoilt.begins));
  }
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

void SetPartBytes(Request& r, size_t bytes) {
  r.mutable_inputs(0)->set_path("p/" + std::string(bytes, 'p') + "/p");
}

void SetParts(Request& r, size_t count) {
  std::string path = "p";
  for (size_t i = 1; i < count; ++i) path += "/p";
  r.mutable_inputs(0)->set_path(path);
}

void SetLabels(Request& r, size_t count) {
  r.clear_labels();
  for (size_t i = 0; i < count; ++i) {
    (*r.mutable_labels())[std::to_string(i)] = "";
  }
}

// Each text and count of a request at its limit and one past it.
struct Bound {
  size_t limit;
  std::function<void(Request&, size_t)> set;
  const char* begins;  // the error
};
const Bound kBounds[] = {
    {limits::kSpecBytes,
     [](Request& r, size_t n) { r.set_spec_json(std::string(n, ' ')); },
     "spec_json:"},
    {limits::kInputs, [](Request& r, size_t n) { AddInputs(r, n, 8); },
     "inputs:"},
    {limits::kPathBytes,
     [](Request& r, size_t n) { r.mutable_inputs(0)->set_path(PathOf(n)); },
     "inputs[0].path:"},
    {NAME_MAX, SetPartBytes, "inputs[0].path:"},
    {limits::kPathParts, SetParts, "inputs[0].path:"},
    {limits::kPathsBytes, SetPathsBytes, "inputs: their paths"},
    {64,
     [](Request& r, size_t n) {
       for (size_t i = 0; i < n; ++i) r.add_after("a");
     },
     "after: has 65 entries, at most 64 are allowed"},
    {64, [](Request& r, size_t n) { r.add_after(std::string(n, 'a')); },
     "after[0]: has 65 bytes"},
    {256, [](Request& r, size_t n) { r.set_owner(std::string(n, 'o')); },
     "owner:"},
    {128,
     [](Request& r, size_t n) { r.set_idempotency_key(std::string(n, 'k')); },
     "idempotency_key:"},
    {64, SetLabels, "labels:"},
    {128,
     [](Request& r, size_t n) {
       (*r.mutable_labels())[std::string(n, 'l')] = "";
     },
     "labels:"},
    {256,
     [](Request& r, size_t n) {
       (*r.mutable_labels())["team"] = std::string(n, 'v');
     },
     "labels[team]:"},
};

TEST(CheckSubmit, AllowsTheLimitAndNotOnePastIt) {
  for (const Bound& bound : kBounds) {
    SCOPED_TRACE(bound.begins);
    Request request = GoodRequest();
    bound.set(request, bound.limit);
    EXPECT_TRUE(CheckSubmit(request).ok()) << CheckSubmit(request);
    request = GoodRequest();
    bound.set(request, bound.limit + 1);
    const absl::Status status = CheckSubmit(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), StartsWith(bound.begins));
  }
}

TEST(CheckSubmit, RefusesAnInvisibleLabel) {
  Request request = GoodRequest();
  (*request.mutable_labels())["\u200b "] = "";
  EXPECT_THAT(std::string(CheckSubmit(request).message()),
              StartsWith("labels: key: has only spaces"));
}

TEST(CheckSubmit, RefusesWhatATerminalObeys) {
  for (const std::string bad :
       {"a\nb", "a\x1b[2J", "a\xc2\x9b", "a\xe2\x80\xae"}) {
    std::vector<std::pair<Request, const char*>> requests(
        4, {GoodRequest(), "owner: '"});
    requests[0].first.set_owner(bad);
    requests[1].first.set_idempotency_key(bad);
    requests[1].second = "idempotency_key: '";
    (*requests[2].first.mutable_labels())[bad] = "";
    requests[2].second = "labels: key: '";
    (*requests[3].first.mutable_labels())["l"] = bad;
    requests[3].second = "labels[l]: '";
    for (const auto& [request, begins] : requests) {
      const std::string message(CheckSubmit(request).message());
      EXPECT_THAT(message, StartsWith(begins));
      EXPECT_TRUE(base::IsPrintable(message)) << message;
    }
  }
}

absl::Status Parse(const std::string& bytes, v1::PlanRequest& request) {
  const grpc::Slice slice(bytes);
  grpc::ByteBuffer buffer(&slice, 1);
  return ParseRequest(buffer, 32 << 20, request);
}

TEST(ParseRequest, DropsFieldsOfANewerVersion) {
  v1::PlanRequest request, parsed;
  *request.mutable_submission() = GoodRequest();
  const std::string known = request.SerializeAsString();
  for (google::protobuf::Message* holder :
       {static_cast<google::protobuf::Message*>(&request),
        static_cast<google::protobuf::Message*>(
            request.mutable_submission()->mutable_inputs(0))}) {
    holder->GetReflection()->MutableUnknownFields(holder)->AddVarint(2047, 1);
  }
  ASSERT_TRUE(Parse(request.SerializeAsString(), parsed).ok());
  EXPECT_EQ(parsed.ByteSizeLong(), known.size());
}

// An empty input, as two bytes, takes fifty once it is parsed; so does a field
// that is not known.
TEST(ParseRequest, AFewBytesMakeNoLargeMessage) {
  const auto plan_of = [](const std::string& field, int count) {
    v1::SubmitRequest submission = GoodRequest();
    std::string fields;
    for (int i = 0; i < count; ++i) fields += field;
    std::string out("\x0a", 1);  // PlanRequest.submission
    fields += submission.SerializeAsString();
    for (size_t left = fields.size();; left >>= 7) {
      out += static_cast<char>(left < 128 ? left : left % 128 + 128);
      if (left < 128) return out + fields;
    }
  };
  v1::PlanRequest parsed;
  const std::string input("\x12\x00", 2), unknown("\xfa\x7f\x00", 3);
  EXPECT_TRUE(Parse(plan_of(input, 4 * limits::kInputs - 100), parsed).ok());
  EXPECT_GT(parsed.submission().inputs_size(), 100'000);
  for (const std::string& field : {input, unknown}) {
    EXPECT_THAT(
        std::string(
            Parse(plan_of(field, 4 * limits::kInputs), parsed).message()),
        testing::HasSubstr("of at most 480000 fields"));
  }
}

}  // namespace
}  // namespace mpsd::rpc
