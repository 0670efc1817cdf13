// SPDX-License-Identifier: Apache-2.0
// An engine whose every event the test decides, linked in place of the real
// one: what the HTTP side does with it can be tested one event at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "actors/engine.hpp"

namespace troupe::test {

class EngineScript {
 public:
  struct Submitted {
    GenerationRequest request;
    EmbeddingRequest embedding;  // one of both
    std::shared_ptr<ResponseSink> sink;
    bool is_cancelled = false;
    int num_resumes = 0;
  };

  // Called at the end of each submit, on the caller's thread; may be empty. A test may set it
  // before its server has a request, or after wait_for_request() has found the last one sent.
  std::function<void(RequestId)> on_submit;
  EngineStatus status{.state = EngineState::kReady};

  // Any thread. Waits until the n-th request (from 1) has been submitted.
  RequestId wait_for_request(RequestId n);
  bool wait_until_cancelled(RequestId id);
  bool wait_until_resumed(RequestId id);
  void deliver(RequestId id, ResponseEvent event);
  // Accepted, the texts one by one, Finished.
  void answer(RequestId id, const std::vector<std::string>& texts, FinishReason reason = FinishReason::kStop);
  Submitted submitted(RequestId id);
  std::size_t num_submitted();
  bool has_ended_journal(const std::string& response);
  std::size_t num_unfinished();  // neither ended nor cancelled

  // What the store holds, by id; what is not there is answered by Failed.
  std::map<std::string, StoredResponse> stored;

  void end_journal(std::string response);
  void look_up(StoreQuery query, std::shared_ptr<ResponseSink> sink);
  RequestId submit(GenerationRequest request, std::shared_ptr<ResponseSink> sink);
  RequestId embed(EmbeddingRequest request, std::shared_ptr<ResponseSink> sink);
  void cancel(RequestId id);
  void resume(RequestId id);

 private:
  RequestId add(Submitted submitted);
  bool wait_until(const std::function<bool()>& condition);

  std::mutex mutex_;
  std::map<RequestId, Submitted> requests_;
  std::map<RequestId, bool> ended_;
  std::set<std::string> ended_journals_;
};

// The script of an engine made here.
EngineScript& script_of(const Engine& engine);

}  // namespace troupe::test
