// SPDX-License-Identifier: Apache-2.0
#include "core/text/tokenizer.h"

#include <ctime>
#include <fstream>
#include <thread>

#include "core/base/file.h"
#include "core/text/chat_template.h"
#include "core/text/delimited.h"
#include "nlohmann/json.hpp"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::text {
namespace {

// A path below testdata/, which make_golden.py fills.
std::string TestData(const std::string& name) {
  return std::string(MPSD_TEST_SOURCE_DIR) + "/tests/core/text/testdata/" +
         name;
}

nlohmann::ordered_json ReadJson(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return nlohmann::ordered_json::parse(file);
}

// A new folder of one's own.
class TemporaryFolder {
 public:
  const std::string& path() const { return path_; }

  void Write(const std::string& name, const std::string& bytes) const {
    const fs::path file = fs::path(path_) / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
  }

 private:
  static inline int made_ = 0;
  const std::string path_ = FreshFolder("text_" + std::to_string(++made_));
};

std::unique_ptr<Tokenizer> Load(const std::string& name) {
  return Tokenizer::FromFolder(TestData(name)).value();
}

// encodings.json holds what Python's tokenizers made of the same texts.
void ExpectGolden(const std::string& folder) {
  const auto tokenizer = Load(folder);
  int cases = 0;
  for (const auto& c : ReadJson(TestData("encodings.json"))) {
    if (c["folder"] != folder) continue;
    const std::string text = c["text"];
    SCOPED_TRACE(text);
    const auto encoding = tokenizer->Encode(text, c["special"]).value();
    EXPECT_EQ(nlohmann::ordered_json(encoding.ids), c["ids"]);
    EXPECT_EQ(nlohmann::ordered_json(encoding.offsets), c["offsets"]);
    EXPECT_EQ(*tokenizer->EncodeIds(text, c["special"]), encoding.ids);
    EXPECT_EQ(*tokenizer->Decode(encoding.ids, false),
              c["decoded"].get<std::string>());
    EXPECT_EQ(*tokenizer->Decode(encoding.ids, true),
              c["skipped"].get<std::string>());
    ++cases;
  }
  EXPECT_EQ(cases, 36);
}

TEST(TokenizerGolden, ByteLevelBpe) { ExpectGolden("bpe"); }
TEST(TokenizerGolden, WordPiece) { ExpectGolden("wordpiece"); }
TEST(TokenizerGolden, Unigram) { ExpectGolden("unigram"); }
TEST(TokenizerGolden, Roberta) { ExpectGolden("roberta"); }

// classifier.json holds what Transformers made of the same texts and pairs.
TEST(TokenizerGolden, TextsAndPairsOfClassifiers) {
  TemporaryFolder left;
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  for (const char* name : {"bpe", "wordpiece", "unigram", "roberta"}) {
    tokenizers[std::string(name) + "/right"] = Load(name);
    auto config = ReadJson(TestData(name) + "/tokenizer_config.json");
    config["truncation_side"] = "left";
    left.Write(std::string(name) + "/tokenizer_config.json", config.dump());
    fs::copy_file(TestData(name) + "/tokenizer.json",
                  left.path() + "/" + name + "/tokenizer.json");
    tokenizers[std::string(name) + "/left"] =
        *Tokenizer::FromFolder(left.path() + "/" + name);
  }
  int cases = 0;
  for (const auto& c : ReadJson(TestData("classifier.json"))) {
    SCOPED_TRACE(c.dump());
    const std::string text = c["text"];
    const std::string pair = c["pair"].is_null() ? "" : c["pair"];
    std::optional<std::string_view> second;
    if (!c["pair"].is_null()) second = pair;
    const std::string folder = c["folder"], side = c["side"];
    const auto encoding = *tokenizers[folder + "/" + side]->EncodeForClassifier(
        text, second, c["max_length"]);
    EXPECT_EQ(nlohmann::ordered_json(encoding.ids), c["ids"]);
    EXPECT_EQ(nlohmann::ordered_json(encoding.type_ids), c["types"]);
    EXPECT_EQ(encoding.truncated, c["truncated"]);
    ++cases;
  }
  EXPECT_EQ(cases, 420);
}

// classes.json holds what AutoTokenizer made of folders whose class, files and
// settings agree or not.
TEST(TokenizerGolden, ClassesChangeTokenizerJsonAsAutoTokenizerDoes) {
  using Json = nlohmann::ordered_json;
  const Json cases = ReadJson(TestData("classes.json"));
  const Json& shared = cases[0];
  const auto pair = shared["two"].get<std::vector<std::string>>();
  const std::string second = shared["texts"][1];
  for (size_t i = 1; i < cases.size(); ++i) {
    const Json& c = cases[i];
    const std::string base = c["base"];
    SCOPED_TRACE(base + c["config"].dump() + c["files"].dump());
    const TemporaryFolder folder;
    Json json = base == "metaspace"
                    ? shared["metaspace"]
                    : ReadJson(TestData(base + "/tokenizer.json"));
    json.update(c["change"]);
    folder.Write("tokenizer.json", json.dump());
    folder.Write("tokenizer_config.json", c["config"].dump());
    for (const auto& [name, file] : c["files"].items()) {
      folder.Write(name, file.dump());
    }
    const auto made = Tokenizer::FromFolder(folder.path());
    ASSERT_TRUE(made.ok()) << made.status();
    const Tokenizer& tokenizer = **made;
    EXPECT_EQ(tokenizer.vocab_size(), c["size"]);
    Json ids;
    for (const std::string text : shared["texts"]) {
      ids.push_back(*tokenizer.EncodeIds(text, true));
    }
    EXPECT_EQ(ids, c["ids"]);
    EXPECT_EQ(Json(*tokenizer.EncodeIds("Hello the world", false)), c["plain"]);
    const auto both = tokenizer.EncodeForClassifier(pair[0], pair[1], 512);
    EXPECT_EQ(both.ok() ? Json({both->ids, both->type_ids}) : Json(),
              c["pair"]);
    const auto cut = *tokenizer.EncodeForClassifier(second, std::nullopt, 6);
    EXPECT_EQ(Json(cut.ids), c["cut"]);
  }
  EXPECT_EQ(cases.size(), 88u);
}

TEST(TokenizerTest, RefusesAClassThatItDoesNotKnow) {
  const TemporaryFolder folder;
  folder.Write("tokenizer.json",
               *base::ReadFile(TestData("bpe/tokenizer.json")));
  folder.Write("tokenizer_config.json",
               R"({"tokenizer_class": "BertJapaneseTokenizer"})");
  EXPECT_THAT(
      Tokenizer::FromFolder(folder.path()),
      Says(AllOf(HasSubstr("tokenizer_class \"BertJapaneseTokenizer\""),
                 HasSubstr("write \"PreTrainedTokenizerFast\" instead"))));
  folder.Write("tokenizer_config.json",
               R"({"tokenizer_class": "BertTokenizer"})");
  EXPECT_THAT(Tokenizer::FromFolder(folder.path()),
              Says("the tokenizer's class needs a WordPiece model"));
  folder.Write(
      "tokenizer_config.json",
      R"({"tokenizer_class": "BertTokenizer", "do_lower_case": "yes"})");
  EXPECT_THAT(Tokenizer::FromFolder(folder.path()),
              Says("tokenizer_config.json"));
}

TEST(TokenizerTest, PairsHaveTypesWithoutAPostProcessorToo) {
  TemporaryFolder folder;
  auto json = ReadJson(TestData("bpe/tokenizer.json"));
  json["post_processor"] = nullptr;
  folder.Write("tokenizer.json", json.dump());
  const auto tokenizer = *Tokenizer::FromFolder(folder.path());
  const auto encoding =
      tokenizer->EncodeForClassifier("hello world", "hello hello", 3).value();
  EXPECT_THAT(encoding.type_ids, ::testing::ElementsAre(0, 1, 1));
  EXPECT_TRUE(encoding.truncated);
}

TEST(TokenizerTest, ALengthWithoutRoomIsRefused) {
  const auto tokenizer = Load("wordpiece");
  EXPECT_TRUE(tokenizer->EncodeForClassifier("a", "b", 4).ok());
  for (const int64_t length : {-1, 0, 3}) {
    EXPECT_THAT(tokenizer->EncodeForClassifier("a", "b", length),
                Says("leaves no room besides 3 special tokens"));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(
      tokenizer->EncodeForClassifier("\xff", std::nullopt, 9).status()));
}

TEST(TokenizerTest, KnowsItsSpecialTokensAndThoseThatTokenizerJsonLacks) {
  const auto tokenizer = Load("bpe");
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer->eos_id(), tokenizer->TokenToId("<|end|>"));
  EXPECT_EQ(tokenizer->pad_id(), 3);
  EXPECT_EQ(tokenizer->TokenToId("no such token"), std::nullopt);
  EXPECT_TRUE(tokenizer->has_chat_template());
  EXPECT_FALSE(Load("unigram")->has_chat_template());
  EXPECT_EQ(tokenizer->TokenToId("<|extra|>"), tokenizer->vocab_size() - 1);
  const auto unigram = Load("unigram");
  EXPECT_EQ(unigram->TokenToId("snowman"), unigram->vocab_size() - 1);
  EXPECT_TRUE(tokenizer->EncodeForClassifier("hello hello", std::nullopt, 1)
                  ->truncated);
  EXPECT_FALSE(
      tokenizer->EncodeForClassifier("hello", std::nullopt, 1)->truncated);
}

