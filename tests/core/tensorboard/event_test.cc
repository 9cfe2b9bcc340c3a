// SPDX-License-Identifier: Apache-2.0
#include "core/tensorboard/event.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "absl/strings/escaping.h"

namespace mpsd::tensorboard {
namespace {

const absl::Time kTime = absl::FromUnixMillis(1767225600250);

std::string HexOf(const std::string& bytes) {
  return absl::BytesToHexString(bytes);
}

// The bytes that TensorBoard 2.21 itself writes: RecordWriter of
// tensorboard.summary.writer over tensorboard.compat.proto's event_pb2.Event
// (tests/live/tensorboard/curves.py reads ours by TensorBoard's readers).
TEST(RecordOf, IsWhatTensorBoardWrites) {
  EXPECT_EQ(HexOf(RecordOf(VersionEvent(kTime))),
            "1800000000000000a37f4b22"
            "09000010406e55da411a0d627261696e2e4576656e743a32"
            "7ce7ce86");
  EXPECT_EQ(HexOf(RecordOf(RestartEvent(kTime, 301))),
            "100000000000000095fbfe18"
            "09000010406e55da4110ad023a020801"
            "5df3d0d5");
  const Scalars scalars = {
      {"train/loss", 0.1},
      {"eval/f1", std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(HexOf(RecordOf(ScalarsEvent(kTime, 300, scalars))),
            "31000000000000009d8383e9"
            "09000010406e55da4110ac02"
            "2a230a110a0a747261696e2f6c6f737315cdcccc3d"
            "0a0e0a076576616c2f6631150000807f"
            "a261ef02");
}

TEST(ScalarsEvent, TheFirstStepIsTheAbsentOneAndLongTagsHaveLongLengths) {
  EXPECT_EQ(
      HexOf(ScalarsEvent(kTime, 0, {{std::string(200, 't'), 0}})).substr(0, 40),
      "09000010406e55da412ad3010ad0010ac8017474");
}

}  // namespace
}  // namespace mpsd::tensorboard
