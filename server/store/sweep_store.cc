// SPDX-License-Identifier: Apache-2.0
#include "server/store/sweep_store.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "server/store/connection.h"
#include "server/store/sqlite_status.h"
#include "server/sweeps/plan_json.h"

namespace mpsd::store {
namespace {

using sweeps::Child;
using sweeps::Sweep;

constexpr char kColumns[] =
    "SELECT number, id, name, owner, create_time_us, plan, rung, "
    "idempotency_key, request_hash FROM sweeps";

std::optional<std::string> OrNull(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

// The number of the row that `query` stands on, of kColumns; DataLoss for one
// that cannot be read.
absl::StatusOr<int64_t> ReadSweep(Query& query, Sweep& sweep) {
  const int64_t number = query.Int();
  sweep.id = query.Text();
  sweep.name = query.Text();
  sweep.owner = query.Text();
  sweep.create_time = absl::FromUnixMicros(query.Int());
  absl::StatusOr<sweeps::Plan> plan = sweeps::DecodePlan(query.Text());
  if (!plan.ok()) return plan.status();
  sweep.plan = *std::move(plan);
  sweep.rung = query.Int();
  sweep.idempotency_key = query.OptionalText().value_or("");
  sweep.request_hash = query.Text();
  return number;
}

absl::Status ReadChildren(Connection& c, int64_t number, Sweep& sweep)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query query(c,
              "SELECT job_id, assigned, rung, out_message, metric, dropped "
              "FROM sweep_children WHERE sweep = ? ORDER BY position",
              number);
  while (query.Next()) {
    Child& child = sweep.children.emplace_back();
    child.job_id = query.Text();
    auto values = sweeps::DecodeValues(query.Text());
    if (!values.ok()) return values.status();
    child.values = *std::move(values);
    // Who shows a child takes a value for each parameter.
    if (child.values.size() != sweep.plan.parameters.size()) {
      return absl::DataLossError("a sweep's child makes no sense");
    }
    child.rung = query.Int();
    child.out = query.Text();
    child.metric = query.OptionalReal();
    child.drop = query.Int() != 0;
  }
  return absl::OkStatus();
}

// The sweep of the first row of `query`, which is of kColumns.
absl::StatusOr<std::optional<Sweep>> ReadOne(Connection& c, Query& query)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  if (!query.Next()) return std::optional<Sweep>();
  Sweep sweep;
  const absl::StatusOr<int64_t> number = ReadSweep(query, sweep);
  if (!number.ok()) return number.status();
  absl::Status read = ReadChildren(c, *number, sweep);
  if (!read.ok()) return read;
  return std::optional<Sweep>(std::move(sweep));
}

absl::Status NoSuchSweep(const std::string& id) {
  return absl::NotFoundError(absl::StrCat("no sweep ", base::Quotable(id)));
}

void InsertSweep(Connection& c, const Sweep& sweep)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query(c,
        "INSERT INTO sweeps (id, name, owner, create_time_us, plan, rungs, "
        "idempotency_key, request_hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        sweep.id, sweep.name, sweep.owner,
        absl::ToUnixMicros(sweep.create_time), sweeps::EncodePlan(sweep.plan),
        static_cast<int64_t>(sweep.plan.rungs.size()),
        OrNull(sweep.idempotency_key), sweep.request_hash)
      .Run();
  const int64_t number = c.database().getLastInsertRowid();
  for (size_t i = 0; i < sweep.children.size(); ++i) {
    Query(c,
          "INSERT INTO sweep_children (sweep, position, job_id, assigned) "
          "VALUES (?, ?, ?, ?)",
          number, static_cast<int64_t>(i), sweep.children[i].job_id,
          sweeps::EncodeValues(sweep.children[i].values))
        .Run();
  }
}

}  // namespace

absl::Status SweepStore::Insert(const Sweep& sweep,
                                absl::Span<const jobs::Job> jobs,
                                absl::Span<const jobs::Event> events) {
  return jobs_.InsertAll(absl::StrCat("storing sweep ", sweep.id), jobs, events,
                         [&](Connection& c) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                           InsertSweep(c, sweep);
                         });
}

