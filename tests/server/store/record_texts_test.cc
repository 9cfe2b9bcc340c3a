// SPDX-License-Identifier: Apache-2.0
#include "server/store/record_texts.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RecordTextsTest : public testing::Test {
 protected:
  std::vector<int64_t> Places(const std::string& phrase) {
    std::vector<int64_t> places;
    Query query(c_,
                "SELECT rowid FROM record_texts WHERE record_texts MATCH ? "
                "ORDER BY rowid",
                phrase);
    while (query.Next()) places.push_back(query.Int());
    return places;
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  Connection& c_ = database_->writer();
};

TEST_F(RecordTextsTest, TextsAreReplacedMovedAndRemoved) {
  absl::MutexLock lock(&c_.mutex());
  PutTexts(c_, 256, "alpha");
  PutTexts(c_, 257, "alphabet");
  PutTexts(c_, 512, "alpha centauri");
  EXPECT_THAT(Places("alpha"), ElementsAre(256, 257, 512));
  PutTexts(c_, 256, "omega");
  EXPECT_THAT(Places("alpha"), ElementsAre(257, 512));
  MoveTexts(c_, 1, 9);
  EXPECT_THAT(Places("alpha"), ElementsAre(512, 9 * 256 + 1));
  EXPECT_THAT(Places("omega"), ElementsAre(9 * 256));
  RemoveTexts(c_, 9);
  EXPECT_THAT(Places("alpha"), ElementsAre(512));
  EXPECT_THAT(Places("omega"), IsEmpty());
  // The index and the rows agree.
  c_.database().exec(
      "INSERT INTO record_texts (record_texts) VALUES ('integrity-check')");
}

}  // namespace
}  // namespace mpsd::store