TEST(TokenizerTest, RefusesTextThatIsNotUtf8AndNegativeIds) {
  const auto encoding = Load("bpe")->Encode("ab\xff", false);
  EXPECT_THAT(encoding, Fails(absl::StatusCode::kInvalidArgument,
                              "not UTF-8 after byte 2"));
  EXPECT_EQ(Load("bpe")->EncodeIds("ab\xff", false).status(),
            encoding.status());
  EXPECT_THAT(Load("bpe")->Decode({4, -100}, false),
              Fails(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("-100"), HasSubstr("at 1"))));
  EXPECT_THAT(*Load("bpe")->Decode({1000000}, false), IsEmpty());
}

TEST(TokenizerTest, NamesTheFileThatIsMissingOrBroken) {
  const TemporaryFolder folder;
  EXPECT_THAT(Tokenizer::FromFolder(folder.path()),
              Fails(absl::StatusCode::kNotFound, "tokenizer.json"));
  folder.Write("vocab.txt", "a\n");
  EXPECT_THAT(
      Tokenizer::FromFolder(folder.path()),
      Says(AllOf(HasSubstr("it has vocab.txt"), HasSubstr("save_pretrained"))));
  folder.Write("tokenizer.json", "{\"model\": ");
  EXPECT_THAT(Tokenizer::FromFolder(folder.path()),
              Fails(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("tokenizer.json"), HasSubstr("line 1"))));
  auto json = ReadJson(TestData("bpe/tokenizer.json"));
  json["model"]["merges"].push_back({"nowhere", "nothing"});
  folder.Write("tokenizer.json", json.dump());
  EXPECT_THAT(Tokenizer::FromFolder(folder.path()),
              Says(AllOf(HasSubstr("tokenizer.json"), HasSubstr("nowhere"))));
}

