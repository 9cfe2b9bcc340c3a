// SPDX-License-Identifier: Apache-2.0
#include "client/daemons/context_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/api_token.h"
#include "core/base/descriptor.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace mpsd::client {

namespace fs = std::filesystem;
namespace {

absl::Status Refused(const fs::path& path, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat(path.string(), ": ", why));
}

// Whether only this account can use the open file.
absl::Status CheckPrivate(int fd, const fs::path& path, const char* mode) {
  struct stat info;
  if (fstat(fd, &info) != 0) return base::ErrnoStatus(errno, path.string());
  if (info.st_uid != geteuid()) {
    return Refused(path,
                   absl::StrCat("belongs to another account (uid ", info.st_uid,
                                "), so its secrets are not trusted"));
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Refused(path, absl::StrCat("other accounts may use it, and it holds "
                                      "secrets; run: chmod ",
                                      mode, " '", path.string(), "'"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::Open(
    const fs::path& path) {
  base::UniqueFd fd(
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd.get() < 0 && (errno == ELOOP || errno == ENOTDIR)) {
    return Refused(path, "expected a folder, not a link");
  }
  if (fd.get() < 0) return base::ErrnoStatus(errno, path.string());
  RETURN_IF_ERROR(CheckPrivate(fd.get(), path, "700"));
  return absl::WrapUnique(new PrivateFolder(path, std::move(fd)));
}

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::Make(
    const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) {
    return base::ErrnoStatus(error.value(), path.parent_path().string());
  }
  if (mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return base::ErrnoStatus(errno, path.string());
  }
  return Open(path);
}

absl::StatusOr<std::vector<std::string>> PrivateFolder::Entries() const {
  base::UniqueFd copy(
      openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (copy.get() < 0) return base::ErrnoStatus(errno, path_.string());
  DIR* dir = fdopendir(copy.get());
  if (dir == nullptr) return base::ErrnoStatus(errno, path_.string());
  static_cast<void>(copy.release());  // closedir closes it
  std::vector<std::string> names;
  while (const dirent* entry = readdir(dir)) {
    names.emplace_back(entry->d_name);
  }
  closedir(dir);
  return names;
}

absl::StatusOr<std::vector<std::string>> PrivateFolder::Names() const {
  absl::StatusOr<std::vector<std::string>> names = Entries();
  if (!names.ok()) return names;
  std::erase_if(*names, [](const std::string& name) { return name[0] == '.'; });
  std::sort(names->begin(), names->end());
  return names;
}

absl::StatusOr<std::string> PrivateFolder::Read(const std::string& name,
                                                size_t max_bytes) const {
  const fs::path path = path_ / name;
  // Without O_NONBLOCK opening a pipe waits for its writer.
  const base::UniqueFd fd(openat(
      fd_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (fd.get() < 0 && errno == ELOOP) {
    return Refused(path, "expected a file, not a link");
  }
  if (fd.get() < 0) return base::ErrnoStatus(errno, path.string());
  struct stat info;
  if (fstat(fd.get(), &info) != 0) {
    return base::ErrnoStatus(errno, path.string());
  }
  if (!S_ISREG(info.st_mode)) return Refused(path, "not a regular file");
  RETURN_IF_ERROR(CheckPrivate(fd.get(), path, "600"));
  return base::ReadAll(fd.get(), max_bytes, path);
}

absl::Status PrivateFolder::Write(const std::string& name,
                                  std::string_view bytes) const {
  const fs::path path = path_ / name;
  const std::string temporary = base::TemporaryBeside(name).string();
  base::UniqueFd fd(openat(fd_.get(), temporary.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                           S_IRUSR | S_IWUSR));
  if (fd.get() < 0) return base::ErrnoStatus(errno, path.string());
  absl::Status status = base::WriteAll(fd.get(), bytes, path);
  if (status.ok() && fsync(fd.get()) != 0) {
    status = base::ErrnoStatus(errno, path.string());
  }
  if (status.ok() &&
      renameat(fd_.get(), temporary.c_str(), fd_.get(), name.c_str()) != 0) {
    status = base::ErrnoStatus(errno, path.string());
  }
  if (!status.ok()) {
    unlinkat(fd_.get(), temporary.c_str(), 0);
    return status;
  }
  if (fsync(fd_.get()) != 0) return base::ErrnoStatus(errno, path_.string());
  return absl::OkStatus();
}

absl::Status PrivateFolder::Remove(const std::string& name) const {
  if (unlinkat(fd_.get(), name.c_str(), 0) != 0 && errno != ENOENT) {
    return base::ErrnoStatus(errno, (path_ / name).string());
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> entries, Entries());
  for (const std::string& entry : entries) {
    if (entry.starts_with(absl::StrCat(".", name, ".")) &&
        base::IsUnfinished(entry)) {
      unlinkat(fd_.get(), entry.c_str(), 0);
    }
  }
  return absl::OkStatus();
}

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestName = 64;
constexpr int kFormat = 1;

// String members. An empty one is omitted.
struct TextMember {
  const char* name;
  std::string Context::*value;
};
constexpr TextMember kTexts[] = {
    {"server", &Context::server}, {"user", &Context::user},
    {"ca", &Context::ca_pem},     {"socket", &Context::socket},
    {"token", &Context::token},
};

bool IsNameCharacter(char c) {
  return absl::ascii_islower(static_cast<unsigned char>(c)) ||
         absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.' ||
         c == '_' || c == '-';
}

absl::Status Expected(const std::string& what) {
  return absl::InvalidArgumentError("expected " + what);
}

}  // namespace

absl::Status CheckContextName(std::string_view name) {
  if (name == kLocalContext) {
    return absl::InvalidArgumentError(
        "the context 'local' is this machine's own daemon; choose another "
        "name");
  }
  if (name.empty() || name.size() > kLongestName ||
      !std::all_of(name.begin(), name.end(), IsNameCharacter) ||
      !absl::ascii_isalnum(static_cast<unsigned char>(name[0]))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", base::Quotable(name), "' is not a context name: expected 1 to ",
        kLongestName, " of a-z, 0-9 and ._-, the first a letter or a digit"));
  }
  return absl::OkStatus();
}

std::string NameForHost(std::string_view host) {
  std::string name;
  for (char c : host.substr(0, kLongestName)) {
    c = absl::ascii_tolower(static_cast<unsigned char>(c));
    name += IsNameCharacter(c) ? c : '-';
  }
  name.erase(0, std::min(name.find_first_not_of("._-"), name.size()));
  if (name.empty()) return "daemon";
  if (name == kLocalContext) return "local-port";
  return name;
}

absl::Status CheckToken(std::string_view token) {
  if (base::IsApiToken(token)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the token is incomplete: expected ", std::string(base::kApiTokenPrefix),
      " and ", base::kApiTokenBytes - base::kApiTokenPrefix.size(),
      " letters and digits, as `mpsctl admin token create` prints it"));
}

std::string ToText(const Context& context) {
  Json json = {{"format", kFormat}};
  for (const TextMember& member : kTexts) {
    const std::string& value = context.*member.value;
    if (!value.empty()) json[member.name] = value;
  }
  json["tls"] = context.tls;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<Context> FromText(const std::string& name,
                                 std::string_view text) {
  const Json json = base::ParseTree<Json>(text);
  if (!json.is_object()) return Expected("a JSON object");
  const auto format = json.find("format");
  if (format == json.end() || !format->is_number_integer()) {
    return Expected("'format', a number");
  }
  if (*format != kFormat) {
    return absl::InvalidArgumentError(
        "written by another release of mpsctl, which this one cannot read");
  }
  Context context;
  context.name = name;
  for (const TextMember& member : kTexts) {
    const auto found = json.find(member.name);
    if (found == json.end()) continue;
    if (!found->is_string()) {
      return Expected(absl::StrCat("'", member.name, "', a string"));
    }
    context.*member.value = found->get<std::string>();
  }
  const auto tls = json.find("tls");
  if (tls == json.end() || !tls->is_boolean()) {
    return Expected("'tls', true or false");
  }
  context.tls = tls->get<bool>();
  if (context.server.empty()) return Expected("'server', HOST:PORT");
  if (!context.token.empty()) {
    if (absl::Status status = CheckToken(context.token); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'token': ", status.message()));
    }
  }
  return context;
}

namespace fs = std::filesystem;
namespace {

constexpr char kCurrent[] = "current";
constexpr char kEnding[] = ".json";
constexpr size_t kMostContextBytes = 2 * limits::kPemBytes;
constexpr size_t kMostNameBytes = 256;

std::string FileName(const std::string& name) {
  return absl::StrCat(name, kEnding);
}

// `status` with advice on how to remove the broken file.
absl::Status Broken(const absl::Status& status, const fs::path& file,
                    const std::string& name) {
  return absl::Status(
      status.code(),
      absl::StrCat(file.string(), ": ", status.message(), "; `mpsctl logout ",
                   name, "` removes it, and `mpsctl login` creates it again"));
}

[[maybe_unused]] fs::path Environment(const char* name) {  // not on a Mac
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

ContextStore::ContextStore(fs::path folder) : folder_(std::move(folder)) {}

fs::path ContextStore::DefaultFolder() {
#ifdef __APPLE__
  return base::HomeFolder() / "Library" / "Application Support" / "mpsctl" /
         "contexts";
#else
  const fs::path config = Environment("XDG_CONFIG_HOME");
  return (config.is_absolute() ? config : base::HomeFolder() / ".config") /
         "mpsd" / "contexts";
#endif
}

fs::path ContextStore::FileOf(const std::string& name) const {
  return folder_ / FileName(name);
}

absl::StatusOr<std::vector<std::string>> ContextStore::Names() const {
  const auto folder = PrivateFolder::Open(folder_);
  if (absl::IsNotFound(folder.status())) return std::vector<std::string>();
  if (!folder.ok()) return folder.status();
  ASSIGN_OR_RETURN(const std::vector<std::string> files, (*folder)->Names());
  std::vector<std::string> names;
  for (const std::string& file : files) {
    if (!file.ends_with(kEnding)) continue;
    std::string name = file.substr(0, file.size() - sizeof kEnding + 1);
    if (CheckContextName(name).ok()) names.push_back(std::move(name));
  }
  return names;
}

absl::Status ContextStore::NoSuch(const std::string& name) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, Names());
  return absl::NotFoundError(absl::StrCat(
      "there is no context '", name, "'; ",
      names.empty() ? "there are no contexts: `mpsctl login SERVER` makes one"
                    : absl::StrCat("the contexts are local, ",
                                   absl::StrJoin(names, ", "))));
}

absl::StatusOr<Context> ContextStore::Find(const std::string& name) const {
  RETURN_IF_ERROR(CheckContextName(name));
  const auto folder = PrivateFolder::Open(folder_);
  if (absl::IsNotFound(folder.status())) return NoSuch(name);
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<std::string> text =
      (*folder)->Read(FileName(name), kMostContextBytes);
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
                     "; `mpsctl context use NAME` writes it again"));
  }
  return name;
}

