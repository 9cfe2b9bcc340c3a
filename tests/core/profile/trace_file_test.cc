// SPDX-License-Identifier: Apache-2.0
#include "core/profile/trace_file.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <string>

#include "core/base/file.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::profile {
namespace {

namespace fs = std::filesystem;

class TraceFileTest : public testing::Test {
 protected:
  fs::path Write(const std::string& text) const {
    std::ofstream(folder_ / "trace.json") << text;
    return folder_ / "trace.json";
  }
  fs::path packed() const { return folder_ / "trace.json.gz"; }

  std::string Unpacked() const {
    const gzFile file = gzopen(packed().c_str(), "rb");
    std::string text;
    char part[4096];
    for (int size; (size = gzread(file, part, sizeof(part))) > 0;) {
      text.append(part, static_cast<size_t>(size));
    }
    gzclose(file);
    return text;
  }

  const fs::path folder_ = testing_support::FreshFolder("trace_file");
};

TEST_F(TraceFileTest, PacksAndRemovesTheTextItself) {
  // Longer than a piece.
  std::string text = "{\"traceEvents\": [";
  for (int i = 0; i < 300'000; ++i) text += std::to_string(i) + ", ";
  text += "0]}\n";
  const auto bytes = PackTrace(Write(text), packed());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(static_cast<uintmax_t>(*bytes), fs::file_size(packed()));
  EXPECT_LT(*bytes, static_cast<int64_t>(text.size()) / 2);
  EXPECT_EQ(Unpacked(), text);
  EXPECT_FALSE(fs::exists(folder_ / "trace.json"));
}

// Kineto ends a trace with the path at which it wrote it.
TEST_F(TraceFileTest, TellsNoPathOfTheMachine) {
  const std::string events =
      "{\"traceEvents\": [{\"name\": \"traceName\"}],\n  ";
  const auto bytes = PackTrace(
      Write(events + "\"traceName\": \"/state/jobs/1/out/trace.json\"\n}"),
      packed());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(Unpacked(), events + "\"traceName\": \"trace\"\n}\n");
}

TEST_F(TraceFileTest, ATraceThatIsTooLargeIsNotKept) {
  const auto bytes = PackTrace(Write(std::string(1000, '}')), packed(), 999);
  EXPECT_EQ(bytes.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(TraceFileTest, ATraceThatIsCutOffIsNotKept) {
  for (const char* text : {"{\"traceEvents\": [{\"ph\": \"X\"", " \n", ""}) {
    const auto bytes = PackTrace(Write(text), packed());
    EXPECT_FALSE(bytes.ok()) << text;
    EXPECT_TRUE(fs::is_empty(folder_)) << text;
  }
}

TEST_F(TraceFileTest, AFolderThatCannotBeWrittenIsSaid) {
  const auto bytes = PackTrace(Write("{}"), folder_ / "none" / "trace.json.gz");
  EXPECT_EQ(bytes.status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace mpsd::profile