// As tokenizers.json of old have it: the library infers the kind from what is
// there.
TEST(TokenizerTest, ReadsAModelThatDoesNotSayItsKind) {
  for (const char* name : {"bpe", "wordpiece", "unigram"}) {
    const TemporaryFolder folder;
    auto json = ReadJson(TestData(std::string(name) + "/tokenizer.json"));
    EXPECT_EQ(json["model"].erase("type"), 1u);
    folder.Write("tokenizer.json", json.dump());
    const auto tokenizer = Tokenizer::FromFolder(folder.path()).value();
    const char text[] = "the quick brown fox";
    EXPECT_EQ(*tokenizer->EncodeIds(text, true),
              *Load(name)->EncodeIds(text, true));
  }
}

TEST(TokenizerTest, SplitsSpecialTokensWhereTheFolderAsksForIt) {
  const TemporaryFolder folder;
  folder.Write("tokenizer.json",
               *base::ReadFile(TestData("bpe/tokenizer.json")));
  EXPECT_EQ((*Tokenizer::FromFolder(folder.path()))
                ->Encode("<|end|>", false)
                ->ids.size(),
            1u);
  folder.Write("tokenizer_config.json", "{\"split_special_tokens\": true}");
  EXPECT_GT((*Tokenizer::FromFolder(folder.path()))
                ->Encode("<|end|>", false)
                ->ids.size(),
            1u);
}

// A base model: "bpe" without its template, "<|user|>" among its tokens.
class OverridesTest : public ::testing::Test {
 protected:
  OverridesTest() {
    model_.Write("tokenizer.json",
                 *base::ReadFile(TestData("bpe") + "/tokenizer.json"));
    auto config = ReadJson(TestData("bpe") + "/tokenizer_config.json");
    config.erase("chat_template");
    model_.Write("tokenizer_config.json", config.dump());
    other_.Write("chat.jinja", "{{ messages[0].content }}{{ eos_token }}");
    other_.Write("chat.txt", "x");
  }
  std::string Rendered(const TextOverrides& overrides) {
    return ChatTemplate::FromFolder(model_.path(), TemplateUse::kAsIs,
                                    overrides)
        .value()
        ->Render(R"([{"role": "user", "content": "hi"}])", "", false)
        ->text;
  }
  std::string Fault(const TextOverrides& overrides) {
    return std::string(
        Tokenizer::FromFolder(model_.path(), overrides).status().message());
  }

  const TemporaryFolder model_, other_;
};

TEST_F(OverridesTest, AFileIsTheTemplateOfABaseModel) {
  EXPECT_TRUE(
      absl::IsNotFound(ChatTemplate::FromFolder(model_.path()).status()));
  const TextOverrides file = {.chat_template_path =
                                  other_.path() + "/chat.jinja"};
  EXPECT_TRUE(
      (*Tokenizer::FromFolder(model_.path(), file))->has_chat_template());
  EXPECT_EQ(Rendered(file), "hi<|end|>");
  TextOverrides both = file;
  both.eos_token = "<|user|>";
  EXPECT_EQ(Rendered(both), "hi<|user|>");
  const auto tokenizer = *Tokenizer::FromFolder(model_.path(), both);
  EXPECT_EQ(tokenizer->eos_id(), tokenizer->TokenToId("<|user|>"));
}

