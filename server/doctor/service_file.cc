// SPDX-License-Identifier: Apache-2.0
#include "server/doctor/service_file.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/small_file.h"
#include "server/doctor/texts.h"

namespace mpsd::doctor {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestFile = 64 << 10;
constexpr char kUnit[] = "mpsd.service";

// --- systemd -----------------------------------------------------------------

// Words of Environment=: "A=b", 'A=b c' and A=b, with C's escapes for quotes,
// backslashes, tabs and new lines.
std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  bool in_word = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && i + 1 < text.size()) {
      const char next = text[++i];
      word += next == 'n' ? '\n' : next == 't' ? '\t' : next;
      in_word = true;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
      in_word = true;
    } else if (c == quote && quote != 0) {
      quote = 0;
    } else if (quote == 0 && absl::ascii_isspace(c)) {
      if (in_word) words.push_back(std::exchange(word, ""));
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (in_word) words.push_back(word);
  return words;
}

// Seconds of "150", "2min 30s", "1h"; nullopt for "infinity" and what is none.
std::optional<double> SecondsOf(const std::string& text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},      {"s", 1},       {"sec", 1},   {"m", 60},
      {"min", 60},  {"h", 3600},    {"hr", 3600}, {"ms", 1e-3},
      {"d", 86400}, {"day", 86400}, {"us", 1e-6}};
  double sum = 0;
  const std::vector<std::string> parts =
      absl::StrSplit(text, ' ', absl::SkipEmpty());
  for (const std::string& part : parts) {
    const size_t digits = part.find_first_not_of("0123456789.");
    const std::string unit =
        digits == std::string::npos ? "" : part.substr(digits);
    double number = 0;
    const auto* known =
        std::find_if(std::begin(kUnits), std::end(kUnits),
                     [&](const auto& pair) { return pair.first == unit; });
    if (known == std::end(kUnits) ||
        !absl::SimpleAtod(part.substr(0, digits), &number)) {
      return std::nullopt;
    }
    sum += number * known->second;
  }
  if (parts.empty()) return std::nullopt;
  return sum;
}

void Assign(const std::string& name, const std::string& value,
            Service& service) {
  if (name == "Environment") {
    if (value.empty()) service.environment.clear();
    for (const std::string& word : Words(value)) {
      const size_t split = word.find('=');
      if (split == std::string::npos || split == 0) continue;
      service.environment[word.substr(0, split)] = word.substr(split + 1);
    }
  } else if (name == "LimitNOFILE") {
    // "soft:hard", or one for both.
    int64_t number = 0;
    service.descriptors.reset();
    if (absl::SimpleAtoi(value.substr(0, value.find(':')), &number)) {
      service.descriptors = number;
    }
  } else if (name == "TimeoutStopSec" || name == "TimeoutSec") {
    service.stop_seconds = SecondsOf(value);
  }
}

// A line goes on in the next one behind a backslash at its end.
void ReadUnit(const std::string& text, Service& service) {
  std::string section, whole;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (const std::string& raw : lines) {
    std::string line(absl::StripAsciiWhitespace(raw));
    if (whole.empty() && (line.starts_with('#') || line.starts_with(';'))) {
      continue;
    }
    if (line.ends_with('\\')) {
      line.back() = ' ';
      whole += line;
      continue;
    }
    line.insert(0, std::exchange(whole, ""));
    if (line.starts_with('[')) section = line;
    const size_t split = line.find('=');
    if (section != "[Service]" || split == std::string::npos) continue;
    Assign(std::string(absl::StripAsciiWhitespace(line.substr(0, split))),
           std::string(absl::StripAsciiWhitespace(line.substr(split + 1))),
           service);
  }
}

// The unit and its drop-ins (mpsd.service.d/*.conf) by name.
std::vector<std::string> UnitTexts(const fs::path& unit) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::directory_iterator entries(unit.string() + ".d", error);
  for (; !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    if (entries->path().extension() == ".conf") {
      files.push_back(entries->path());
    }
  }
  std::sort(files.begin(), files.end());
  files.insert(files.begin(), unit);
  std::vector<std::string> texts;
  for (const fs::path& file : files) {
    if (auto text = base::ReadSmallFile(file, kLargestFile); text.ok()) {
      texts.push_back(*std::move(text));
    }
  }
  return texts;
}

// --- launchd -----------------------------------------------------------------

std::string Unescaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&lt;", "<"},
                                    {"&gt;", ">"},
                                    {"&quot;", "\""},
                                    {"&apos;", "'"},
                                    {"&amp;", "&"}});
}

