// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_PATTERN_MAP_H_
#define MPSD_CORE_SPEC_PATTERN_MAP_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mpsd::spec {

// PEFT's rank_pattern and alpha_pattern: regex → value, in file order. The
// order matters: if several patterns match a module, PEFT uses the first.
template <typename V>
class PatternMap {
 public:
  using value_type = std::pair<std::string, V>;
  using const_iterator = typename std::vector<value_type>::const_iterator;

  PatternMap() = default;
  PatternMap(std::initializer_list<value_type> entries) : entries_(entries) {}

  // The value of `pattern`, appended if new.
  V& operator[](std::string_view pattern) {
    for (value_type& entry : entries_) {
      if (entry.first == pattern) return entry.second;
    }
    return entries_.emplace_back(std::string(pattern), V()).second;
  }

  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  bool operator==(const PatternMap&) const = default;

  // For nlohmann's basic_json; reading from its ordered_json keeps the order.
  template <typename Json>
  friend void to_json(Json& json, const PatternMap& map) {
    json = Json::object();
    for (const auto& [pattern, value] : map) json[pattern] = value;
  }
  template <typename Json>
  friend void from_json(const Json& json, PatternMap& map) {
    map = PatternMap();
    for (auto it = json.begin(); it != json.end(); ++it) {
      map[it.key()] = it.value().template get<V>();
    }
  }

 private:
  std::vector<value_type> entries_;
};

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_PATTERN_MAP_H_