TEST_F(OverridesTest, AFolderGivesTemplateAndEndToken) {
  other_.Write("tokenizer_config.json",
               R"({"eos_token": "<|user|>", "additional_special_tokens":
                   ["<|unused|>"], "chat_template": "x{{ eos_token }}"})");
  EXPECT_EQ(Rendered({.chat_template_path = other_.path()}), "x<|user|>");
  EXPECT_EQ(Rendered({other_.path(), "<|end|>"}), "x<|end|>");
  // Its tokens in the template must be the model's.
  other_.Write("tokenizer_config.json",
               R"({"eos_token": "<|end|>", "additional_special_tokens":
                   ["<|start|>"], "chat_template": "<|start|>"})");
  EXPECT_THAT(Fault({.chat_template_path = other_.path()}),
              AllOf(HasSubstr("training.chat_template_path"),
                    HasSubstr("no token \"<|start|>\"")));
  // The end token that the job names is asked for alone.
  other_.Write("tokenizer_config.json",
               R"({"eos_token": "<|nowhere|>", "chat_template": "x"})");
  EXPECT_THAT(Fault({.chat_template_path = other_.path()}),
              HasSubstr("no token \"<|nowhere|>\""));
  EXPECT_EQ(Fault({other_.path(), "<|end|>"}), "");
  other_.Write("tokenizer_config.json", "{}");
  EXPECT_THAT(Fault({.chat_template_path = other_.path()}),
              HasSubstr("has no chat template"));
}

TEST_F(OverridesTest, WhatCannotBeTaken) {
  EXPECT_THAT(Fault({.eos_token = "<|nowhere|>"}),
              AllOf(HasSubstr("training.eos_token"),
                    HasSubstr("no token \"<|nowhere|>\"")));
  EXPECT_THAT(Fault({.chat_template_path = other_.path() + "/chat.txt"}),
              HasSubstr("expected a .jinja or .j2 file, or a model folder"));
  EXPECT_THAT(Fault({.chat_template_path = other_.path() + "/absent.jinja"}),
              AllOf(HasSubstr("training.chat_template_path"),
                    HasSubstr("absent.jinja")));
}

TEST_F(OverridesTest, TheIdIsOfWhatIsTaken) {
  const std::string& dir = model_.path();
  EXPECT_EQ(*OverridesId(dir, {}), "");
  const TextOverrides file = {.chat_template_path =
                                  other_.path() + "/chat.jinja"};
  const std::string id = *OverridesId(dir, file);
  EXPECT_EQ(id.size(), 64u);
  EXPECT_EQ(*OverridesId(dir, file), id);
  EXPECT_NE(*OverridesId(dir, {file.chat_template_path, "<|user|>"}), id);
  other_.Write("chat.jinja", "another");
  EXPECT_NE(*OverridesId(dir, file), id);
}

TEST_F(OverridesTest, AreWrittenIntoAResult) {
  const TemporaryFolder result;
  result.Write("tokenizer_config.json",
               R"({"eos_token": "<|end|>", "chat_template": "old", "a": 1})");
  result.Write("config.json", R"({"eos_token_id": 7, "model_type": "llama"})");
  result.Write("generation_config.json", R"({"eos_token_id": [7, 5]})");
  result.Write("additional_chat_templates/rag.jinja", "old");
  const std::string path = other_.path() + "/chat.jinja";
  const auto read = [&](const std::string& name) {
    return ReadJson(result.path() + "/" + name);
  };
  // A template alone leaves the end token as it is.
  ASSERT_TRUE(WriteOverrides(model_.path(), {path, ""}, 5, result.path()).ok());
  EXPECT_EQ(read("tokenizer_config.json").dump(),
            R"({"eos_token":"<|end|>","a":1})");
  EXPECT_EQ(read("config.json")["eos_token_id"], 7);
  EXPECT_FALSE(fs::exists(result.path() + "/additional_chat_templates"));
  EXPECT_EQ(*base::ReadFile(result.path() + "/chat_template.jinja"),
            *base::ReadFile(path));
  ASSERT_TRUE(
      WriteOverrides(model_.path(), {path, "<|user|>"}, 5, result.path()).ok());
  EXPECT_EQ(read("tokenizer_config.json")["eos_token"], "<|user|>");
  EXPECT_EQ(read("config.json")["eos_token_id"], 5);
  EXPECT_EQ(read("generation_config.json")["eos_token_id"].dump(), "[5,7]");
  EXPECT_FALSE(fs::exists(result.path() + "/special_tokens_map.json"));
  // What was written is what the next reader finds.
  result.Write("tokenizer.json",
               *base::ReadFile(TestData("bpe") + "/tokenizer.json"));
  const auto again = *Tokenizer::FromFolder(result.path());
  EXPECT_EQ(again->eos_id(), again->TokenToId("<|user|>"));
  EXPECT_TRUE(again->has_chat_template());
}

FolderText Read(const TemporaryFolder& folder) {
  return ReadFolderText(folder.path()).value();
}

std::string Fault(const std::string& file, const std::string& bytes) {
  const TemporaryFolder folder;
  folder.Write(file, bytes);
  const auto text = ReadFolderText(folder.path());
  EXPECT_TRUE(absl::IsInvalidArgument(text.status()));
  return std::string(text.status().message());
}

// The contents of the tokens: those declared, those added when missing.
std::vector<std::vector<std::string>> Added(const FolderText& text) {
  std::vector<std::vector<std::string>> names;
  for (const auto& list : nlohmann::json::parse(text.added_tokens_json)) {
    names.emplace_back();
    for (const auto& token : list) names.back().push_back(token["content"]);
  }
  return names;
}

