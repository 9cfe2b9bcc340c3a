// SPDX-License-Identifier: Apache-2.0
#include "server/hub/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"

namespace mpsd::hub {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kCommit(40, 'c'), kGit(40, 'a'), kSha(64, 'b');

Json Small(const std::string& path, Json size = 10) {
  return {{"rfilename", path}, {"size", size}, {"blobId", kGit}};
}
Json Large(const std::string& path, Json size = 1000) {
  return {{"rfilename", path},
          {"size", size},
          {"blobId", kGit},
          {"lfs", {{"sha256", kSha}, {"size", size}, {"pointerSize", 130}}}};
}
std::string Answer(const std::vector<Json>& siblings) {
  return Json{{"id", "org/m"}, {"sha", kCommit}, {"siblings", siblings}}.dump();
}
std::vector<std::string> PathsOf(const Listing& listing) {
  std::vector<std::string> paths;
  for (const HubFile& file : listing.files) paths.push_back(file.path);
  return paths;
}
absl::Status ErrorOf(const std::vector<Json>& siblings) {
  return ParseListing(Answer(siblings)).status();
}

TEST(ParseListing, TakesWhatMpsdNeedsAndNothingElse) {
  const auto listing = ParseListing(Answer(
      {Small("config.json"), Small("tokenizer.json"), Small("README.md"),
       Large("model.safetensors"), Large("pytorch_model.bin"),
       Large("model-00001-of-00002.safetensors"),
       Large("consolidated.safetensors"), Small("model.safetensors.index.json"),
       Large("onnx/model.safetensors"),
       Small("additional_chat_templates/rag.jinja"), Small(".gitattributes"),
       Small("modeling_evil.py"), Large("model.fp16.safetensors")}));
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_EQ(listing->commit, kCommit);
  EXPECT_THAT(PathsOf(*listing),
              ElementsAre("additional_chat_templates/rag.jinja", "config.json",
                          "model.safetensors", "tokenizer.json"));
  EXPECT_EQ(listing->TotalBytes(), 1030);
  EXPECT_EQ(*listing->Find("model.safetensors"),
            (HubFile{"model.safetensors", 1000, kSha}));
  EXPECT_EQ(*listing->Find("config.json"), (HubFile{"config.json", 10, kGit}));
}

TEST(ParseListing, TakesShardsWhereThereIsNoWhole) {
  auto listing = ParseListing(
      Answer({Small("config.json"), Small("model.safetensors.index.json"),
              Large("model-00001-of-00002.safetensors"),
              Large("model-00002-of-00002.safetensors"),
              Large("model.fp16-00001-of-00001.safetensors")}));
  ASSERT_TRUE(listing.ok()) << listing.status();
  const Json index = {{"weight_map",
                       {{"a", "model-00001-of-00002.safetensors"},
                        {"b", "model-00002-of-00002.safetensors"},
                        {"c", "model-00001-of-00002.safetensors"}}}};
  ASSERT_TRUE(KeepShards(index.dump(), *listing).ok());
  EXPECT_THAT(PathsOf(*listing),
              ElementsAre("config.json", "model-00001-of-00002.safetensors",
                          "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json"));
}

TEST(KeepShards, RefusesAnIndexThatNamesOtherFiles) {
  const Listing before =
      ParseListing(
          Answer({Small("config.json"), Small("model.safetensors.index.json"),
                  Large("model-1.safetensors")}))
          .value();
  for (const std::string& index :
       {std::string("<html>"), std::string("[]"), std::string("{}"),
        std::string(R"({"weight_map": []})"),
        std::string(R"({"weight_map": {"a": 1}})"),
        std::string(R"({"weight_map": {"a": "../../etc/passwd"}})"),
        std::string(R"({"weight_map": {"a": "config.json"}})"),
        std::string(R"({"weight_map": {"a": "model-2.safetensors"}})"),
        std::string(100'000, '[')}) {
    Listing listing = before;
    EXPECT_EQ(KeepShards(index, listing).code(),
              absl::StatusCode::kFailedPrecondition)
        << index.substr(0, 60);
  }
}

TEST(ParseListing, NamesOfOtherPlacesAreNotTaken) {
  const auto listing = ParseListing(Answer(
      {Small("config.json"), Large("model.safetensors"),
       Small("../../../etc/vocab.txt"), Small("/vocab.txt"),
       Small("a/../vocab.txt"), Small("additional_chat_templates/../x.jinja"),
       Small("additional_chat_templates/.jinja"), Small("vocab.txt\n"),
       Large("model/../../x.safetensors"), Large("model\\x.safetensors")}));
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_THAT(PathsOf(*listing),
              ElementsAre("config.json", "model.safetensors"));
}

TEST(ParseListing, RefusesWhatIsNoAnswerOfAHub) {
  for (const std::string& text :
       {std::string(""), std::string("<html><body>Log in to the WLAN"),
        std::string("[]"), std::string("{}"), std::string("null"),
        Json{{"sha", "main"}, {"siblings", Json::array()}}.dump(),
        Json{{"sha", kCommit}, {"siblings", 1}}.dump(),
        Json{{"sha", kCommit}, {"siblings", {1}}}.dump(),
        std::string(1'000'000, '['),
        std::string("{\"sha\":") + std::string(100'000, '[')}) {
    const auto listing = ParseListing(text);
    EXPECT_EQ(listing.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(listing.status().message()),
                HasSubstr("is mpsd's --hub right?"));
  }
}

TEST(ParseListing, SaysWhatTheModelLacks) {
  EXPECT_THAT(std::string(ErrorOf({Large("model.safetensors")}).message()),
              HasSubstr("no config.json"));
  for (const auto& weights : {Large("pytorch_model.bin"), Large("model.gguf"),
                              Large("model-00001-of-00002.safetensors")}) {
    const absl::Status error = ErrorOf({Small("config.json"), weights});
    EXPECT_EQ(error.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(error.message()), HasSubstr("no safetensors"));
  }
}

TEST(ParseListing, AFileWithoutSizeOrHashIsNotTaken) {
  Json no_hash = Small("vocab.txt"), bad_hash = Large("model.safetensors");
  no_hash.erase("blobId");
  bad_hash["lfs"]["sha256"] = "../../../../etc/passwd";
  Json no_size = Small("vocab.txt");
  no_size.erase("size");
  for (const Json& bad : {no_hash, bad_hash, no_size, Small("vocab.txt", -1),
                          Small("vocab.txt", "10"), Small("vocab.txt", 1.5),
                          Small("vocab.txt", limits::kHubFileBytes + 1),
                          Small("vocab.txt", uint64_t{1} << 63)}) {
    std::vector<Json> siblings = {Small("config.json"), bad};
    if (bad["rfilename"] != "model.safetensors") {
      siblings.push_back(Large("model.safetensors"));
    }
    EXPECT_EQ(ErrorOf(siblings).code(), absl::StatusCode::kDataLoss) << bad;
  }
}

TEST(ParseListing, AFileIsListedOnce) {
  Json other = Large("model.safetensors");
  other["lfs"]["sha256"] = std::string(64, 'd');
  EXPECT_EQ(
      ErrorOf({Small("config.json"), Large("model.safetensors"), other}).code(),
      absl::StatusCode::kDataLoss);
}

TEST(ParseListing, HoldsItsLimits) {
  std::vector<Json> siblings = {Small("config.json", limits::kModelFileBytes),
                                Large("model.safetensors")};
  EXPECT_TRUE(ErrorOf(siblings).ok());
  siblings[0]["size"] = limits::kModelFileBytes + 1;
  EXPECT_THAT(std::string(ErrorOf(siblings).message()), HasSubstr("too large"));
  siblings[0]["size"] = 1;
  for (size_t i = 2; i < limits::kFilesOfModel; ++i) {
    siblings.push_back(
        Small(absl::StrCat("additional_chat_templates/", i, ".jinja")));
  }
  EXPECT_TRUE(ErrorOf(siblings).ok());
  siblings.push_back(Small("vocab.txt"));
  EXPECT_THAT(std::string(ErrorOf(siblings).message()),
              HasSubstr("1001 files, at most 1000"));
}

}  // namespace
}  // namespace mpsd::hub
