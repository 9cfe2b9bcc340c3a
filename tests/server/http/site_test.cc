// SPDX-License-Identifier: Apache-2.0
#include "server/http/site.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/server/in_process_daemon.h"

namespace mpsd::web {
namespace {

using nlohmann::json;

constexpr char kId[] = "01KAH0000000000000000000AA";
const std::string kJob = std::string("/jobs/") + kId;
constexpr char kHostile[] = "</script><img src=x onerror=alert(1)>";

// A job of ada's that runs, or has ended, and made so many steps.
void PutJob(InProcessDaemon& daemon, const std::string& name, int steps = 0,
            jobs::State state = jobs::State::kRunning) {
  jobs::Job job = daemon.MakeJob(1, state, "ada");
  job.id = kId;
  job.name = job.message = name;
  std::vector<jobs::Event> events;
  for (int step = 1; step <= steps; ++step) {
    jobs::Progress progress;
    progress.step = step;
    events.push_back({kId, step + 1, job.create_time, progress});
  }
  daemon.Put(job, events);
}

class SiteTest : public testing::Test {
 protected:
  SiteTest() {
    facts_.version = "0.1.0";
    PutJob(daemon_, kHostile, 7);
  }
  http::Response Get(const std::string& target,
                     const std::string& host = "127.0.0.1:9465") {
    return Site(*daemon_.board, facts_, private_jobs_)
        .Answer({.target = target, .host = host});
  }
  json Json(const std::string& target, int status = 200) {
    const http::Response response = Get(target);
    EXPECT_EQ(response.status, status) << target << ": " << response.body;
    EXPECT_EQ(response.content_type, "application/json") << target;
    return json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  }

  InProcessDaemon daemon_;
  rpc::DaemonFacts facts_;
  bool private_jobs_ = false;
};

TEST_F(SiteTest, FaultsAreTheApisToo) {
  EXPECT_THAT(Json("/api/jobs?page_size=x", 400)["error"],
              HasSubstr("page_size"));
  EXPECT_THAT(Json("/api/jobs?page_size=501", 400)["error"],
              HasSubstr("page_size"));
  EXPECT_THAT(Json("/api/jobs?states=RUNNING", 400)["error"],
              HasSubstr("JOB_STATE_"));
  EXPECT_THAT(Json("/api/jobs?limit=1", 400)["error"], HasSubstr("limit"));
  EXPECT_THAT(Json("/api/jobs?page_token=made-up", 400)["error"],
              HasSubstr("page_token"));
  Json("/api/jobs/01KAH0000000000000000000ZZ", 404);
  Json("/jobs/01KAH0000000000000000000ZZ", 404);
  Json("/api" + kJob + "/log", 404);
  Json("/api", 404);
  Json("/etc/passwd", 404);
  Json("/..%2f..%2fetc%2fpasswd", 404);
  Json("/%zz", 400);
}

TEST_F(SiteTest, ThePagesRunNothingButTheirOwn) {
  const http::Response queue = Get("/");
  EXPECT_EQ(queue.content_type, "text/html; charset=utf-8");
  EXPECT_THAT(queue.headers,
              Contains(Pair("Content-Security-Policy",
                            HasSubstr("default-src 'none'; script-src 'self'"
                                      "; style-src 'self'"))));
  const http::Response run = Get(kJob);
  EXPECT_EQ(run.status, 200);
  EXPECT_EQ(run.content_type, "text/html; charset=utf-8");
  EXPECT_THAT(run.body, Not(HasSubstr(kHostile)));
  for (const http::Response& page : {queue, run}) {
    EXPECT_THAT(page.headers,
                Contains(Pair("Content-Security-Policy",
                              HasSubstr("frame-ancestors 'none'"))));
    EXPECT_THAT(page.headers,
                Contains(Pair("Cross-Origin-Resource-Policy", "same-origin")));
    EXPECT_THAT(page.headers,
                Not(Contains(Pair(HasSubstr("Access-Control"), testing::_))));
  }
}

// Another site may point its name at 127.0.0.1.
TEST_F(SiteTest, AnswersToThisMachinesNamesAlone) {
  for (const char* host :
       {"localhost", "localhost:9465", "LOCALHOST:1", "127.0.0.1",
        "127.0.0.1:9465", "[::1]", "[::1]:9465"}) {
    EXPECT_EQ(Get("/", host).status, 200) << host;
  }
  for (const char* host :
       {"", "evil.example", "evil.example:9465", "localhost.evil.example",
        "127.0.0.1.evil.example:80", "10.0.0.1", "0.0.0.0:9465", "localhost.",
        "evil.example:80@localhost", "::1", "[::1", "localhost:9465:80"}) {
    const http::Response response = Get("/api/jobs", host);
    EXPECT_EQ(response.status, 403) << host;
    EXPECT_THAT(response.body, Not(HasSubstr(kId)));
  }
}

TEST_F(SiteTest, ShowsThePublicPartOfPrivateJobs) {
  private_jobs_ = true;
  const json list = Json("/api/jobs");
  EXPECT_EQ(list["jobs"][0]["id"], kId);
  EXPECT_EQ(list["jobs"][0]["owner"], "ada");
  EXPECT_EQ(Json("/api" + kJob)["state"], "JOB_STATE_RUNNING");
  for (const std::string& target : {std::string("/api/jobs"), "/api" + kJob,
                                    "/api" + kJob + "/run", kJob}) {
    EXPECT_THAT(Get(target).body, Not(HasSubstr("onerror")));
  }
  EXPECT_THAT(std::string(Json("/api" + kJob + "/run", 403)["error"]),
              HasSubstr("--private-jobs"));
  EXPECT_EQ(Get(kJob).status, 403);
}

class RunDataTest : public testing::Test {
 protected:
  static access::Rights Anonymous(bool private_jobs = false) {
    return access::Rights(access::Caller(), private_jobs);
  }
  run_page::RunData Read() {
    auto run = ReadRun(reader_, Anonymous(), kId);
    EXPECT_TRUE(run.ok()) << run.status();
    return *std::move(run);
  }
  void WriteLog(const std::string& text) {
    daemon_.Write(reader_.LogPath(kId), text);
  }

