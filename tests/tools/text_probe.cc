// SPDX-License-Identifier: Apache-2.0
// Answers questions about core/text and rows for tests/live/text: one JSON
// object a line on stdin, one answer a line on stdout, in order. An answer
// holds "error" when the call failed. Questions, by "op":
//   load    {dir}                        a tokenizer, for the ops below
//   encode  {text, special}              {ids, offsets}
//   classifier {text, pair or null, length}
//                                        {ids, types, truncated}
//   decode  {ids, skip}                  {text}
//   facts   {}                           {size, bos, eos, pad, chat_template}
//   rows    {text, delimiter, quoting}   {rows, lines, sound}
//   chat    {dir} or {source, tokens}, {training}
//                                        a template, for the ops below; with
//                                        training that of assistant_only_loss
//   render  {messages, tools, prompt, kwargs}, JSON inside strings
//                                        {text, spans}
//   mask    the same                     {ids, mask}
//   row     {row, assistant, completion} {ids, labels, prefix}: a row of JSON
//                                        Lines as it is trained on; assistant
//                                        and completion may be left out

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/data/language_row.h"
#include "core/data/language_row_encoder.h"
#include "core/text/chat_template.h"
#include "core/text/delimited.h"
#include "core/text/tokenizer.h"
#include "nlohmann/json.hpp"

namespace mpsd::text {
namespace {

using Json = nlohmann::json;
using Answer = absl::StatusOr<Json>;

class Probe {
 public:
  Answer Ask(const Json& question) {
    const std::string op = question.at("op");
    if (op == "load") return Load(question);
    if (op == "chat") return Chat(question);
    if (op == "rows") return Rows(question);
    if (op == "facts" && tokenizer_) return Facts();
    if (op == "encode" && tokenizer_) return Encode(question);
    if (op == "classifier" && tokenizer_) return Classifier(question);
    if (op == "decode" && tokenizer_) return Decode(question);
    if (op == "render" && template_) return Render(question);
    if (op == "mask" && tokenizer_ && template_) return Mask(question);
    if (op == "row" && tokenizer_) return Row(question);
    return absl::InvalidArgumentError("unknown op, or nothing loaded for it");
  }

 private:
  Answer Load(const Json& question) {
    ASSIGN_OR_RETURN(tokenizer_, Tokenizer::FromFolder(question.at("dir")));
    return Json::object();
  }

  Answer Chat(const Json& question) {
    const auto use = question.value("training", false)
                         ? TemplateUse::kAssistantLoss
                         : TemplateUse::kAsIs;
    ASSIGN_OR_RETURN(
        auto loaded,
        question.contains("dir")
            ? ChatTemplate::FromFolder(question.at("dir"), use)
            : ChatTemplate::FromSource(question.at("source"),
                                       question.value("tokens", ""), use));
    template_ = std::move(loaded);
    return Json{{"generation", template_->has_generation_blocks()}};
  }

  Answer Rows(const Json& question) {
    const std::string text = question.at("text");
    const std::string delimiter = question.at("delimiter");
    ASSIGN_OR_RETURN(auto rows, ParseDelimited(text, delimiter.at(0),
                                               question.at("quoting")));
    Json fields = Json::array(), lines = Json::array();
    bool sound = true;
    for (const DelimitedRow& row : rows) {
      fields.push_back(row.fields);
      lines.push_back(row.line);
      sound &= row.fault == QuoteFault::kNone;
    }
    return Json{{"rows", fields}, {"lines", lines}, {"sound", sound}};
  }

  Answer Facts() {
    const auto id = [](std::optional<int32_t> id) {
      return id.has_value() ? Json(*id) : Json();
    };
    return Json{{"size", tokenizer_->vocab_size()},
                {"bos", id(tokenizer_->bos_id())},
                {"eos", id(tokenizer_->eos_id())},
                {"pad", id(tokenizer_->pad_id())},
                {"chat_template", tokenizer_->has_chat_template()}};
  }

  Answer Encode(const Json& question) {
    const std::string text = question.at("text");
    ASSIGN_OR_RETURN(auto encoding,
                     tokenizer_->Encode(text, question.at("special")));
    return Json{{"ids", encoding.ids}, {"offsets", encoding.offsets}};
  }

  Answer Classifier(const Json& question) {
    const std::string text = question.at("text");
    const std::string second = question.value("pair", Json()).is_null()
                                   ? ""
                                   : question.at("pair").get<std::string>();
    std::optional<std::string_view> pair;
    if (!question.value("pair", Json()).is_null()) pair = second;
    ASSIGN_OR_RETURN(auto encoding, tokenizer_->EncodeForClassifier(
                                        text, pair, question.at("length")));
    return Json{{"ids", encoding.ids},
                {"types", encoding.type_ids},
                {"truncated", encoding.truncated}};
  }

  Answer Decode(const Json& question) {
    const std::vector<int32_t> ids = question.at("ids");
    ASSIGN_OR_RETURN(auto text, tokenizer_->Decode(ids, question.at("skip")));
    return Json{{"text", text}};
  }

  absl::StatusOr<Rendered> RenderIt(const Json& question) {
    return template_->Render(
        question.at("messages").get<std::string>(), question.value("tools", ""),
        question.value("prompt", false), question.value("kwargs", ""));
  }

  Answer Render(const Json& question) {
    ASSIGN_OR_RETURN(auto rendered, RenderIt(question));
    return Json{{"text", rendered.text}, {"spans", rendered.generation_spans}};
  }

  Answer Mask(const Json& question) {
    ASSIGN_OR_RETURN(auto rendered, RenderIt(question));
    ASSIGN_OR_RETURN(auto encoding, tokenizer_->Encode(rendered.text, false));
    return Json{{"ids", encoding.ids},
                {"mask", AssistantMask(encoding, rendered.generation_spans)}};
  }

  Answer Row(const Json& question) {
    data::LossOptions options;
    if (question.contains("assistant")) {
      options.assistant_only_loss = question["assistant"].get<bool>();
    }
    if (question.contains("completion")) {
      options.completion_only_loss = question["completion"].get<bool>();
    }
    ASSIGN_OR_RETURN(auto row, data::ParseLanguageRow(
                                   question.at("row").get<std::string>()));
    ASSIGN_OR_RETURN(auto encoded, data::LanguageRowEncoder(
                                       *tokenizer_, template_.get(), options)
                                       .Encode(std::move(row)));
    return Json{{"ids", encoded.sample.input_ids},
                {"labels", encoded.sample.in_loss},
                {"prefix", encoded.prompt_is_prefix}};
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> template_;
};

int Main() {
  Probe probe;
  std::string line;
  while (std::getline(std::cin, line)) {
    Json reply;
    try {
      const Answer answer = probe.Ask(Json::parse(line));
      reply = answer.ok()
                  ? *answer
                  : Json{{"error", std::string(answer.status().message())}};
    } catch (const Json::exception& e) {
      reply = {{"error", std::string("bad question: ") + e.what()}};
    }
    std::cout << reply.dump(-1, ' ', false, Json::error_handler_t::replace)
              << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace mpsd::text

int main() { return mpsd::text::Main(); }
