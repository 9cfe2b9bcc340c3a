// SPDX-License-Identifier: Apache-2.0
// The streams to clients: which may be open, and the events and logs of jobs.
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "server/rpc/hosts.h"
#include "server/rpc/job_streams.h"
#include "tests/server/rpc/api.h"

namespace mpsd::rpc {
namespace {

class CountingStream final : public ClosableStream {
 public:
  void Close(const absl::Status&) override { ++closed; }
  void EndIfIdle(Clock::time_point) override {}
  int closed = 0;
};

access::Caller User(const std::string& user,
                    const std::string& credential = "") {
  access::Caller caller;
  caller.user = user;
  caller.credential = credential;
  return caller;
}

TEST(StreamHost, ClosesTheStreamsThatLive) {
  StreamHost host(1);
  CountingStream stays, leaves;
  ASSERT_THAT(host.Add(stays, User("ada")), IsOk());
  ASSERT_THAT(host.Add(leaves, User("ada")), IsOk());
  EXPECT_EQ(host.live(), 2);
  host.Remove(leaves);
  host.CloseAll();
  EXPECT_EQ(stays.closed, 1);
  EXPECT_EQ(leaves.closed, 0);
  EXPECT_EQ(host.live(), 1);
  CountingStream late;
  ASSERT_THAT(host.Add(late, User("ada")), IsOk());
  EXPECT_EQ(late.closed, 1) << "at once";
}

TEST(StreamHost, TakesSoManyAndSoManyOfAUser) {
  StreamHost host(1, {.streams = 3, .of_a_user = 2}, Barrier());
  CountingStream streams[5];
  ASSERT_THAT(host.Add(streams[0], User("ada", "token 1")), IsOk());
  ASSERT_THAT(host.Add(streams[1], User("ada", "uid 1")), IsOk());
  EXPECT_THAT(host.Add(streams[2], User("ada")),
              Fails(StatusCode::kUnavailable, "of yours"));
  ASSERT_THAT(host.Add(streams[3], User("bob")), IsOk());
  EXPECT_THAT(host.Add(streams[4], User("eve")),
              Fails(StatusCode::kUnavailable, "3 such streams"));
  host.Remove(streams[2]);  // was not added
  EXPECT_EQ(host.live(), 3);
  host.Remove(streams[0]);
  EXPECT_TRUE(host.Add(streams[2], User("ada")).ok());
}

class WatchTest : public testing::Test {
 protected:
  // A row of a job that runs, which the queue does not know, with so many
  // events; the first is of its state.
  std::string PutWithEvents(int events, size_t note_bytes = 1) {
    job_ = InProcessDaemon::MakeJob(1, State::kRunning);
    std::vector<jobs::Event> rest;
    for (int i = 2; i <= events; ++i) rest.push_back(Note(i, note_bytes));
    daemon_.Put(job_, rest);
    return job_.id;
  }
  jobs::Event Note(int64_t sequence, size_t bytes) const {
    return {job_.id, sequence, job_.create_time,
            jobs::Note{std::string(bytes, 'n')}};
  }
  // The job of PutWithEvents succeeds, with this event.
  void Succeed(int64_t sequence) {
    job_.state = State::kSucceeded;
    ASSERT_THAT(daemon_.job_store->Update(
                    job_, {{job_.id, sequence, job_.create_time,
                            jobs::StateChanged{State::kSucceeded, ""}}}),
                IsOk());
    daemon_.board->hub().Wake(job_.id);
  }
  // The sequences of the whole stream.
  std::vector<int64_t> Sequences(const std::string& id, int64_t after = 0) {
    auto request = ById<v1::WatchRequest>(id);
    request.set_after_sequence(after);
    const auto streamed = api_.Read(&Jobs::Watch, request);
    EXPECT_THAT(streamed, IsOk());
    std::vector<int64_t> sequences;
    for (const auto& event : streamed.messages) {
      sequences.push_back(event.sequence());
    }
    return sequences;
  }
  static std::vector<int64_t> Counting(int64_t from, int64_t to) {
    std::vector<int64_t> sequences;
    for (int64_t i = from; i <= to; ++i) sequences.push_back(i);
    return sequences;
  }