TEST(FolderTest, NamedTokensAreStringsOrObjectsOrNull) {
  const TemporaryFolder folder;
  folder.Write("tokenizer_config.json",
               R"({"bos_token": {"content": "<s>", "lstrip": true},
                   "eos_token": "</s>", "pad_token": null,
                   "image_token": "<img>", "add_bos_token": true,
                   "extra_special_tokens": {"audio_token": "<snd>"}})");
  const FolderText text = Read(folder);
  EXPECT_THAT(
      text.special_tokens,
      ElementsAre(Pair("audio_token", "<snd>"), Pair("bos_token", "<s>"),
                  Pair("eos_token", "</s>"), Pair("image_token", "<img>")));
  EXPECT_THAT(
      Added(text),
      ElementsAre(IsEmpty(), ElementsAre("<s>", "</s>", "<img>", "<snd>")));
  EXPECT_EQ(nlohmann::json::parse(text.added_tokens_json)[1][0],
            nlohmann::json({{"content", "<s>"},
                            {"single_word", false},
                            {"lstrip", true},
                            {"rstrip", false},
                            {"normalized", false},
                            {"special", true}}));
}

TEST(FolderTest, LegacyFilesCountWhereNoTokensAreDeclared) {
  const TemporaryFolder folder;
  folder.Write("tokenizer_config.json",
               "{\"bos_token\": \"old\", \"eos_token\": \"e\"}");
  folder.Write("special_tokens_map.json", "{\"bos_token\": \"new\"}");
  folder.Write("added_tokens.json", "{\"new\": 7, \"word\": 6}");
  const FolderText text = Read(folder);
  EXPECT_THAT(text.special_tokens,
              ElementsAre(Pair("bos_token", "new"), Pair("eos_token", "e")));
  EXPECT_THAT(Added(text),
              ElementsAre(ElementsAre("word", "new"), ElementsAre("e")));
  const auto declared = nlohmann::json::parse(text.added_tokens_json)[0];
  EXPECT_EQ(declared["6"]["special"], false);
  EXPECT_EQ(declared["7"]["special"], true);

  folder.Write("tokenizer_config.json",
               "{\"bos_token\": \"old\", \"added_tokens_decoder\": {}}");
  EXPECT_THAT(Read(folder).special_tokens,
              ElementsAre(Pair("bos_token", "old")));
}

TEST(FolderTest, TemplateFilesWinOverTheConfig) {
  const TemporaryFolder folder;
  folder.Write("tokenizer_config.json", "{\"chat_template\": \"config\"}");
  EXPECT_THAT(Read(folder).chat_templates,
              ElementsAre(Pair("default", "config")));
  folder.Write("chat_template.jinja", "file");
  EXPECT_THAT(Read(folder).chat_templates,
              ElementsAre(Pair("default", "file")));
  folder.Write("additional_chat_templates/tool_use.jinja", "tools");
  folder.Write("additional_chat_templates/README.md", "no template");
  EXPECT_THAT(Read(folder).chat_templates,
              ElementsAre(Pair("default", "file"), Pair("tool_use", "tools")));
}

