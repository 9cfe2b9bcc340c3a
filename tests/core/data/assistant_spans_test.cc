// SPDX-License-Identifier: Apache-2.0
#include "core/data/assistant_spans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/data/model_folder.h"

namespace mpsd::data {
namespace {

// In the manner of Qwen3: the thinking of earlier turns is dropped, and only
// the last answer has a block of it.
constexpr char kThinking[] =
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}"
    "{%- set said = m.content.split('</think>')[-1].lstrip('\\n') %}"
    "{%- if m.role == 'assistant' and loop.last %}{{- '<think>\\n' + "
    "(m.content.split('</think>')[0].split('<think>')[-1].strip('\\n') if "
    "'</think>' in m.content else '') + '\\n</think>\\n\\n' }}{%- endif %}"
    "{{- said + '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- endif %}";

// In the manner of Qwen3's thinking models: the prompt opens the block.
std::string Replaced(std::string text, const std::string& from,
                     const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}
const std::string& PromptedThinking() {
  static const auto& source =
      *new std::string(Replaced(kThinking, "{{- '<|im_start|>assistant\\n' }}",
                                "{{- '<|im_start|>assistant\\n<think>\\n' }}"));
  return source;
}

// In the manner of Phi: the end token behind the whole.
constexpr char kEnded[] =
    "{%- for m in messages %}{%- if m.role in ['user', 'assistant'] %}"
    "{{- '<|' + m.role + '|>' + m.content + '<|end|>' }}{%- endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|assistant|>' }}"
    "{%- else %}{{- '</s>' }}{%- endif %}";

// The rendering with the spans in brackets, or "inexact".
std::string Shown(const std::string& source, const std::string& messages_json,
                  const std::string& end_token = "") {
  const auto chat = MakeTemplate(source);
  const RenderMessages render = [&](const RowJson& messages, bool prompt) {
    auto rendered = chat->Render(messages.dump(), "", prompt);
    return rendered.ok() ? std::optional(rendered->text) : std::nullopt;
  };
  const RowJson messages = RowJson::parse(messages_json);
  const std::string whole = render(messages, false).value();
  const auto spans = FindAssistantSpans(messages, whole, end_token, render);
  if (!spans) return "inexact";
  std::string shown;
  size_t at = 0;
  for (const auto& [begin, end] : *spans) {
    shown += whole.substr(at, begin - at) + "[" +
             whole.substr(begin, end - begin) + "]";
    at = end;
  }
  return shown + whole.substr(at);
}

std::string Conversation(const std::vector<std::string>& contents) {
  RowJson messages = RowJson::array();
  for (const std::string& content : contents) {
    const bool user = messages.size() % 2 == 0;
    messages.push_back(
        {{"role", user ? "user" : "assistant"}, {"content", content}});
  }
  return messages.dump();
}

TEST(AssistantSpans, ThinkingThatIsDroppedLater) {
  EXPECT_EQ(Shown(kThinking, Conversation({"1", "a"})),
            "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n"
            "[<think>\n\n</think>\n\na<|im_end|>\n]");
  EXPECT_EQ(
      Shown(kThinking, Conversation({"1", "<think>x</think>\n\na", "2",
                                     "<think>\ny\n"
                                     "</think>\n\nb"})),
      "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n[a<|im_end|>\n]"
      "<|im_start|>user\n2<|im_end|>\n<|im_start|>assistant\n"
      "[<think>\ny\n</think>\n\nb<|im_end|>\n]");
  // The last message is not the assistant's.
  EXPECT_EQ(Shown(kThinking, Conversation({"1", "", "2"})),
            "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n"
            "[<|im_end|>\n]<|im_start|>user\n2<|im_end|>\n");
}

TEST(AssistantSpans, ThinkingThatThePromptOpens) {
  EXPECT_EQ(
      Shown(PromptedThinking(),
            Conversation({"1", "<think>x</think>a", "2", "<think>y</think>b"})),
      "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n[a<|im_end|>\n]"
      "<|im_start|>user\n2<|im_end|>\n<|im_start|>assistant\n<think>\n"
      "[y\n</think>\n\nb<|im_end|>\n]");
}

TEST(AssistantSpans, TheUsersTextIsNeverTheAssistants) {
  // What a user says looks like turns; the answer repeats it.
  const std::string fake = "<|im_start|>assistant\nx<|im_end|>\n";
  EXPECT_EQ(Shown(kThinking, Conversation({fake, fake, fake, "y"})),
            "<|im_start|>user\n" + fake +
                "<|im_end|>\n<|im_start|>assistant\n[" + fake +
                "<|im_end|>\n]<|im_start|>user\n" + fake +
                "<|im_end|>\n<|im_start|>assistant\n"
                "[<think>\n\n</think>\n\ny<|im_end|>\n]");
  // Where the header of a turn is not the prompt, the prompt that the user
  // wrote is not taken for it.
  const std::string prompt = "<|im_start|>assistant\n<think>\n";
  EXPECT_EQ(
      Shown(PromptedThinking(), Conversation({prompt, "a", "2", "b"})),
      "<|im_start|>user\n" + prompt +
          "<|im_end|>\n<|im_start|>assistant\n[a<|im_end|>\n]"
          "<|im_start|>user\n2<|im_end|>\n<|im_start|>assistant\n<think>\n"
          "[\n</think>\n\nb<|im_end|>\n]");
}

TEST(AssistantSpans, TheMarkIsNoWordOfTheMessages) {
  EXPECT_EQ(Shown(kThinking, Conversation({"mpsdmark0x", "mpsdmark1x", "2",
                                           "mpsdmark0x"})),
            "<|im_start|>user\nmpsdmark0x<|im_end|>\n<|im_start|>assistant\n"
            "[mpsdmark1x<|im_end|>\n]<|im_start|>user\n2<|im_end|>\n"
            "<|im_start|>assistant\n"
            "[<think>\n\n</think>\n\nmpsdmark0x<|im_end|>\n]");
}

TEST(AssistantSpans, AnEndTokenBehindTheWhole) {
  EXPECT_EQ(Shown(kEnded, Conversation({"1", "a", "2", "b"}), "</s>"),
            "<|user|>1<|end|><|assistant|>[a<|end|>]<|user|>2<|end|>"
            "<|assistant|>[b<|end|></s>]");
  // It is the last message's, also where that one is not rendered.
  EXPECT_EQ(Shown(kEnded, R"([{"role": "user", "content": "1"},
                              {"role": "assistant", "content": "a"},
                              {"role": "tool", "content": "t"}])",
                  "</s>"),
            "<|user|>1<|end|><|assistant|>[a<|end|>]</s>");
  // Without knowing the token, a turn is not told from the rest.
  EXPECT_EQ(Shown(kEnded, Conversation({"1", "a", "2", "b"})), "inexact");
}

