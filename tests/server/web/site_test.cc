// SPDX-License-Identifier: Apache-2.0
#include "server/web/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/core/scratch_folder.h"
#include "tests/server/rpc/fake_manager.h"

namespace mpsd::web {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

constexpr char kId[] = "01KAH0000000000000000000AA";
constexpr char kHostile[] = "</script><img src=x onerror=alert(1)>";

class SiteTest : public testing::Test {
 protected:
  SiteTest() {
    facts_.version = "0.1.0";
    jobs::Job job = rpc::FakeManager::MakeJob(kId, jobs::State::kRunning);
    job.name = kHostile;
    reader_.Put(job);
  }
  http::Response Get(const std::string& target,
                     const std::string& host = "127.0.0.1:9465") {
    return Site(reader_, facts_, private_jobs_)
        .Answer({.target = target, .host = host});
  }
  json Json(const std::string& target, int status = 200) {
    const http::Response response = Get(target);
    EXPECT_EQ(response.status, status) << target << ": " << response.body;
    EXPECT_EQ(response.content_type, "application/json") << target;
    return json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  }

  rpc::FakeManager reader_{testing_support::FreshFolder("site")};
  rpc::DaemonFacts facts_;
  bool private_jobs_ = false;
};

TEST_F(SiteTest, ShowsTheApisMessages) {
  EXPECT_EQ(Json("/api/info")["version"], "0.1.0");
  const json list = Json("/api/jobs?page_size=5&states=JOB_STATE_RUNNING");
  EXPECT_EQ(list["jobs"][0]["id"], kId);
  EXPECT_EQ(reader_.last_filter().states.size(), 1u);
  EXPECT_EQ(Json(std::string("/api/jobs/") + kId)["name"], kHostile);
  reader_.AppendProgress(kId, 7);
  const json run = Json(std::string("/api/jobs/") + kId + "/run")["runs"][0];
  EXPECT_EQ(run["job"]["id"], kId);
  EXPECT_EQ(run["events"][0]["progress"]["step"], "7");
}

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
  Json(std::string("/api/jobs/") + kId + "/log", 404);
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
  const http::Response run = Get(std::string("/jobs/") + kId);
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

TEST_F(SiteTest, HasTheFilesThatThePageNamesAndNoOthers) {
  const std::string page = Get("/").body;
  EXPECT_EQ(Get("/index.html").body, page);
  for (const std::string name : {"queue.js", "queue.css"}) {
    EXPECT_THAT(page, HasSubstr("\"/" + name + "\""));
    EXPECT_EQ(Get("/" + name).status, 200);
    EXPECT_GT(Get("/" + name).body.size(), 1000u);
  }
  EXPECT_EQ(Get("/queue.js").content_type, "text/javascript; charset=utf-8");
  for (const char* name :
       {"/index", "/../index.html", "/queue.js%20", "/a.map"}) {
    EXPECT_EQ(Get(name).status, 404) << name;
  }
}

// A site of somebody else may point its name at 127.0.0.1.
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
  jobs::Job job = rpc::FakeManager::MakeJob(kId, jobs::State::kRunning);
  job.owner = "ada";
  job.name = job.message = "secret";
  reader_.Put(job);
  const json list = Json("/api/jobs");
  EXPECT_EQ(list["jobs"][0]["id"], kId);
  EXPECT_EQ(list["jobs"][0]["owner"], "ada");
  EXPECT_EQ(Json(std::string("/api/jobs/") + kId)["state"],
            "JOB_STATE_RUNNING");
  for (const std::string& target :
       {std::string("/api/jobs"), std::string("/api/jobs/") + kId,
        std::string("/api/jobs/") + kId + "/run",
        std::string("/jobs/") + kId}) {
    EXPECT_THAT(Get(target).body, testing::Not(testing::HasSubstr("secret")));
  }
  EXPECT_THAT(
      std::string(Json(std::string("/api/jobs/") + kId + "/run", 403)["error"]),
      testing::HasSubstr("--private-jobs"));
  EXPECT_EQ(Get(std::string("/jobs/") + kId).status, 403);
}

}  // namespace
}  // namespace mpsd::web
