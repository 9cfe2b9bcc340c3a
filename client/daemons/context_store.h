// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/descriptor.h"

namespace mpsd::client {

// A folder of small files that only their owner may read (0700, files 0600).
// Links to the folder or to its files are not followed; the files' names
// contain no '/'. Errors name the file.
class PrivateFolder {
 public:
  // NotFound if it does not exist; FailedPrecondition for a link, for anything
  // but a folder, and for a folder of another account or open to others.
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> Open(
      const std::filesystem::path& path);
  // As Open, but first creates the folder and its parents.
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> Make(
      const std::filesystem::path& path);
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // The names of the files, sorted; without those that begin with a dot.
  absl::StatusOr<std::vector<std::string>> Names() const;
  // NotFound; FailedPrecondition for anything but a regular file, for a file of
  // another account or that others may read; InvalidArgument for a file larger
  // than `max_bytes`.
  absl::StatusOr<std::string> Read(const std::string& name,
                                   size_t max_bytes) const;
  // Replaces the whole file, durably. After an error the old file is untouched.
  absl::Status Write(const std::string& name, std::string_view bytes) const;
  // Also removes what a killed Write left of the file. OK if there is no such
  // file.
  absl::Status Remove(const std::string& name) const;

 private:
  PrivateFolder(std::filesystem::path path, base::UniqueFd fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}
  absl::StatusOr<std::vector<std::string>> Entries() const;

  const std::filesystem::path path_;
  const base::UniqueFd fd_;
};

// A daemon that the user logged in to, and how.
struct Context {
  std::string name;
  std::string server;  // "studio.local:7433", "ssh://studio.local"
  bool tls = true;     // else a port of this machine's loopback
  // The authority that signed the daemon's certificate, PEM; empty: one that
  // the system trusts.
  std::string ca_pem = {};
  std::string socket = {};  // at the host of an ssh:// server
  std::string user = {};    // as the daemon reported at the login
  std::string token = {};   // empty: none

  bool operator==(const Context&) const = default;
};

// The name of this machine's own daemon, which is not a context.
inline constexpr char kLocalContext[] = "local";

// InvalidArgument unless `name` can name a context: 1 to 64 of a-z, 0-9 and
// "._-", the first a letter or a digit; not kLocalContext.
absl::Status CheckContextName(std::string_view name);

// A name derived from a host's: "studio.local" for "Studio.local".
std::string NameForHost(std::string_view host);

// InvalidArgument, which does not quote it, unless `token` is complete
// (core/base/api_token.h).
absl::Status CheckToken(std::string_view token);

// A context as its file's JSON; without its name.
std::string ToText(const Context& context);
// InvalidArgument names the member and what was expected.
absl::StatusOr<Context> FromText(const std::string& name,
                                 std::string_view text);

// The contexts of an account: a file NAME.json each, and the file "current"
// with the name of the default one. The files hold secrets: it is a
// PrivateFolder. Processes may change the contexts concurrently: each file is
// whole at any moment.
class ContextStore {
 public:
  // The first Save creates `folder`.
  explicit ContextStore(std::filesystem::path folder);

  // XDG_CONFIG_HOME/mpsd/contexts, else ~/.config/mpsd/contexts; on a Mac
  // ~/Library/Application Support/mpsctl/contexts.
  static std::filesystem::path DefaultFolder();

  // The context's file.
  std::filesystem::path FileOf(const std::string& name) const;
  // The names of all contexts, sorted. FailedPrecondition for a folder that is
  // a link, another account's or open to others.
  absl::StatusOr<std::vector<std::string>> Names() const;
  // NotFound names the existing contexts; InvalidArgument and
  // FailedPrecondition name the broken file and how to remove it.
  absl::StatusOr<Context> Find(const std::string& name) const;
  // The name of the current context, which may have been removed meanwhile;
  // empty: none, this machine's own daemon.
  absl::StatusOr<std::string> Current() const;

  // Adds or replaces the context. InvalidArgument for an invalid name.
  absl::Status Save(const Context& context) const;
  // Makes the context the current one; kLocalContext: none. NotFound as Find.
  absl::Status Use(const std::string& name) const;
  // Removes the context and its token, even if its file is broken. NotFound as
  // Find.
  absl::Status Remove(const std::string& name) const;

 private:
  absl::Status NoSuch(const std::string& name) const;

  const std::filesystem::path folder_;
};

}  // namespace mpsd::client
