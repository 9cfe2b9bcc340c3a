// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/method_table.h"

#include <deque>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/rpc/convert.h"

namespace mpsd::rpc {

bool UnreadAnswers::HasRoom(const std::string& user) const {
  absl::MutexLock lock(&mutex_);
  const auto found = of_user_.find(user);
  return found == of_user_.end() || found->second < kBytesOfUser;
}

std::shared_ptr<void> UnreadAnswers::Add(const std::string& user, size_t bytes,
                                         std::function<void()> cancel) {
  bytes += kCallBytes;
  std::list<Answer> one = {{user, bytes, std::move(cancel), Clock::now()}};
  const auto answer = one.begin();
  {
    absl::MutexLock lock(&mutex_);
    of_user_[user] += bytes;
    answers_.splice(answers_.end(), one);
  }
  return std::shared_ptr<void>(this, [this, answer](void*) {
    absl::MutexLock lock(&mutex_);
    const auto of_user = of_user_.find(answer->user);
    if ((of_user->second -= answer->bytes) == 0) of_user_.erase(of_user);
    answers_.erase(answer);
  });
}

void UnreadAnswers::EndIdle(Clock::time_point since) {
  // Under the lock, so that the calls exist.
  absl::MutexLock lock(&mutex_);
  for (const Answer& answer : answers_) {
    if (answer.since >= since) break;
    answer.cancel();
  }
}

namespace {

// Only checks the cancellation: gRPC cancels a call whose deadline has passed.
absl::Status IsWanted(const grpc::CallbackServerContext& context,
                      const CallHost& host) {
  if (context.IsCancelled()) {
    return absl::CancelledError("the client no longer waits");
  }
  if (host.closed()) {
    return absl::UnavailableError("mpsd is stopping: try again later");
  }
  return absl::OkStatus();
}

absl::Status Busy(const char* rpc) {
  return absl::UnavailableError(absl::StrCat(
      rpc,
      ": mpsd is busy, too many calls wait already: try again in a few "
      "seconds"));
}

absl::Status Unread(const char* rpc) {
  return absl::UnavailableError(absl::StrCat(
      rpc, ": too many answers to your calls wait to be read: read them"));
}

}  // namespace

OneRequest* Answer(grpc::CallbackServerContext* context, const Gate& gate,
                   CallHost& host, UnreadAnswers& unread, access::Method method,
                   MakeAsk make_ask, std::function<absl::Status(Call&)> work,
                   const grpc::ByteBuffer* answer) {
  // This is a gRPC thread, which authenticates the caller, and makes and posts
  // the task. The barrier guards it too, because making a task takes memory.
  const auto post = [=, &gate, &host,
                     &unread](OneRequest& request) -> absl::Status {
    const char* const rpc = method.rule().method;
    const Ask ask = make_ask(request.bytes);
    ASSIGN_OR_RETURN(access::Rights rights, gate.Enter(*context, method, ask));
    const std::string user = rights.caller().user;
    auto task = [=, &gate, &host, &unread, &request, read_request = ask.read,
                 rights = std::move(rights)] {
      // Finish is the last step: gRPC may free context, request and response
      // before Finish returns.
      request.Finish(ToGrpc(host.barrier().Run(rpc, [&] {
        Call call{rights, [=, &host] { return IsWanted(*context, host); }, ""};
        RETURN_IF_ERROR(call.wanted());
        if (!unread.HasRoom(user)) return Unread(rpc);
        Asked asked{method};
        const absl::Status read = read_request(asked);
        ASSIGN_OR_RETURN(const int64_t entry, gate.Begin(asked, call.rights));
        const absl::Status done =
            read.ok() ? host.barrier().Run(rpc, [&] { return work(call); })
                      : read;
        gate.End(entry, done, call.made_job_id);
        if (done.ok()) {
          request.answer =
              unread.Add(user, answer->Length(), [=] { context->TryCancel(); });
        }
        return done;
      })));
    };
    return host.Post(user, ask.bytes, std::move(task)) ? absl::OkStatus()
                                                       : Busy(rpc);
  };
  return new OneRequest([=, &host](OneRequest& request) {
    const absl::Status posted =
        host.barrier().Run(method.rule().method, [&] { return post(request); });
    if (!posted.ok()) request.Finish(ToGrpc(posted));
  });
}

class MethodTable::Service final : public grpc::Service {
 public:
  void Add(std::string path, grpc::internal::RpcMethod::RpcType type,
           grpc::internal::MethodHandler* handler) {
    const int index = size();
    paths_.push_back(std::move(path));
    AddMethod(new grpc::internal::RpcServiceMethod(paths_.back().c_str(), type,
                                                   nullptr));
    MarkMethodCallback(index, handler);
  }
  int size() const { return static_cast<int>(paths_.size()); }

 private:
  std::deque<std::string> paths_;  // gRPC keeps pointers to them
};

void MethodTable::Add(access::Method method,
                      grpc::internal::RpcMethod::RpcType type,
                      const google::protobuf::Descriptor* request,
                      const google::protobuf::Descriptor* response,
                      grpc::internal::MethodHandler* handler) {
  const google::protobuf::MethodDescriptor* found =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
          absl::StrCat("mpsd.v1.", method.rule().method));
  base::Check(found != nullptr, "a row is of a method of mpsd.v1");
  base::Check(
      found->input_type() == request && found->output_type() == response,
      "a row has the messages of its method");
  const std::string& service = found->service()->full_name();
  std::shared_ptr<Service>& rows = services_[service];
  if (rows == nullptr) rows = std::make_shared<Service>();
  rows->Add(absl::StrCat("/", service, "/", found->name()), type, handler);
}

void MethodTable::Register(grpc::ServerBuilder& builder) {
  for (const auto& [name, service] : services_) {
    base::Check(google::protobuf::DescriptorPool::generated_pool()
                        ->FindServiceByName(name)
                        ->method_count() == service->size(),
                "each method of a service has a row");
    builder.RegisterService(service.get());
  }
}

}  // namespace mpsd::rpc