TEST(AssistantSpans, AConversationThatCannotBeRenderedInParts) {
  const std::string whole_only =
      "{%- if messages | length < 2 %}{{ raise_exception('short') }}"
      "{%- endif %}{%- for m in messages %}{{- '<' + m.role + '>' + "
      "m.content + '\\n' }}{%- endfor %}{%- if add_generation_prompt %}"
      "{{- '<assistant>' }}{%- endif %}";
  EXPECT_EQ(Shown(whole_only, R"([{"role": "assistant", "content": "a"},
                                  {"role": "assistant", "content": "b"},
                                  {"role": "user", "content": "1"},
                                  {"role": "assistant", "content": "c"}])"),
            "inexact");  // the first turn's end is nowhere to be seen
  EXPECT_EQ(Shown(whole_only, Conversation({"1", "a"})),
            "<user>1\n<assistant>[a\n]");
}

TEST(AssistantSpans, ListsOfParts) {
  const std::string parts =
      "{%- for m in messages %}{{- '<' + m.role + '>' }}"
      "{%- for part in m.content %}{{- part.text if loop.index == 1 or "
      "messages | length == 2 else '' }}{%- endfor %}{{- '\\n' }}{%- endfor %}"
      "{%- if add_generation_prompt %}{{- '<assistant>' }}{%- endif %}";
  EXPECT_EQ(Shown(parts, R"([{"role": "user", "content": [{"text": "1"}]},
      {"role": "assistant", "content": [{"text": "a"}, {"text": "b"}]},
      {"role": "user", "content": [{"text": "2"}]}])"),
            "<user>1\n<assistant>[a\n]<user>2\n");
}

TEST(AssistantSpans, ATemplateThatHidesTheAnswerIsInexact) {
  EXPECT_EQ(Shown("{%- for m in messages %}{{- m.role }}{%- if loop.last %}"
                  "{{- m.content }}{%- endif %}{%- endfor %}",
                  Conversation({"1", "a", "2", "b"})),
            "inexact");
  // Nothing of the assistant: no span, and no fault.
  EXPECT_EQ(Shown(kThinking, Conversation({"1"})),
            "<|im_start|>user\n1<|im_end|>\n");
}

}  // namespace
}  // namespace mpsd::data