// `keys`: those that lead to the value, from the outside in.
void TakeValue(const std::vector<std::string>& keys, const std::string& value,
               Service& service) {
  using Keys = std::vector<std::string>;
  int64_t number = 0;
  const bool is_number = absl::SimpleAtoi(value, &number);
  if (keys.size() == 2 && keys[0] == "EnvironmentVariables") {
    service.environment[keys[1]] = value;
  } else if (keys == Keys{"ProcessType"}) {
    service.process_type = Foreign(value);
  } else if (keys == Keys{"SoftResourceLimits", "NumberOfFiles"}) {
    if (is_number) service.descriptors = number;
  } else if (keys == Keys{"ExitTimeOut"} && is_number) {
    service.stop_seconds = static_cast<double>(number);
  }
}

// Walks over the tags and looks at dictionaries, keys, texts and whole numbers
// alone: a property list has no attributes that matter, and nothing recurses.
void ReadPlist(const std::string& text, Service& service) {
  std::vector<std::string> keys;  // the last one of each open dictionary
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos;) {
    const bool comment = text.compare(at, 4, "<!--") == 0;
    const size_t end = text.find(comment ? "-->" : ">", at);
    if (end == std::string::npos) return;
    const std::string tag = comment ? "" : text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag == "dict") keys.emplace_back();
    if (tag == "/dict" && !keys.empty()) keys.pop_back();
    if (keys.empty() || (tag != "key" && tag != "string" && tag != "integer")) {
      continue;
    }
    const size_t next = text.find("</" + tag + ">", at);
    if (next == std::string::npos) return;
    const std::string value = Unescaped(text.substr(at, next - at));
    if (tag == "key") {
      keys.back() = value;
    } else {
      TakeValue(keys, value, service);
    }
    at = next;
  }
}

// --- both --------------------------------------------------------------------

// The last folder of the control group is the unit's name.
std::optional<bool> IsInGroup(std::string_view cgroup) {
  const std::string text(absl::StripAsciiWhitespace(std::string(cgroup)));
  const size_t slash = text.rfind('/');
  // In a container every process is in the group "/".
  if (slash == std::string::npos || slash + 1 == text.size()) {
    return std::nullopt;
  }
  return text.substr(slash + 1) == kUnit;
}

Service FindUnit(const ServicePlaces& places, const host::Environment& daemon,
                 std::string_view cgroup) {
  const auto config = daemon.find("XDG_CONFIG_HOME");
  const fs::path user_folder = config != daemon.end() ? fs::path(config->second)
                                                      : places.home / ".config";
  for (const fs::path& file : {places.root / "etc/systemd/system" / kUnit,
                               user_folder / "systemd/user" / kUnit}) {
    const std::vector<std::string> texts = UnitTexts(file);
    if (texts.empty()) continue;
    Service service = ParseUnit(texts);
    service.file = file.string();
    service.runs_mpsd = IsInGroup(cgroup);
    return service;
  }
  return {};
}

Service FindPlist(const ServicePlaces& places,
                  const host::Environment& daemon) {
  const std::pair<fs::path, std::string> files[] = {
      {places.root / "Library/LaunchDaemons", "org.mpsd.daemon"},
      {places.home / "Library/LaunchAgents", "org.mpsd.agent"}};
  for (const auto& [folder, label] : files) {
    const fs::path file = folder / (label + ".plist");
    const auto text = base::ReadSmallFile(file, kLargestFile);
    if (!text.ok()) continue;
    Service service = ParsePlist(*text);
    service.file = file.string();
    // launchd tells each process the label of its service; a program that a
    // person starts gets "0" or the terminal's.
    const auto name = daemon.find("XPC_SERVICE_NAME");
    service.runs_mpsd = name != daemon.end() && name->second == label;
    return service;
  }
  return {};
}

}  // namespace

Service ParseUnit(const std::vector<std::string>& texts) {
  Service service;
  service.manager = "systemd";
  for (const std::string& text : texts) ReadUnit(text, service);
  return service;
}

Service ParsePlist(const std::string& text) {
  Service service;
  service.manager = "launchd";
  ReadPlist(text, service);
  return service;
}

Service FindService(const ServicePlaces& places,
                    const host::Environment& daemon, std::string_view cgroup) {
  return places.launchd ? FindPlist(places, daemon)
                        : FindUnit(places, daemon, cgroup);
}

}  // namespace mpsd::doctor