absl::Status ContextStore::Save(const Context& context) const {
  RETURN_IF_ERROR(CheckContextName(context.name));
  ASSIGN_OR_RETURN(const auto folder, PrivateFolder::Make(folder_));
  return folder->Write(FileName(context.name), ToText(context));
}

absl::Status ContextStore::Use(const std::string& name) const {
  if (name == kLocalContext) {
    const auto folder = PrivateFolder::Open(folder_);
    if (absl::IsNotFound(folder.status())) return absl::OkStatus();
    return folder.ok() ? (*folder)->Remove(kCurrent) : folder.status();
  }
  RETURN_IF_ERROR(Find(name).status());
  ASSIGN_OR_RETURN(const auto folder, PrivateFolder::Open(folder_));
  return folder->Write(kCurrent, absl::StrCat(name, "\n"));
}

absl::Status ContextStore::Remove(const std::string& name) const {
  RETURN_IF_ERROR(CheckContextName(name));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, Names());
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return NoSuch(name);
  }
  ASSIGN_OR_RETURN(const auto folder, PrivateFolder::Open(folder_));
  const absl::StatusOr<std::string> current = Current();
  if (!current.ok() || *current == name) {
    RETURN_IF_ERROR(folder->Remove(kCurrent));
  }
  return folder->Remove(FileName(name));
}

}  // namespace mpsd::client
