// SPDX-License-Identifier: Apache-2.0
#include "core/dns_sd/txt_record.h"

#include <gtest/gtest.h>

namespace mpsd::dns_sd {
namespace {

TEST(TxtRecord, ThereAndBack) {
  const TxtRecord record = {{"ca", "SHA256:AB"}, {"version", "1=2"}};
  EXPECT_EQ(EncodeTxt(record),
            "\x0c"
            "ca=SHA256:AB"
            "\x0b"
            "version=1=2");
  EXPECT_EQ(DecodeTxt(EncodeTxt(record)), record);
  EXPECT_EQ(EncodeTxt({}), "");
}

TEST(TxtRecord, WhatDoesNotFitIsLeftOut) {
  EXPECT_EQ(EncodeTxt({{"a", std::string(254, 'x')}}), "");
  const TxtRecord longest = {{"a", std::string(253, 'x')}};
  EXPECT_EQ(DecodeTxt(EncodeTxt(longest)), longest);
}

TEST(TxtRecord, BytesOfAnybody) {
  using std::string_literals::operator""s;
  EXPECT_TRUE(DecodeTxt("").empty());
  EXPECT_TRUE(DecodeTxt("\0\0\0"s).empty());
  EXPECT_TRUE(DecodeTxt("\x05"
                        "a=b")
                  .empty())
      << "longer than the record";
  EXPECT_TRUE(DecodeTxt("\xff").empty());
  EXPECT_TRUE(DecodeTxt("\x03"
                        "abc")
                  .empty())
      << "no value";
  EXPECT_TRUE(DecodeTxt("\x02"
                        "=b")
                  .empty())
      << "no key";
  const TxtRecord twice = DecodeTxt(
      "\x03"
      "a=b"
      "\x03"
      "a=c"
      "\x03"
      "d=e"
      "\x09");
  EXPECT_EQ(twice, (TxtRecord{{"a", "b"}, {"d", "e"}}));
}

TEST(TxtRecord, EntriesWithoutEnd) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) {
    const std::string entry = std::to_string(i) + "=";
    bytes += static_cast<char>(entry.size()) + entry;
  }
  EXPECT_EQ(DecodeTxt(bytes).size(), 32u);
}

}  // namespace
}  // namespace mpsd::dns_sd