TEST(FolderTest, FaultsNameFileAndField) {
  const std::string config = "tokenizer_config.json";
  EXPECT_THAT(Fault(config, "{\"a\": \n }"),
              AllOf(HasSubstr(config), HasSubstr("line 2")));
  EXPECT_THAT(Fault(config, "[]"), HasSubstr("a JSON object expected"));
  EXPECT_THAT(Fault("special_tokens_map.json", "{"),
              HasSubstr("special_tokens_map.json"));
  EXPECT_THAT(Fault("added_tokens.json", "{\"x\": \"y\"}"),
              AllOf(HasSubstr("added_tokens.json"), HasSubstr("\"x\"")));
  EXPECT_THAT(Fault(config, "{\"eos_token\": 3}"), HasSubstr("eos_token"));
  EXPECT_THAT(Fault(config, "{\"added_tokens_decoder\": {\"x\": {}}}"),
              HasSubstr("added_tokens_decoder.x"));
  EXPECT_THAT(Fault(config, "{\"added_tokens_decoder\": 1}"),
              HasSubstr("added_tokens_decoder"));
  EXPECT_THAT(Fault(config, "{\"chat_template\": 1}"),
              HasSubstr("chat_template"));
  EXPECT_THAT(Fault(config, "{\"chat_template\": [{\"name\": \"x\"}]}"),
              HasSubstr("chat_template[0]"));
  EXPECT_THAT(Fault(config, "{\"extra_special_tokens\": [1]}"),
              HasSubstr("extra_special_tokens"));
  EXPECT_THAT(Fault(config, "{\"a\": " + std::string(100'000, '[') +
                                std::string(100'000, ']') + "}"),
              AllOf(HasSubstr(config), HasSubstr("nested too deep")));
  EXPECT_THAT(Fault(config, "{\"split_special_tokens\": \"x\"}"),
              HasSubstr(config));
}

using testing::AnyOf;
using testing::Eq;

constexpr char kHi[] = "[{\"role\": \"user\", \"content\": \"Hi\"}]";

std::unique_ptr<ChatTemplate> Make(const std::string& source) {
  return ChatTemplate::FromSource(source, "").value();
}

absl::StatusOr<std::string> RenderHi(const std::string& source) {
  auto rendered = Make(source)->Render(kHi, "", false);
  if (!rendered.ok()) return rendered.status();
  return rendered->text;
}

std::string TemplateFault(const absl::Status& status) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

std::string CompileFault(const std::string& source) {
  return TemplateFault(ChatTemplate::FromSource(source, "").status());
}

std::string RenderFault(const std::string& source) {
  return TemplateFault(RenderHi(source).status());
}

// templates.json holds what Transformers rendered.
TEST(ChatTemplateTest, EqualsTransformers) {
  const auto all = ReadJson(TestData("templates.json"));
  EXPECT_EQ(all.size(), 26u);
  for (const auto& c : all) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const auto made = *ChatTemplate::FromSource(
        c["source"], "{\"bos_token\": \"<s>\", \"eos_token\": \"<|end|>\"}");
    const std::string tools = c["tools"].is_null() ? "" : c["tools"].dump();
    std::string kwargs = c["kwargs"].dump();
    // nlohmann has no integers of this size; Python and the crate do.
    const size_t big = kwargs.find("1.2345678901234568e+29");
    if (big != std::string::npos) {
      kwargs.replace(big, 22, "123456789012345678901234567890");
    }
    const auto rendered =
        *made->Render(c["messages"].dump(), tools, c["prompt"], kwargs);
    EXPECT_EQ(rendered.text, c["text"].get<std::string>());
    EXPECT_EQ(nlohmann::ordered_json(rendered.generation_spans), c["spans"]);
  }
}

TEST(ChatTemplateTest, ToolUseIsTakenOnlyWithToolsAndNamesNeedADefault) {
  const TemporaryFolder folder;
  folder.Write("tokenizer_config.json",
               R"({"chat_template": [
                    {"name": "default", "template": "plain"},
                    {"name": "tool_use", "template":
                     "{% generation %}tools{% endgeneration %}"}]})");
  const auto made = ChatTemplate::FromFolder(folder.path()).value();
  EXPECT_FALSE(made->has_generation_blocks());
  EXPECT_EQ(made->Render(kHi, "", false)->text, "plain");
  EXPECT_EQ(made->Render(kHi, "[]", false)->text, "tools");
  folder.Write(
      "tokenizer_config.json",
      "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"\"}]}");
  const auto named = ChatTemplate::FromFolder(folder.path()).value();
  EXPECT_THAT(TemplateFault(named->Render(kHi, "", false).status()),
              HasSubstr("\"default\""));
  EXPECT_THAT(ChatTemplate::FromFolder(TestData("unigram")),
              Fails(absl::StatusCode::kNotFound, "chat_template.jinja"));
}

const time_t kStart = time(nullptr);

TEST(ChatTemplateTest, StrftimeNowIsLocalTime) {
  const auto at = [](time_t seconds) {
    tm parts;
    localtime_r(&seconds, &parts);
    char text[64];
    strftime(text, sizeof text, "%d %b %Y %H %%f", &parts);
    return std::string(text);
  };
  const auto rendered = *RenderHi("{{ strftime_now('%d %b %Y %H %%f') }}");
  EXPECT_THAT(rendered, AnyOf(Eq(at(kStart)), Eq(at(time(nullptr)))));
  EXPECT_EQ(RenderHi("{{ strftime_now('%f') }}")->size(), 6u);
}

// A row is rendered several times, and all rows are of one day.
TEST(ChatTemplateTest, StrftimeNowIsOneTimeForAllRows) {
  const auto first = RenderHi("{{ strftime_now('%c %f') }}").value();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(*RenderHi("{{ strftime_now('%c %f') }}"), first);
}

