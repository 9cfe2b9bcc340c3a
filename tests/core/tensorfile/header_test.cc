// SPDX-License-Identifier: Apache-2.0
#include "core/tensorfile/header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/escaping.h"
#include "core/base/file.h"
#include "nlohmann/json.hpp"

namespace mpsd::tensorfile {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// A file of header text `json` and `data`, length prefix included.
std::string FileOf(const std::string& json, const std::string& data = "") {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<char>(json.size() >> (8 * i)));
  }
  return bytes + json + data;
}

std::string Entry(const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape +
         R"(,"data_offsets":)" + offsets + "}";
}

std::string FileOfX(const std::string& dtype, const std::string& shape,
                    const std::string& offsets, const std::string& data) {
  return FileOf("{\"x\":" + Entry(dtype, shape, offsets) + "}", data);
}

// tests/golden/headers.py: what the reference reader takes and refuses.
TEST(ParseHeaderTest, TakesAndRefusesWhatTheReferenceReaderDoes) {
  const auto cases = nlohmann::json::parse(*base::ReadFile(
      std::string(MPSD_TEST_SOURCE_DIR) + "/tests/golden/headers.json"));
  int taken = 0;
  for (const auto& c : cases) {
    std::string bytes;
    ASSERT_TRUE(absl::Base64Unescape(c["file"].get<std::string>(), &bytes));
    const auto header = ParseHeader(bytes);
    EXPECT_EQ(header.ok(), c["refused"].is_null())
        << absl::CEscape(bytes) << "\nthey: " << c["refused"]
        << "\nwe: " << header.status();
    taken += header.ok();
  }
  EXPECT_GT(cases.size(), 400u);
  EXPECT_GT(taken, 25);
}

struct Case {
  const char* name;
  std::string bytes;
  const char* message;
};

class BadHeaderTest : public testing::TestWithParam<Case> {};

TEST_P(BadHeaderTest, IsRefusedWithItsReason) {
  const absl::Status status = ParseHeader(GetParam().bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadHeaderTest,
    testing::Values(
        Case{"short", "abc", "shorter than"},
        Case{"cut_header", std::string("\xff\0\0\0\0\0\0\0{", 9),
             "leaves the file"},
        Case{"huge_header", std::string(8, '\xff') + "{}", "leaves the file"},
        Case{"not_json", FileOf("hello"), "not JSON"},
        Case{"no_fields", FileOf(R"({"x":{}})"), "needs dtype"},
        Case{"cut_data", FileOfX("F32", "[2]", "[0,8]", "abcd"),
             "take 8 bytes, and it has 4 of them (is the file cut?)"},
        Case{"trailing", FileOfX("U8", "[2]", "[0,2]", "abcd"),
             "the last 2 of its bytes belong to no tensor"},
        Case{"nothing_but_bytes", FileOf("{}", "abc"), "the last 3 of its"},
        Case{"gap", FileOfX("U8", "[2]", "[1,3]", "abc"),
             "begin at 1, those before them end at 0"},
        Case{"overlap",
             FileOf("{\"a\":" + Entry("U8", "[4]", "[0,4]") +
                        ",\"b\":" + Entry("U8", "[4]", "[2,6]") + "}",
                    "abcdef"),
             "\"b\": its bytes begin at 2, those before them end at 4"},
        Case{"shared",
             FileOf("{\"a\":" + Entry("U8", "[4]", "[0,4]") +
                        ",\"b\":" + Entry("U8", "[4]", "[0,4]") + "}",
                    "abcd"),
             "\"b\": its bytes begin at 0, those before them end at 4"},
        Case{"shape", FileOfX("F32", "[3]", "[0,8]", "abcdefgh"),
             "do not match its shape"},
        Case{"negative", FileOfX("U8", "[-1]", "[0,1]", "a"), "no size"},
        Case{"reversed", FileOfX("U8", "[1]", "[1,0]", "a"),
             "end before they begin"},
        Case{"overflow", FileOfX("U8", "[4294967296,4294967296]", "[0,0]", ""),
             "too many elements"},
        Case{"overflow_of_bytes",
             FileOfX("F64", "[1152921504606846976]", "[0,0]", ""),
             "too many elements"},
        Case{"half_a_byte", FileOfX("F4", "[3]", "[0,1]", "a"),
             "do not match its shape"},
        Case{"twice",
             FileOf("{\"x\":" + Entry("U8", "[1]", "[0,1]") +
                        ",\"x\":" + Entry("U8", "[2]", "[0,2]") + "}",
                    "ab"),
             "\"x\" is there twice"},
        Case{"field_twice",
             FileOf(R"({"x":{"dtype":"U8","dtype":"F32","shape":[1],)"
                    R"("data_offsets":[0,4]}})",
                    "abcd"),
             "\"dtype\" is there twice"},
        Case{"metadata", FileOf(R"({"__metadata__":{"a":1}})"),
             "\"a\" of its __metadata__ is no text"}),
    [](const auto& info) { return info.param.name; });

// The same field of two tensors is no twin.
TEST(ParseHeaderTest, TellsTensorsApart) {
  const auto header =
      ParseHeader(FileOf("{\"b\":" + Entry("U8", "[1]", "[4,5]") +
                             ",\"a\":" + Entry("F32", "[1]", "[0,4]") + "}",
                         "abcde"));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->entries.at("a").dtype, at::kFloat);
  EXPECT_EQ(header->entries.at("a").dtype_name, "F32");
  EXPECT_EQ(header->entries.at("b").offset, header->entries.at("a").offset + 4);
  EXPECT_THAT(header->metadata, IsEmpty());
}

TEST(ParseHeaderTest, ADtypeOfAnotherDayIsAnEntryWithoutOne) {
  for (const char* dtype : {"U32", "F8_E4M3", "F8", "I3"}) {
    const auto header = ParseHeader(FileOfX(dtype, "[1]", "[0,4]", "abcd"));
    const bool sized = std::string(dtype) == "F8_E4M3";
    ASSERT_EQ(header.ok(), !sized) << header.status();
    if (sized) continue;  // four bytes are not one of F8_E4M3
    EXPECT_EQ(header->entries.at("x").dtype, at::ScalarType::Undefined);
    EXPECT_EQ(header->entries.at("x").dtype_name, dtype);
  }
}

// Whatever the bytes: an answer, and entries that stay within the file.
TEST(ParseHeaderTest, AnyBytesGetAnAnswer) {
  const std::string sound = FileOf(
      R"({"__metadata__":{"k":"v"},"a":)" + Entry("F32", "[2]", "[0,8]") +
          ",\"b\":" + Entry("U8", "[2,2]", "[8,12]") + "}",
      "0123456789ab");
  ASSERT_TRUE(ParseHeader(sound).ok());
  std::mt19937 draw(5);  // NOLINT(cert-msc51-cpp): the same bytes each time
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = sound;
    for (int edits = 1 + static_cast<int>(draw() % 3); edits > 0; --edits) {
      const size_t at = draw() % bytes.size();
      if (draw() % 2 == 0) {
        bytes[at] = static_cast<char>(draw());
      } else {
        bytes[at] = "0123456789[]{},:\""[draw() % 17];
      }
    }
    const auto header = ParseHeader(bytes);
    if (!header.ok()) continue;
    for (const auto& [name, entry] : header->entries) {
      ASSERT_LE(entry.offset, bytes.size());
      ASSERT_LE(entry.bytes, bytes.size() - entry.offset);
    }
  }
}

}  // namespace
}  // namespace mpsd::tensorfile
