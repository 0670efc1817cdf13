// SPDX-License-Identifier: Apache-2.0
// An answer that goes on without its client: the engine's events are kept, and
// connections follow them from the beginning, now or later. From the same events come
// the same bytes (http/api/answers/stream_writer.hpp), so a client that comes back is given what
// follows the last event it has.
//
// A request in the background that is in the journal and refused for want of room is asked
// again until there is some. One that this process can't finish, since it ends, has no end
// here: the next process goes on. All methods may be called from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine.hpp"
#include "actors/request/answer/answer_items.hpp"
#include "http/api/requests/openai_api.hpp"
#include "http/server/client_stream.hpp"

namespace troupe {

class DetachedAnswer final : public ResponseSink, public std::enable_shared_from_this<DetachedAnswer> {
 public:
  using Clock = std::chrono::steady_clock;

  struct About {
    ApiRequest request = {};  // without its prompts
    std::string id, tenant, flow;
    ModelIndex model = 0;
    std::int64_t created = 0;                           // Unix seconds
    std::shared_ptr<const ConversationTurn> turn = {};  // null: a chat or a completion
    bool is_background = false;
    bool is_known = false;  // to its client, by its id, before it is submitted
  };
  struct Look {
    AnswerItems items = {};  // so far
    Usage usage = {};
    bool is_queued = false;  // nothing of it has run yet
    bool is_cancelled = false;
    std::optional<Finished> finished = {};
    std::optional<ApiError> error = {};
  };

  // The engine must outlive every call but deliver(). under_way: let go of at the end.
  DetachedAnswer(Engine& engine, About about, std::shared_ptr<const void> under_way = nullptr)
      : engine_(engine), about_(std::move(about)), under_way_(std::move(under_way)) {}

  const About& about() const { return about_; }
  void submit(GenerationRequest request);
  // In place of that: there is no answer, for clients that ask.
  void fail(ApiError error);

  void deliver(ResponseEvent event) override;
  // No client is waited for.
  std::size_t pending_bytes() const noexcept override { return 0; }

  // The stream gets all events from the first on, as fast as its client takes them,
  // for as long as its other owner keeps it.
  void follow(const std::shared_ptr<ClientStream>& stream);
  // Its client has taken what came.
  void go_on(const ClientStream& stream);

  Look look() const;
  // A terminal event follows: that it was cancelled, or that it was all there already.
  void cancel();
  // A request that was refused is submitted again when its time has come. False: the
  // answer is not needed any more, since `keep` has passed.
  bool tend(Clock::time_point now, std::chrono::milliseconds keep);
  std::optional<Clock::time_point> ended() const;
  std::size_t num_bytes() const;  // of the events, and of the request until it runs

 private:
  struct Follower {
    std::weak_ptr<ClientStream> stream;
    std::size_t next = 0;  // of events_
  };

  bool may_ask_again(const ApiError& error) const;
  bool is_of_engine_that_ends(const ResponseEvent& event) const;
  void keep(ResponseEvent event);
  void pump(Follower& follower);
  void ask();
  void end_journal();

  Engine& engine_;
  const About about_;
  mutable std::mutex mutex_;
  GenerationRequest request_ = {};  // in the background, until it runs: to be asked again
  RequestId request_id_ = 0;
  std::vector<ResponseEvent> events_;
  std::size_t num_bytes_ = 0;
  Look look_{.is_queued = true};
  std::vector<Follower> followers_;
  bool has_ended_ = false;
  bool is_cancelled_ = false;
  bool was_left_ = false;           // to the next process
  bool is_journal_to_end_ = false;  // of a request that no actor runs
  std::shared_ptr<const void> under_way_;
  Clock::time_point ended_at_ = {};
  std::optional<Clock::time_point> ask_again_;
  Clock::time_point last_needed_ = Clock::now();  // running in the background, or followed
};

}  // namespace troupe
