// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/http/completion_record.hpp"

#include <cmath>

namespace troupe::loadgen {
namespace {

using std::chrono::nanoseconds;

constexpr SteadyTime kNever{};

nanoseconds since(SteadyTime begin, SteadyTime time) {
  return time == kNever ? nanoseconds(0) : time - begin;
}

}  // namespace

std::string request_id(std::uint64_t conversation, std::uint32_t turn) {
  return "loadgen-" + std::to_string(conversation) + "-" + std::to_string(turn);
}

RequestRecord make_record(const Dialogue& dialogue, nanoseconds intended, const Completion& completion,
                          SteadyTime begin) {
  const auto& turn = dialogue.planned_turn();
  const auto& answer = completion.answer;
  const auto& usage = answer.content.usage;
  RequestRecord record;
  record.conversation = dialogue.plan().number;
  record.turn = static_cast<std::uint32_t>(dialogue.turn());
  record.request_class = dialogue.plan().request_class;
  record.intended = intended;
  record.sent = since(begin, completion.sent == kNever ? answer.finished : completion.sent);
  record.first_token = since(begin, answer.first_token);
  record.last_token = since(begin, answer.last_token);
  record.finished = since(begin, answer.finished);
  record.gaps_us = answer.gaps_us;
  record.prompt_tokens = usage ? usage->prompt_tokens : turn.prompt_tokens;
  record.cached_tokens = usage ? usage->cached_tokens : 0;
  record.output_tokens = usage ? usage->output_tokens : answer.num_chunks;
  if (answer.content.queue_ms)
    record.server_queue = nanoseconds(std::llround(*answer.content.queue_ms * 1e6));
  record.outcome = answer.outcome;
  record.status = answer.status;
  record.error = answer.error;
  if (record.outcome == Outcome::kCompleted && !turn.answer.empty())
    record.is_correct = is_right_answer(turn, answer.content.text);
  return record;
}

nanoseconds start_delay(nanoseconds intended, const Completion& completion, SteadyTime begin) {
  const auto started = completion.started == kNever ? completion.answer.finished : completion.started;
  return std::max(nanoseconds(0), started - begin - intended);
}

}  // namespace troupe::loadgen
