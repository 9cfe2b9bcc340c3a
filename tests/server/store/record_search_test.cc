// SPDX-License-Identifier: Apache-2.0
#include "server/store/record_search.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/logbook_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

using logbook::FieldValue;
using logbook::kRecordFields;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1'767'225'600);

class RecordSearchTest : public testing::Test {
 protected:
  RecordSearchTest() {
    logbook::NewRecord a = Make("A", "ada", 30);
    Set(a, "model", "Qwen/Qwen2.5-0.5B");
    Set(a, "eval_loss", 0.9);
    Set(a, "kind", int64_t{1});
    Set(a, "state", int64_t{3});
    Set(a, "peak", int64_t{4'000'000'000});
    a.metrics = {{"accuracy", 0.8}};
    a.labels = {{"team", "nlp"}};
    a.texts = "first run of 100% qwen_test";
    Put(a);
    logbook::NewRecord b = Make("B", "bob", 20);
    Set(b, "model", "meta/Llama-3.2-1B");
    Set(b, "eval_loss", 1.5);
    Set(b, "kind", int64_t{6});
    Set(b, "verdict", int64_t{3});
    b.metrics = {{"accuracy", 0.6}};
    b.texts = "a \"quoted\" smoke run";
    Put(b);
    logbook::NewRecord c = Make("C", "ada", 10);
    c.texts = "nothing is told of this run";
    Put(c);
    EXPECT_TRUE(store_.Tag("A", {"baseline"}, {}).ok());
    EXPECT_TRUE(store_.Tag("B", {"baseline", "odd"}, {}).ok());
    EXPECT_TRUE(
        store_.AddNote("C", {kNow, "eve", "the run was too hot", true}).ok());
  }
  static logbook::NewRecord Make(const std::string& id,
                                 const std::string& owner, int days_ago) {
    logbook::NewRecord record;
    record.id = id;
    record.owner = owner;
    record.end_time = kNow - absl::Hours(24 * days_ago);
    record.values.resize(std::size(kRecordFields));
    record.body = "body";
    return record;
  }
  static void Set(logbook::NewRecord& record, const std::string& field,
                  FieldValue value) {
    record.values[logbook::FieldNamed(field) - kRecordFields] =
        std::move(value);
  }
  void Put(const logbook::NewRecord& record) {
    EXPECT_TRUE(store_.Put(record, 0).ok());
  }
  std::string Find(const std::string& text, logbook::RecordSearch search = {}) {
    auto query = logbook::ParseRecordQuery(text, kNow);
    EXPECT_TRUE(query.ok()) << query.status();
    search.query = *std::move(query);
    const auto found = store_.Search(search);
    EXPECT_TRUE(found.ok()) << text << ": " << found.status();
    std::string ids;
    if (found.ok()) {
      for (const auto& record : *found) ids += record.id;
    }
    return ids;
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  LogbookStore store_{*database_};
};

TEST_F(RecordSearchTest, EachTermFindsWhatItSays) {
  const std::pair<const char*, const char*> kTable[] = {
      {"", "CBA"},
      {"model~qwen", "A"},
      {"model~QWEN", "A"},
      {"model=Qwen/Qwen2.5-0.5B", "A"},
      {"model!=Qwen/Qwen2.5-0.5B", "B"},  // C's is not told
      {"model~%", ""},
      {"model~_", ""},
      {"eval_loss<1.0", "A"},
      {"eval_loss>=0.9", "BA"},
      {"eval_loss<=0.9", "A"},
      {"eval_loss>1.4999", "B"},
      {"peak>=4GB", "A"},
      {"peak>4GB", ""},
      {"kind=smoke", "B"},
      {"kind=training", "A"},
      {"state=succeeded", "A"},
      {"verdict=fail", "B"},
      {"owner=ada", "CA"},
      {"owner!=ada", "B"},
      {"id=B", "B"},
      {"metric.accuracy>0.7", "A"},
      {"metric.accuracy<0.9", "BA"},
      {"metric.f1>0", ""},
      {"label.team=nlp", "A"},
      {"label.team~LP", "A"},
      {"label.team!=nlp", ""},
      {"tag:baseline", "BA"},
      {"tag:baseline tag:odd", "B"},
      {"tag:none", ""},
      {"since:25d", "CB"},
      {"until:15d", "BA"},
      {"since:25d until:15d", "B"},
      {"since:2025-12-10", "CB"},
      {"smoke", "B"},
      {"SMOKE", "B"},
      {"\"100% qwen_\"", "A"},
      {"\"100_ qwen\"", ""},
      {"\"\\\"quoted\\\"\"", "B"},
      {"run", "CBA"},
      {"\"too hot\"", "C"},
      {"eve rejected", "C"},
      {"nothing hot", "C"},  // one in the record, one in the note
      {"run tag:odd", "B"},
      {"run owner=ada eval_loss<1", "A"},
      {"\"' OR 1=1 --\"", ""},
      {"name=\"' OR '1'='1\"", ""},
      {"\"a* OR b\"", ""},
      {"\"NEAR(run\"", ""}};
  for (const auto& [text, ids] : kTable) EXPECT_EQ(Find(text), ids) << text;
}

TEST_F(RecordSearchTest, AnOwnersRecordsAlone) {
  logbook::RecordSearch search;
  search.owner = "ada";
  EXPECT_EQ(Find("", search), "CA");
  EXPECT_EQ(Find("run", search), "CA");
  EXPECT_EQ(Find("tag:baseline", search), "A");
  EXPECT_EQ(Find("owner=bob", search), "");
}

TEST_F(RecordSearchTest, PagesGoOnWhereTheyEnded) {
  for (const char* text : {"", "run", "since:40d"}) {
    std::string all;
    logbook::RecordSearch page;
    page.limit = 1;
    while (true) {
      const std::string found = Find(text, page);
      if (found.empty()) break;
      all += found;
      page.before = store_.Get(found)->number;
    }
    EXPECT_EQ(all, "CBA") << text;
  }
}

TEST_F(RecordSearchTest, APageEndsWhereItIsLarge) {
  logbook::RecordSearch search;
  search.bytes = 3;
  EXPECT_EQ(Find("", search), "C");
}

TEST_F(RecordSearchTest, TheLongestQueryRuns) {
  std::string text;
  for (size_t i = 0; i < logbook::kQueryTerms; ++i) {
    absl::StrAppend(&text, i % 3 == 0 ? "run" : "tag:odd", " ");
  }
  EXPECT_EQ(Find(text), "B");
}

}  // namespace
}  // namespace mpsd::store
