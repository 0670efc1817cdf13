// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/formats/mooncake_trace.hpp"

#include <algorithm>
#include <utility>

#include "loadgen/workload/distribution.hpp"
#include "loadgen/workload/traces/json_values.hpp"
#include "loadgen/workload/traces/single_turn.hpp"

namespace troupe::loadgen {
namespace {

constexpr std::uint32_t kBlockTokens = 512;

class MooncakeTrace final : public ConversationSource {
 public:
  explicit MooncakeTrace(TraceInput input) : input_(std::move(input)) {}

  bool next(PlannedConversation& conversation) override {
    while (input_.next_line(line_)) {
      has_lines_ = true;
      if (read_line(conversation)) return true;
      ++num_unanswered_;
    }
    if (!has_lines_) input_.fail("expected lines of JSON, got an empty file");
    return false;
  }

  std::vector<std::string> warnings() const override {
    return unanswered_warning(input_.name(), num_unanswered_);
  }

 private:
  // False for a request without an answer.
  bool read_line(PlannedConversation& conversation) {
    const auto place = input_.place();
    const auto parsed = parse_json(line_, place);
    const JsonFields request(parsed, place);
    const auto start = clock_.since_begin(seconds_to_nanoseconds(request.real("timestamp") / 1000), input_);
    const auto input_length = count_in(request, "input_length");
    const auto output_length = count_in(request, "output_length");
    plan_single_turn(conversation, start, input_length, output_length);
    auto left = input_length;
    for (const auto& id : request.array("hash_ids")) {
      const auto num_tokens = std::min(left, kBlockTokens);
      if (num_tokens == 0)
        input_.fail("'hash_ids': expected an id for each 512 tokens of input_length, got more");
      conversation.prefix.push_back(
          {.id = whole_number(id, place + ": 'hash_ids'"), .num_tokens = num_tokens});
      left -= num_tokens;
    }
    // Tokens that have no id are nobody else's.
    if (!conversation.prefix.empty()) conversation.turns.front().prompt_tokens = left;
    return output_length > 0;
  }

  TraceInput input_;
  TraceClock clock_;
  std::string line_;
  bool has_lines_ = false;
  std::uint64_t num_unanswered_ = 0;
};

}  // namespace

std::unique_ptr<ConversationSource> read_mooncake_trace(TraceInput input) {
  return std::make_unique<MooncakeTrace>(std::move(input));
}

}  // namespace troupe::loadgen
