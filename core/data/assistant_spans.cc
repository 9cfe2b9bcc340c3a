// SPDX-License-Identifier: Apache-2.0
#include "core/data/assistant_spans.h"

#include "core/base/strings.h"

namespace mpsd::data {
namespace {

using Span = std::pair<size_t, size_t>;

// One conversation.
class SpanFinder {
 public:
  SpanFinder(const RowJson& messages, const std::string& whole,
             std::string_view end_token, const RenderMessages& render)
      : messages_(messages),
        whole_(whole),
        end_token_(end_token),
        render_(render) {}

  std::optional<TextSpans> Find() {
    TextSpans spans;
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (messages_[i].value("role", "") != "assistant") continue;
      std::optional<Span> span = ByPrefix(i);
      if (!span || span->first < done_) span = ByMark(i);
      if (!span || span->first < done_) return std::nullopt;
      done_ = span->second;
      spans.push_back(*span);
    }
    return spans;
  }

 private:
  bool IsLast(size_t i) const { return i + 1 == messages_.size(); }

  RowJson First(const RowJson& messages, size_t count) const {
    RowJson first = RowJson::array();
    for (size_t i = 0; i < count; ++i) first.push_back(messages[i]);
    return first;
  }

  // The length of `turn` if `text` begins with it, else nullopt. `turn` is the
  // rendering of the messages up to the i-th, `text` that of all messages, both
  // from the same position on. An end token that closes a whole conversation
  // belongs to the last message and is not counted for others.
  std::optional<size_t> BeginsWith(std::string_view text, std::string_view turn,
                                   size_t i) {
    if (!IsLast(i) && turn.ends_with(end_token_) && EndTokenCloses()) {
      turn.remove_suffix(end_token_.size());
    }
    if (!text.starts_with(turn)) return std::nullopt;
    return turn.size();
  }

  std::optional<Span> ByPrefix(size_t i) {
    if (i == 0) return std::nullopt;
    const auto before = render_(First(messages_, i), true);
    if (!before || !whole_.starts_with(*before)) return std::nullopt;
    const auto after =
        IsLast(i) ? whole_ : render_(First(messages_, i + 1), false);
    if (!after) return std::nullopt;
    const auto end = BeginsWith(whole_, *after, i);
    if (!end || *end < before->size()) return std::nullopt;
    return Span(before->size(), *end);
  }

  // The position of `mark` if `text` contains it exactly once.
  static std::optional<size_t> Once(std::string_view text,
                                    std::string_view mark) {
    const size_t at = text.find(mark);
    if (at == std::string_view::npos) return std::nullopt;
    if (text.find(mark, at + 1) != std::string_view::npos) return std::nullopt;
    return at;
  }

  // A word that occurs in no message.
  std::string NewMark() const {
    const std::string all = messages_.dump();
    for (int i = 0;; ++i) {
      std::string mark = base::Cat("mpsdmark", i, "x");
      if (all.find(mark) == std::string::npos &&
          whole_.find(mark) == std::string::npos) {
        return mark;
      }
    }
  }

  std::optional<Span> ByMark(size_t i) {
    const std::string mark = NewMark();
    RowJson marked = messages_;
    RowJson& content = marked[i]["content"];
    if (content.is_array()) {
      content = RowJson::array({{{"type", "text"}, {"text", mark}}});
    } else {
      content = mark;
    }
    const auto text = render_(marked, false);
    const auto turn = IsLast(i) ? text : render_(First(marked, i + 1), false);
    if (!text || !turn) return std::nullopt;
    const auto at = Once(*text, mark), at_in_turn = Once(*turn, mark);
    if (!at || !at_in_turn) return std::nullopt;
    std::string_view rest = std::string_view(*text).substr(*at + mark.size());
    const auto closing = BeginsWith(
        rest, std::string_view(*turn).substr(*at_in_turn + mark.size()), i);
    if (!closing) return std::nullopt;
    rest.remove_prefix(*closing);
    const auto begin = HeaderEnd(std::string_view(*text).substr(0, *at));
    if (!begin || !whole_.ends_with(rest) ||
        *begin + rest.size() > whole_.size()) {
      return std::nullopt;
    }
    return Span(*begin, whole_.size() - rest.size());
  }

  // The end of the generation prompt in `before`, the text before a mark. If
  // the prompt is not found, or a message contains it: the end of `before`, if
  // that has at least half of the prompt. nullopt if `whole_` does not begin
  // with the same text.
  std::optional<size_t> HeaderEnd(std::string_view before) {
    if (before.size() < done_) return std::nullopt;
    const std::string_view prompt = Closing().prompt;
    size_t end = before.size();
    const size_t at = before.substr(done_).rfind(prompt);
    if (at != std::string_view::npos && !IsSaid(prompt)) {
      end = done_ + at + prompt.size();
    } else {
      size_t part = prompt.size();
      while (!before.ends_with(prompt.substr(0, part))) --part;
      if (2 * part < prompt.size()) return std::nullopt;
    }
    if (!whole_.starts_with(before.substr(0, end))) return std::nullopt;
    return end;
  }

  // Whether a message's own text contains `text`.
  bool IsSaid(std::string_view text) const {
    const std::string quoted = RowJson(text).dump();
    return messages_.dump().find(quoted.substr(1, quoted.size() - 2)) !=
           std::string::npos;
  }

  bool EndTokenCloses() { return Closing().end_token; }

  // The text after all messages. `prompt` is empty if the template has no
  // generation prompt, or none that is distinguishable from the rest.
  struct Close {
    bool end_token = false;  // written instead of the prompt
    std::string prompt;
  };
  const Close& Closing() {
    if (closing_) return *closing_;
    closing_.emplace();
    const auto prompted = render_(messages_, true);
    if (!prompted) return *closing_;
    std::string_view without_end = whole_;
    if (!end_token_.empty() && without_end.ends_with(end_token_)) {
      without_end.remove_suffix(end_token_.size());
    }
    if (prompted->starts_with(whole_)) {
      closing_->prompt = prompted->substr(whole_.size());
    } else if (prompted->starts_with(without_end)) {
      closing_->end_token = true;
      closing_->prompt = prompted->substr(without_end.size());
    }
    return *closing_;
  }

  const RowJson& messages_;
  const std::string& whole_;
  const std::string_view end_token_;
  const RenderMessages& render_;
  size_t done_ = 0;  // where the assistant's message before this one ends
  std::optional<Close> closing_;
};

}  // namespace

std::optional<TextSpans> FindAssistantSpans(const RowJson& messages,
                                            const std::string& whole,
                                            std::string_view end_token,
                                            const RenderMessages& render) {
  return SpanFinder(messages, whole, end_token, render).Find();
}

}  // namespace mpsd::data
