// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/formats/agents_trace.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "loadgen/workload/distribution.hpp"
#include "loadgen/workload/traces/json_values.hpp"

namespace troupe::loadgen {
namespace {

using nlohmann::json;
using std::chrono::nanoseconds;

constexpr double kMaxDelayMs = 1e9;

// The texts of a list of parts; a message without a content has called tools.
std::string content_of(const JsonFields& message, const json& object) {
  if (!message.has("content")) return "";
  const json& content = object.at("content");
  if (!content.is_array()) return message.text("content");
  std::string text;
  for (const json& part : content)
    if (part.is_object() && part.contains("text") && part["text"].is_string())
      text += (text.empty() ? "" : "\n") + part["text"].get<std::string>();
  return text;
}

struct RecordedTurn {
  std::string conversation;
  std::uint32_t prompt_tokens = 0, output_tokens = 0;
  nanoseconds delay_after{0};
  std::string system_text = {};
  std::size_t num_messages = 0;
  std::string new_text = {};  // of messages that the turn before did not have
};

class AgentsTrace final : public ConversationSource {
 public:
  AgentsTrace(TraceInput input, bool keeps_text) : input_(std::move(input)), keeps_text_(keeps_text) {}

  bool next(PlannedConversation& conversation) override {
    if (!ahead_) ahead_ = read_turn(0);
    if (!ahead_) return false;
    conversation.start = {};
    conversation.prefix.clear();
    conversation.turns.clear();
    conversation.system_text = std::move(ahead_->system_text);
    const std::string id = ahead_->conversation;
    std::uint32_t known_tokens = 0;  // prompt and answer of the turn before
    nanoseconds delay{0};
    while (ahead_ && ahead_->conversation == id) {
      auto& turn = conversation.turns.emplace_back();
      turn.prompt_tokens = std::max(ahead_->prompt_tokens, known_tokens + 1) - known_tokens;
      turn.output_tokens = ahead_->output_tokens;
      turn.text = std::move(ahead_->new_text);
      turn.think_time = delay;
      known_tokens = ahead_->prompt_tokens + ahead_->output_tokens;
      delay = ahead_->delay_after;
      ahead_ = read_turn(ahead_->num_messages);
    }
    return true;
  }

 private:
  // num_known: messages of the turn before, which are looked for where the conversation goes on.
  std::optional<RecordedTurn> read_turn(std::size_t num_known) {
    if (!input_.next_line(line_)) return std::nullopt;
    const std::string place = input_.place();
    const json parsed = parse_json(line_, place);
    const JsonFields fields(parsed, place);
    RecordedTurn turn{.conversation = fields.text("conversation_id"),
                      .prompt_tokens = std::max(1U, count_in(fields, "recorded_prompt_tokens")),
                      .output_tokens = std::max(1U, count_in(fields, "recorded_completion_tokens"))};
    if (fields.has("simulated_tool_delay_ms_after")) {
      const double delay_ms = fields.real("simulated_tool_delay_ms_after");
      if (delay_ms > kMaxDelayMs) input_.fail("'simulated_tool_delay_ms_after': expected at most 10^9");
      turn.delay_after = seconds_to_nanoseconds(delay_ms / 1000);
    }
    if (keeps_text_)
      read_messages(fields, place, ahead_ && ahead_->conversation == turn.conversation ? num_known : 0, turn);
    return turn;
  }

  void read_messages(const JsonFields& fields, const std::string& place, std::size_t num_known,
                     RecordedTurn& turn) {
    const json& messages = fields.array("messages");
    const std::string where = place + ": 'messages'";
    turn.num_messages = messages.size();
    for (std::size_t i = num_known; i < messages.size(); ++i) {
      const JsonFields message(messages[i], where);
      const std::string role = message.text("role");
      if (role == "assistant") continue;  // the server's own words stand in its place
      const std::string text = content_of(message, messages[i]);
      if (i == 0 && role == "system") {
        turn.system_text = text;
      } else if (!text.empty()) {
        turn.new_text += (turn.new_text.empty() ? "" : "\n") + text;
      }
    }
  }

  TraceInput input_;
  bool keeps_text_;
  std::optional<RecordedTurn> ahead_;
  std::string line_;
};

}  // namespace

std::unique_ptr<ConversationSource> read_agents_trace(TraceInput input, bool keeps_text) {
  return std::make_unique<AgentsTrace>(std::move(input), keeps_text);
}

}  // namespace troupe::loadgen