absl::StatusOr<Sweep> SweepStore::Get(const std::string& id) {
  // The writer's connection: what is decided about a sweep is read and written
  // in turn.
  Connection& c = database_.writer();
  using Result = absl::StatusOr<Sweep>;
  return CatchSqlite("reading a sweep", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query query(c, absl::StrCat(kColumns, " WHERE id = ?"), id);
    absl::StatusOr<std::optional<Sweep>> sweep = ReadOne(c, query);
    if (!sweep.ok()) return sweep.status();
    if (!sweep->has_value()) return NoSuchSweep(id);
    return **std::move(sweep);
  });
}

absl::StatusOr<std::optional<Sweep>> SweepStore::FindByIdempotencyKey(
    const std::string& owner, const std::string& key) {
  Connection& c = database_.writer();
  using Result = absl::StatusOr<std::optional<Sweep>>;
  return CatchSqlite("looking for a sweep", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query query(
        c, absl::StrCat(kColumns, " WHERE owner = ? AND idempotency_key = ?"),
        owner, key);
    return ReadOne(c, query);
  });
}

absl::StatusOr<std::vector<Sweep>> SweepStore::List(
    const sweeps::SweepFilter& filter) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<Sweep>>;
  return CatchSqlite("listing sweeps", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<std::string> where;
    if (filter.owner) where.emplace_back("owner = ?");
    if (!filter.before.empty()) where.emplace_back("id < ?");
    if (!filter.ids.empty()) {
      const std::vector<std::string> marks(filter.ids.size(), "?");
      where.push_back(absl::StrCat("id IN (", absl::StrJoin(marks, ", "), ")"));
    }
    std::vector<Sweep> found;
    std::vector<int64_t> numbers;
    {
      Query query(c, absl::StrCat(kColumns, where.empty() ? "" : " WHERE ",
                                  absl::StrJoin(where, " AND "),
                                  " ORDER BY id DESC LIMIT ?"));
      if (filter.owner) query.Bind(*filter.owner);
      if (!filter.before.empty()) query.Bind(filter.before);
      for (const std::string& id : filter.ids) query.Bind(id);
      query.Bind(filter.limit);
      while (query.Next()) {
        const auto number = ReadSweep(query, found.emplace_back());
        if (!number.ok()) return number.status();
        numbers.push_back(*number);
      }
    }
    for (size_t i = 0; i < found.size(); ++i) {
      absl::Status read = ReadChildren(c, numbers[i], found[i]);
      if (!read.ok()) return read;
    }
    return found;
  });
}

absl::StatusOr<std::vector<std::string>> SweepStore::Thinning() {
  Connection& c = database_.writer();
  using Result = absl::StatusOr<std::vector<std::string>>;
  return CatchSqlite("looking for sweeps", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<std::string> ids;
    // The conditions of the index jobs_of_sweep, spelt as it has them.
    Query query(c,
                "SELECT id FROM sweeps WHERE rungs > 0 AND EXISTS (SELECT 1 "
                "FROM jobs WHERE jobs.sweep_id = sweeps.id AND "
                "jobs.sweep_id <> '' AND jobs.state IN (1, 2)) ORDER BY id");
    while (query.Next()) ids.push_back(query.Text());
    return ids;
  });
}

absl::Status SweepStore::Decide(const Sweep& sweep) {
  Connection& c = database_.writer();
  return CatchSqlite("storing what a sweep decided", [&]() -> absl::Status {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    const int changed = Query(c,
                              "UPDATE sweeps SET rung = ? "
                              "WHERE id = ? AND rung = ?",
                              sweep.rung, sweep.id, sweep.rung - 1)
                            .Run();
    if (changed == 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "sweep ", sweep.id, " is gone, or another rung of it is decided"));
    }
    for (size_t i = 0; i < sweep.children.size(); ++i) {
      const Child& child = sweep.children[i];
      Query(c,
            "UPDATE sweep_children SET rung = ?, out_message = ?, metric = ?, "
            "dropped = ? WHERE position = ? AND "
            "sweep = (SELECT number FROM sweeps WHERE id = ?)",
            child.rung, child.out, child.metric, child.drop ? 1 : 0,
            static_cast<int64_t>(i), sweep.id)
          .Run();
    }
    transaction.Commit();
    return absl::OkStatus();
  });
}

}  // namespace mpsd::store
