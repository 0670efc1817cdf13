// SPDX-License-Identifier: Apache-2.0
// One request's way out: its sink, and the promise that exactly one terminal
// event ends it. If its owner is destroyed before that, for whatever
// reason, the destructor says so to the client.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "actors/engine.hpp"
#include "actors/engine_door.hpp"
#include "actors/request/tenant_account.hpp"

namespace troupe {

class RequestRegistry;
class StatusBoard;

// One thread at a time.
class ResponseStream {
 public:
  ResponseStream(RequestId id, std::shared_ptr<ResponseSink> sink, std::shared_ptr<RequestRegistry> registry,
                 std::shared_ptr<StatusBoard> board, Metrics& metrics);
  ~ResponseStream();
  ResponseStream(const ResponseStream&) = delete;
  ResponseStream& operator=(const ResponseStream&) = delete;

  // The pass is held until the scheduler knows of the request, or it has ended.
  void hold(DoorPass pass) { pass_ = std::move(pass); }
  void mark_admitted() { pass_.reset(); }
  // The tenant's, until the end; null: nothing is counted.
  void charge_to(std::shared_ptr<TenantTab> tab) { tab_ = std::move(tab); }
  TenantTab* tab() const { return tab_.get(); }
  // A prompt, as TenantTab::reserve(). Given back with the end, unless its turn comes before.
  std::optional<ApiError> charge_prompt(std::uint64_t num_prompt, std::uint64_t max_drawn,
                                        TenantAccount::TimePoint now);
  // A prompt that was charged before, as TenantTab::take_again(). So, too.
  void charge_judged(std::uint64_t num_prompt, TenantAccount::TimePoint now);
  // Its first turn: what was charged, and what will be, stays so.
  void keep_charges();
  void note_journaled(Journaled journaled);
  void accept(std::uint32_t prompt_tokens);
  void add_text(TextDelta delta);
  void finish(Finished finished);
  void embed(Embedded embedded);
  void encode(EncodedText encoded);
  void fail(ApiError error);

  bool is_over() const { return sink_ == nullptr; }
  std::size_t pending_bytes() const { return sink_ ? sink_->pending_bytes() : 0; }

 private:
  void count_failure(ApiErrorKind kind) const;
  void end(ResponseEvent event);
  void forget();

  RequestId id_;
  std::shared_ptr<ResponseSink> sink_;  // null after the terminal event
  std::shared_ptr<RequestRegistry> registry_;
  std::shared_ptr<StatusBoard> board_;
  Metrics& metrics_;
  DoorPass pass_;
  std::shared_ptr<TenantTab> tab_;
  std::uint64_t num_charged_ = 0;  // tokens of prompts, which may have to be given back
  bool is_accepted_ = false;
  bool keeps_charges_ = false;
};

}  // namespace troupe