  InProcessDaemon daemon_;
  jobs::JobReader& reader_ = *daemon_.board;
};

TEST_F(RunDataTest, HasTheEndOfTheLog) {
  PutJob(daemon_, "moods", 0, jobs::State::kSucceeded);
  WriteLog("one\ntwo\n");
  EXPECT_EQ(Read().log, "one\ntwo\n");
  std::string lines;
  for (int i = 0; i < 20'000; ++i) lines += "line " + std::to_string(i) + "\n";
  WriteLog(lines);
  const run_page::RunData run = Read();
  EXPECT_LE(run.log.size(), size_t{64} << 10);
  EXPECT_GT(run.log.size(), size_t{63} << 10);
  EXPECT_THAT(run.log, StartsWith("line "));
  EXPECT_THAT(run.log, EndsWith("line 19999\n"));
  EXPECT_EQ(run.left_out.log_bytes + run.log.size(), lines.size());
}

TEST(ParseTarget, ReadsPathAndQueryAndRefusesInvalidTargets) {
  const auto target =
      ParseTarget("/api//jobs/a%2Fb%20c+d?states=X&states=Y&o=a+b%26%3D&flag");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_THAT(target->path, ElementsAre("api", "jobs", "a/b c+d"));
  EXPECT_THAT(target->query,
              ElementsAre(Pair("states", "X"), Pair("states", "Y"),
                          Pair("o", "a b&="), Pair("flag", "")));
  EXPECT_THAT(ParseTarget("/")->path, IsEmpty());
  EXPECT_THAT(ParseTarget("/?")->query, IsEmpty());
  for (const char* text :
       {"", "*", "http://host/", "jobs", "/%", "/%4", "/%zz", "/%+1", "/%00",
        "/a%0ab", "/?a=%1f", "/?%7f=a", "/%-1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseTarget(text).status())) << text;
  }
}

}  // namespace
}  // namespace mpsd::web