  jobs::Job job_;
  InProcessDaemon daemon_;
  const Api& api_ = daemon_.admin();
};

TEST_F(WatchTest, ResumesAfterASequence) {
  const std::string id = PutWithEvents(2499);
  Succeed(2500);
  EXPECT_EQ(Sequences(id, 2497), Counting(2498, 2500));
  EXPECT_EQ(Sequences(id), Counting(1, 2500)) << "over several pages";
  EXPECT_EQ(Sequences(id, 9999), std::vector<int64_t>());
}

// It was cancelled, and tried again.
TEST_F(WatchTest, EndsWithTheFinalStateThatTheJobIsIn) {
  const std::string id = daemon_.Submit();
  ASSERT_THAT(daemon_.scheduler->Cancel(id), IsOk());
  const size_t first = Sequences(id).size();
  ASSERT_THAT(daemon_.scheduler->Retry(id), IsOk());
  const auto again = Watch(api_, id);
  v1::JobEvent event;
  for (size_t i = 0; i <= first; ++i) {
    ASSERT_TRUE(again->stream->Read(&event));
  }
  daemon_.Tick();
  daemon_.End();
  while (again->stream->Read(&event)) {
  }
  EXPECT_EQ(event.sequence(), Ok(daemon_.board->LastSequence(id)));
  EXPECT_THAT(ToStatus(again->stream->Finish()), IsOk());
}

TEST_F(WatchTest, ErrorsAreTheCallers) {
  const std::string id = daemon_.Submit();
  for (const auto& [text, code] :
       {std::pair{"", StatusCode::kInvalidArgument},
        std::pair{"id: 'x' after_sequence: -1", StatusCode::kInvalidArgument},
        std::pair{"id: 'x'", StatusCode::kNotFound}}) {
    EXPECT_THAT(api_.Read(&Jobs::Watch, Parsed<v1::WatchRequest>(text)),
                Fails(code))
        << text;
  }
  for (const auto& [text, code] :
       {std::pair{"", StatusCode::kInvalidArgument},
        std::pair{"id: 'x'", StatusCode::kNotFound},
        std::pair{"id: '../a' follow: true", StatusCode::kNotFound}}) {
    EXPECT_THAT(api_.Read(&Jobs::Logs, Parsed<v1::LogsRequest>(text)),
                Fails(code))
        << text;
  }
  auto before = ById<v1::LogsRequest>(id);
  before.set_offset_bytes(-1);
  EXPECT_THAT(api_.Read(&Jobs::Logs, before),
              Fails(StatusCode::kInvalidArgument));
}

// Its events are gone under a watcher that has not read them all.
TEST_F(WatchTest, AWatchOfADeletedJobEnds) {
  const auto watch = Watch(api_, PutWithEvents(3000));
  v1::JobEvent event;
  ASSERT_TRUE(watch->stream->Read(&event));
  daemon_.Execute("UPDATE jobs SET state = 3");  // SUCCEEDED
  ASSERT_THAT(daemon_.job_store->Delete(job_.id), IsOk());
  daemon_.board->hub().Wake(job_.id);
  while (watch->stream->Read(&event)) {
  }
  EXPECT_THAT(ToStatus(watch->stream->Finish()), Fails(StatusCode::kNotFound));
}

// A watcher that breaks off and comes again while events come sees each once.
TEST_F(WatchTest, ResumesWhileEventsCome) {
  const std::string id = daemon_.Start();
  std::thread worker([this] {
    for (int64_t i = 1; i <= 300; ++i) daemon_.Step(i, 1000);
    daemon_.End();
  });
  std::vector<int64_t> seen;
  v1::JobEvent event;
  do {
    const auto watch = Watch(api_, id, seen.empty() ? 0 : seen.back());
    for (int i = 0; i < 50 && watch->stream->Read(&event); ++i) {
      seen.push_back(event.sequence());
    }
    watch->context.TryCancel();
    watch->stream->Finish();
  } while (Ok(daemon_.board->Get(id)).state != State::kSucceeded ||
           seen.back() != Ok(daemon_.board->LastSequence(id)));
  worker.join();
  EXPECT_GT(seen.size(), 300u);
  EXPECT_EQ(seen, Counting(1, seen.back()));
  EXPECT_TRUE(daemon_.calls.AwaitOpen("JobService.Watch", 0));
}

TEST_F(WatchTest, AClientThatVanishesLeavesNothing) {
  const std::string id = daemon_.Start();
  for (int i = 0; i < 20; ++i) {
    const auto watch = Watch(api_, id);
    v1::JobEvent event;
    if (i % 2 == 0) {
      ASSERT_TRUE(watch->stream->Read(&event));
    }
    watch->context.TryCancel();
    watch->stream->Finish();
  }
  auto request = ById<v1::LogsRequest>(id);
  request.set_follow(true);
  grpc::ClientContext context;
  const auto follower = api_.jobs()->Logs(&context, request);
  ASSERT_TRUE(daemon_.calls.AwaitOpen("JobService.Logs", 1));
  context.TryCancel();
  v1::LogChunk chunk;
  while (follower->Read(&chunk)) {
  }
  EXPECT_THAT(ToStatus(follower->Finish()), Fails(StatusCode::kCancelled));
  EXPECT_TRUE(daemon_.calls.AwaitOpen("JobService.Watch", 0));
  EXPECT_TRUE(daemon_.calls.AwaitOpen("JobService.Logs", 0));
  daemon_.Step(1);  // no client receives it
}

TEST_F(WatchTest, ASlowWatcherDelaysNoOther) {
  // With 64 KiB each far more than any window.
  const std::string id = PutWithEvents(399, 64 << 10);
  const auto slow = Watch(api_, id);
  v1::JobEvent event;
  ASSERT_TRUE(slow->stream->Read(&event));
  Succeed(400);
  EXPECT_EQ(Sequences(id).size(), 400u);
  int64_t sequence = 1;
  while (slow->stream->Read(&event)) EXPECT_EQ(event.sequence(), ++sequence);
  EXPECT_EQ(sequence, 400);
  EXPECT_THAT(ToStatus(slow->stream->Finish()), IsOk());
}

class LogsTest : public WatchTest {
 protected:
  LogsTest() { log_path_ = daemon_.files->LogPath(PutWithEvents(1)); }
  void Write(const std::string& text) {
    std::filesystem::create_directories(log_path_.parent_path());
    std::ofstream(log_path_, std::ios::app) << text;
  }
  v1::LogsRequest Request(int64_t offset, bool follow = false) const {
    auto request = ById<v1::LogsRequest>(job_.id);
    request.set_offset_bytes(offset);
    request.set_follow(follow);
    return request;
  }
  std::string Logs(int64_t offset, bool follow = false) {
    const auto streamed = api_.Read(&Jobs::Logs, Request(offset, follow));
    EXPECT_THAT(streamed, IsOk());
    std::string bytes;
    for (const v1::LogChunk& chunk : streamed.messages) {
      EXPECT_EQ(chunk.offset_bytes(),
                offset + static_cast<int64_t>(bytes.size()));
      EXPECT_LE(chunk.data().size(), 65536u);
      bytes += chunk.data();
    }
    return bytes;
  }
  std::filesystem::path log_path_;
};

TEST_F(LogsTest, WithoutFollowTheyEndWithTheFile) {
  const std::string text = std::string(200'000, 'x') + "0123456789";
  Write(text);
  EXPECT_EQ(Logs(0), text);
  EXPECT_EQ(Logs(200'007), "789");
  EXPECT_EQ(Logs(200'010), "");
  EXPECT_EQ(Logs(300'000), "");
  EXPECT_EQ(Logs(std::numeric_limits<int64_t>::max()), "");
}

TEST_F(LogsTest, FollowUntilTheJobEnds) {
  grpc::ClientContext context;
  const auto reader = api_.jobs()->Logs(&context, Request(0, true));
  ASSERT_TRUE(daemon_.calls.AwaitOpen("JobService.Logs", 1));
  Write("one\n");  // the file was not there before
  v1::LogChunk chunk;
  ASSERT_TRUE(reader->Read(&chunk));
  EXPECT_EQ(chunk.data(), "one\n");
  Write("two\n");  // the worker writes; nothing wakes the stream
  ASSERT_TRUE(reader->Read(&chunk));
  EXPECT_EQ(chunk.data(), "two\n");
  EXPECT_EQ(chunk.offset_bytes(), 4);
  Write("three\n");
  Succeed(2);
  ASSERT_TRUE(reader->Read(&chunk));
  EXPECT_EQ(chunk.data(), "three\n");
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_THAT(ToStatus(reader->Finish()), IsOk());
  EXPECT_EQ(Logs(0, true), "one\ntwo\nthree\n") << "it has ended";
}

}  // namespace
}  // namespace mpsd::rpc
