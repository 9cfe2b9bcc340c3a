// SPDX-License-Identifier: Apache-2.0
#include "core/base/sha256.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace mpsd::base {
namespace {

// FIPS 180-4's examples.
constexpr char kAbc[] =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kEmpty[] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

TEST(Sha256Test, KnownDigests) {
  EXPECT_EQ(Sha256Hex("abc"), kAbc);
  EXPECT_EQ(Sha256Hex(""), kEmpty);
}

TEST(Sha256Test, PiecesGiveTheDigestOfTheWhole) {
  Sha256 hash;
  hash.Update("a");
  hash.Update("");
  hash.Update("bc");
  EXPECT_EQ(hash.FinishHex(), kAbc);
}

TEST(Sha256Test, OfAFileLargerThanAPiece) {
  const std::string bytes(9'000'001, 'q');
  const std::string path =
      testing::TempDir() + "sha256_test-" + std::to_string(getpid());
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(*Sha256File(path), Sha256Hex(bytes));
  EXPECT_FALSE(Sha256File(path + ".none").ok());
  unlink(path.c_str());
}

}  // namespace
}  // namespace mpsd::base
