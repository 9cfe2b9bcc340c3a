// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_DATABASE_H_
#define MPSD_SERVER_STORE_DATABASE_H_

#include <cstdint>
#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "server/store/connection.h"

namespace mpsd::store {

// The state folder's SQLite file, with one connection that writes and two
// that only read, so that a reader never waits for a writer's fsync (WAL), and
// who asks for one job never for who lists all of them. Thread-safe. The
// database must outlive the stores that use it.
class Database {
 public:
  // Opens or creates `path` and migrates it. Only its owner may read a new
  // file. Errors as Migrate and StatusOf state. `on_commit`: as Connection has
  // it; called on any thread.
  static absl::StatusOr<std::unique_ptr<Database>> Open(
      const std::filesystem::path& path, Connection::OnCommit on_commit = {});

  Connection& writer() { return *writer_; }
  Connection& reader() { return *reader_; }
  Connection& lister() { return *lister_; }
  int64_t schema_version() const { return schema_version_; }

 private:
  Database(std::unique_ptr<Connection> writer,
           std::unique_ptr<Connection> reader,
           std::unique_ptr<Connection> lister, int64_t schema_version)
      : writer_(std::move(writer)),
        reader_(std::move(reader)),
        lister_(std::move(lister)),
        schema_version_(schema_version) {}

  const std::unique_ptr<Connection> writer_;
  const std::unique_ptr<Connection> reader_;
  const std::unique_ptr<Connection> lister_;
  const int64_t schema_version_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_DATABASE_H_