TEST(ChatTemplateTest, ErrorsNameTheirLine) {
  EXPECT_THAT(CompileFault("a\nb\n{% if x %}\n"),
              AllOf(HasSubstr("chat template"), HasSubstr("line ")));
  EXPECT_THAT(CompileFault("a\n{{ x + }}\n"), HasSubstr("line 2: "));
  EXPECT_THAT(CompileFault("a\n\n{% generation x %}"), HasSubstr("line 3: "));
  EXPECT_THAT(CompileFault("{% generation %}a"), HasSubstr("line 1: "));
  EXPECT_EQ(
      RenderFault("x\n{{ raise_exception('Roles must ' ~ 'alternate') }}"),
      "chat template: line 2: Roles must alternate");
  EXPECT_THAT(RenderFault("\n\n{{ nothing.at.all }}"), HasSubstr("line 3: "));
  EXPECT_THAT(RenderFault("{{ 'a' + 1 }}"), HasSubstr("line 1: "));
  EXPECT_THAT(RenderFault("{{ 'a'.nope() }}"), HasSubstr("nope"));
  EXPECT_THAT(RenderFault("{% autoescape true %}{{ 1 }}{% endautoescape %}"),
              HasSubstr("autoescape"));
  EXPECT_THAT(RenderFault("{{ messages | groupby('role') }}"),
              HasSubstr("groupby"));
  EXPECT_THAT(RenderFault("{{ messages[0] | attr('role') }}"),
              HasSubstr("attr"));
  EXPECT_THAT(RenderFault("{{ nothing | tojson }}"), HasSubstr("tojson"));
  EXPECT_THAT(RenderFault("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
              HasSubstr("recursion"));
}

TEST(ChatTemplateTest, BadArgumentsAreNamed) {
  const auto made = Make("x");
  const auto fault = [&](const char* messages, const char* tools,
                         const char* kwargs) {
    return TemplateFault(made->Render(messages, tools, false, kwargs).status());
  };
  EXPECT_THAT(fault("[", "", ""), AllOf(HasSubstr("messages: malformed JSON"),
                                        HasSubstr("byte 1")));
  EXPECT_THAT(fault("{}", "", ""), HasSubstr("messages: a JSON array"));
  EXPECT_THAT(fault("[]", "", ""), HasSubstr("at least one"));
  EXPECT_THAT(fault("[{}, 3]", "", ""), HasSubstr("messages[1]: an object"));
  EXPECT_THAT(fault(kHi, "{}", ""), HasSubstr("tools: a JSON array"));
  EXPECT_THAT(fault(kHi, "[\"f\"]", ""), HasSubstr("tools[0]: an object"));
  EXPECT_THAT(fault(kHi, "", "[]"), HasSubstr("kwargs: a JSON object"));
  EXPECT_THAT(fault(kHi, "", "{\"messages\": 1}"), HasSubstr("'messages'"));
  EXPECT_THAT(fault("[{\"a\": \"\xff\"}]", "", ""), HasSubstr("not UTF-8"));
  EXPECT_THAT(fault("[{\"a\": \"\\ud800\"}]", "", ""), HasSubstr("surrogate"));
}

TEST(ChatTemplateTest, ReadsJsonAsPythonDoes) {
  const auto made = Make("{{ messages[0].v }}");
  const auto value = [&](const std::string& json) {
    const auto rendered = made->Render("[{\"v\": " + json + "}]", "", false);
    return rendered.ok() ? rendered->text : TemplateFault(rendered.status());
  };
  EXPECT_EQ(value("-0"), "0");
  EXPECT_EQ(value("1.50"), "1.5");
  EXPECT_EQ(value("1E3"), "1000.0");
  EXPECT_EQ(value("-12e-7"), "-1.2e-06");
  EXPECT_EQ(value("18446744073709551616"), "18446744073709551616");
  EXPECT_EQ(value("\"\\ud83d\\ude00\\u00e9\\n\\/\""), "😀é\n/");
  EXPECT_EQ(value("{\"b\": 1, \"a\": 2, \"b\": 3}"), "{'b': 3, 'a': 2}");
  EXPECT_EQ(value("[NaN, Infinity]"), "[nan, inf]");
  for (const char* bad : {"01", "1.", ".5", "1.e3", "+1", "tru", "'a'", "1 2",
                          "[1,]", "{\"a\":}", "\"\t\"", "\"\\x\"", "\"", ""}) {
    EXPECT_THAT(value(bad), HasSubstr("malformed JSON")) << bad;
  }
  EXPECT_THAT(value(std::string(5000, '[')), HasSubstr("nested deeper"));
}

// Tokens of "ab", " c", one character of four bytes in two tokens, "d".
Encoding FiveTokens() {
  return {{1, 2, 3, 4, 5}, {{0, 2}, {2, 4}, {4, 8}, {4, 8}, {8, 9}}};
}

TEST(AssistantMaskTest, CoversEveryTokenThatASpanOverlaps) {
  EXPECT_THAT(AssistantMask(FiveTokens(), {}), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(AssistantMask(FiveTokens(), {{1, 3}}),
              ElementsAre(1, 1, 0, 0, 0));
  EXPECT_THAT(AssistantMask(FiveTokens(), {{2, 4}, {8, 9}}),
              ElementsAre(0, 1, 0, 0, 1));
  // All tokens of a last character; the first token alone.
  EXPECT_THAT(AssistantMask(FiveTokens(), {{2, 8}}),
              ElementsAre(0, 1, 1, 1, 0));
  EXPECT_THAT(AssistantMask(FiveTokens(), {{0, 2}, {8, 9}}),
              ElementsAre(1, 0, 0, 0, 1));
  EXPECT_THAT(AssistantMask(FiveTokens(), {{4, 100}}),
              ElementsAre(0, 0, 1, 1, 1));
  EXPECT_THAT(AssistantMask(FiveTokens(), {{50, 60}}),
              ElementsAre(0, 0, 0, 0, 0));
}

TEST(ChatTemplateTest, KnowsWhetherTheEndOfATurnIsALabel) {
  const std::string before =
      "{% for m in messages %}{% generation %}{{ m.content }}";
  const std::string after = "{% endgeneration %}";
  EXPECT_FALSE(Make(before + after + "<end>{% endfor %}")->LabelsEndOfTurn());
  EXPECT_TRUE(
      Make(before + "<end>" + after + "{% endfor %}")->LabelsEndOfTurn());
  EXPECT_TRUE(Make("{{ messages[0].content }}")->LabelsEndOfTurn());
  EXPECT_TRUE(
      Make("{{ raise_exception('x') }}" + before + after + "{% endfor %}")
          ->LabelsEndOfTurn());
}

TEST(TrainingTemplate, EachEditMustFitOnceInStockTemplatesAlone) {
  EXPECT_EQ(TrainingTemplate(""), std::nullopt);
  EXPECT_EQ(TrainingTemplate("{{ messages[0].content }}"), std::nullopt);
  // The edits themselves are compared with TRL's templates by
  // tests/live/text/compare_labels.py: stock templates are not kept here.
  EXPECT_EQ(EditTemplate("a b c", {}), "a b c");
  EXPECT_EQ(EditTemplate("a b c", {{"a", "c"}, {"b", "x"}}), "c x c");
  EXPECT_EQ(EditTemplate("a b c", {{"a", "c"}, {"c", "x"}}), std::nullopt);
  EXPECT_EQ(EditTemplate("a b c", {{"d", "x"}}), std::nullopt);
  EXPECT_EQ(EditTemplate("aaa", {{"aa", "x"}}), std::nullopt);
}

using Fields = std::vector<std::string>;

std::vector<Fields> Parse(std::string_view bytes, char delimiter = ',',
                          bool quoting = true) {
  auto rows = ParseDelimited(bytes, delimiter, quoting).value();
  std::vector<Fields> fields;
  for (const DelimitedRow& row : rows) {
    EXPECT_EQ(row.fault, QuoteFault::kNone) << row.line;
    fields.push_back(row.fields);
  }
  return fields;
}

std::vector<int64_t> Lines(std::string_view bytes) {
  const auto rows = ParseDelimited(bytes, ',', true);
  std::vector<int64_t> lines;
  for (const DelimitedRow& row : *rows) lines.push_back(row.line);
  return lines;
}

QuoteFault DelimitedFault(std::string_view bytes) {
  return ParseDelimited(bytes, ',', true)->back().fault;
}

TEST(ParseDelimited, ReadsQuotedFieldsOrQuotesAsCharacters) {
  EXPECT_THAT(Parse("a,\"b,c\",\"say \"\"hi\"\"\"\n\"line\nline\",,\n"),
              ElementsAre(Fields{"a", "b,c", "say \"hi\""},
                          Fields{"line\nline", "", ""}));
  EXPECT_THAT(Parse("\"\"\n"), ElementsAre(Fields{""}));
  EXPECT_THAT(Parse("5\" disk,x"), ElementsAre(Fields{"5\" disk", "x"}));
  EXPECT_THAT(Parse(" a , \"b\" "), ElementsAre(Fields{" a ", " \"b\" "}));
  EXPECT_THAT(Parse(""), IsEmpty());
  EXPECT_THAT(Parse("\"a\t\"b\"\"\tc\n\"\t1", '\t', false),
              ElementsAre(Fields{"\"a", "\"b\"\"", "c"}, Fields{"\"", "1"}));
}

TEST(ParseDelimited, TakesEveryLineEndAndNumbersTheLines) {
  for (const char* text : {"a,b\nc,d", "a,b\r\nc,d\r\n", "a,b\rc,d\r",
                           "\n\na,b\n\n\nc,d\n\n", "\r\na,b\r\n\r\nc,d"}) {
    EXPECT_THAT(Parse(text), ElementsAre(Fields{"a", "b"}, Fields{"c", "d"}));
  }
  EXPECT_THAT(Lines("a\nb\nc"), ElementsAre(1, 2, 3));
  EXPECT_THAT(Lines("a\r\nb\r\n\r\nc"), ElementsAre(1, 2, 4));
  EXPECT_THAT(Lines("a\rb\r\rc"), ElementsAre(1, 2, 4));
  EXPECT_THAT(Lines("\n\na\n\"x\n\ny\"\nz"), ElementsAre(3, 4, 7));
}

TEST(ParseDelimited, SaysWhichQuotesAreWrongAndTakesAnyBytes) {
  EXPECT_EQ(DelimitedFault("a,\"b"), QuoteFault::kUnclosed);
  EXPECT_EQ(DelimitedFault("a,\"b\"\"\nc,d\n"), QuoteFault::kUnclosed);
  EXPECT_EQ(DelimitedFault("a,\"b\" c"), QuoteFault::kBehindQuote);
  EXPECT_EQ(DelimitedFault("\"b\"c\",d"), QuoteFault::kBehindQuote);
  EXPECT_EQ(DelimitedFault("a,\"b\"\r\n"), QuoteFault::kNone);
  EXPECT_EQ(DelimitedFault("\"b\",\"\""), QuoteFault::kNone);
  std::string wide = "x";
  for (int i = 0; i < 500; ++i) wide += ",x";
  EXPECT_EQ(Parse(wide + "\n" + wide)[1].size(), 501u);
  const std::string bytes("a\0b,\xff", 5);
  EXPECT_THAT(Parse(bytes),
              ElementsAre(Fields{std::string("a\0b", 3), "\xff"}));
}

}  // namespace
}  // namespace mpsd::text
