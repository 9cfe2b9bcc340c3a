// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_CONTEXTS_CONTEXT_STORE_H_
#define MPSD_CLIENT_CONTEXTS_CONTEXT_STORE_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/contexts/context.h"

namespace mpsd::client {

// The contexts of an account: a file NAME.json each, and the file "current"
// with the name of the one that is used where none is named. The files hold
// secrets (private_folder.h). Processes may change the contexts at the same
// time: each file is whole at any moment.
class ContextStore {
 public:
  // `folder` is made by the first Save.
  explicit ContextStore(std::filesystem::path folder);

  // XDG_CONFIG_HOME/mpsd/contexts, else ~/.config/mpsd/contexts; on a Mac
  // ~/Library/Application Support/mpsctl/contexts.
  static std::filesystem::path DefaultFolder();

  // Where the context is kept.
  std::filesystem::path FileOf(const std::string& name) const;
  // The names of all contexts, sorted. FailedPrecondition for a folder that is
  // a link, another account's or open to others.
  absl::StatusOr<std::vector<std::string>> Names() const;
  // NotFound names the contexts there are; InvalidArgument and
  // FailedPrecondition name the broken file and how to be rid of it.
  absl::StatusOr<Context> Find(const std::string& name) const;
  // The name of the current context, which may have been removed meanwhile;
  // empty: none, this machine's own daemon.
  absl::StatusOr<std::string> Current() const;

  // Adds or replaces the context. InvalidArgument for a name that is none.
  absl::Status Save(const Context& context) const;
  // Makes the context the current one; kLocalContext: none. NotFound as Find.
  absl::Status Use(const std::string& name) const;
  // Removes the context and its token, also where its file is broken. NotFound
  // as Find.
  absl::Status Remove(const std::string& name) const;

 private:
  absl::Status NoSuch(const std::string& name) const;

  const std::filesystem::path folder_;
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_CONTEXTS_CONTEXT_STORE_H_
