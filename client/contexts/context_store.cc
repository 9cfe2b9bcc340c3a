// SPDX-License-Identifier: Apache-2.0
#include "client/contexts/context_store.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/contexts/private_folder.h"
#include "core/base/limits.h"

namespace mpsd::client {
namespace fs = std::filesystem;
namespace {

constexpr char kCurrent[] = "current";
constexpr char kEnding[] = ".json";
constexpr size_t kMostBytes = 2 * limits::kPemBytes;
constexpr size_t kMostNameBytes = 256;

std::string FileName(const std::string& name) {
  return absl::StrCat(name, kEnding);
}

// `status` with what gets a broken file out of the way.
absl::Status Broken(const absl::Status& status, const fs::path& file,
                    const std::string& name) {
  return absl::Status(
      status.code(),
      absl::StrCat(file.string(), ": ", status.message(), "; `mpsctl logout ",
                   name, "` removes it, and `mpsctl login` makes it anew"));
}

fs::path Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Never relative: the current folder may be anybody's.
fs::path Home() {
  if (fs::path home = Environment("HOME"); home.is_absolute()) return home;
  const passwd* account = getpwuid(geteuid());
  return account == nullptr ? "/" : account->pw_dir;
}

}  // namespace

ContextStore::ContextStore(fs::path folder) : folder_(std::move(folder)) {}

fs::path ContextStore::DefaultFolder() {
#ifdef __APPLE__
  return Home() / "Library" / "Application Support" / "mpsctl" / "contexts";
#else
  const fs::path config = Environment("XDG_CONFIG_HOME");
  return (config.is_absolute() ? config : Home() / ".config") / "mpsd" /
         "contexts";
#endif
}

fs::path ContextStore::FileOf(const std::string& name) const {
  return folder_ / FileName(name);
}

absl::StatusOr<std::vector<std::string>> ContextStore::Names() const {
  const auto folder = PrivateFolder::Open(folder_);
  if (absl::IsNotFound(folder.status())) return std::vector<std::string>();
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<std::vector<std::string>> files = (*folder)->Names();
  if (!files.ok()) return files.status();
  std::vector<std::string> names;
  for (const std::string& file : *files) {
    if (!file.ends_with(kEnding)) continue;
    std::string name = file.substr(0, file.size() - sizeof kEnding + 1);
    if (CheckContextName(name).ok()) names.push_back(std::move(name));
  }
  return names;
}

absl::Status ContextStore::NoSuch(const std::string& name) const {
  const absl::StatusOr<std::vector<std::string>> names = Names();
  if (!names.ok()) return names.status();
  return absl::NotFoundError(absl::StrCat(
      "there is no context '", name, "'; ",
      names->empty()
          ? "there is none at all: `mpsctl login SERVER` makes one"
          : absl::StrCat("there are local, ", absl::StrJoin(*names, ", "))));
}

absl::StatusOr<Context> ContextStore::Find(const std::string& name) const {
  if (absl::Status status = CheckContextName(name); !status.ok()) return status;
  const auto folder = PrivateFolder::Open(folder_);
  if (absl::IsNotFound(folder.status())) return NoSuch(name);
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<std::string> text =
      (*folder)->Read(FileName(name), kMostBytes);
  if (absl::IsNotFound(text.status())) return NoSuch(name);
  if (!text.ok()) return text.status();
  absl::StatusOr<Context> context = FromText(name, *text);
  if (!context.ok()) {
    return Broken(context.status(), FileOf(name), name);
  }
  return context;
}

absl::StatusOr<std::string> ContextStore::Current() const {
  const auto folder = PrivateFolder::Open(folder_);
  if (absl::IsNotFound(folder.status())) return std::string();
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<std::string> text =
      (*folder)->Read(kCurrent, kMostNameBytes);
  if (absl::IsNotFound(text.status())) return std::string();
  if (!text.ok()) return text.status();
  std::string name(absl::StripTrailingAsciiWhitespace(*text));
  if (absl::Status status = CheckContextName(name); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat((folder_ / kCurrent).string(), ": ", status.message(),
                     "; `mpsctl context use NAME` writes it anew"));
  }
  return name;
}

absl::Status ContextStore::Save(const Context& context) const {
  if (absl::Status status = CheckContextName(context.name); !status.ok()) {
    return status;
  }
  const auto folder = PrivateFolder::Make(folder_);
  if (!folder.ok()) return folder.status();
  return (*folder)->Write(FileName(context.name), ToText(context));
}

absl::Status ContextStore::Use(const std::string& name) const {
  if (name == kLocalContext) {
    const auto folder = PrivateFolder::Open(folder_);
    if (absl::IsNotFound(folder.status())) return absl::OkStatus();
    return folder.ok() ? (*folder)->Remove(kCurrent) : folder.status();
  }
  if (absl::Status status = Find(name).status(); !status.ok()) return status;
  const auto folder = PrivateFolder::Open(folder_);
  if (!folder.ok()) return folder.status();
  return (*folder)->Write(kCurrent, absl::StrCat(name, "\n"));
}

absl::Status ContextStore::Remove(const std::string& name) const {
  if (absl::Status status = CheckContextName(name); !status.ok()) return status;
  const absl::StatusOr<std::vector<std::string>> names = Names();
  if (!names.ok()) return names.status();
  if (std::find(names->begin(), names->end(), name) == names->end()) {
    return NoSuch(name);
  }
  const auto folder = PrivateFolder::Open(folder_);
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<std::string> current = Current();
  if (!current.ok() || *current == name) {
    if (absl::Status status = (*folder)->Remove(kCurrent); !status.ok()) {
      return status;
    }
  }
  return (*folder)->Remove(FileName(name));
}

}  // namespace mpsd::client
