// SPDX-License-Identifier: Apache-2.0
#include "loadgen/traces/plan_file.hpp"

#include <utility>

#include "loadgen/traces/json_fields.hpp"
#include "loadgen/traces/trace_clock.hpp"

namespace troupe::loadgen {
namespace {

using nlohmann::json;
using std::chrono::nanoseconds;

constexpr int kVersion = 1;

json to_json(const RequestClass& request_class) {
  const auto& objectives = request_class.objectives;
  return {{"name", request_class.name},
          {"ignore_eos", request_class.ignore_eos},
          {"max_tokens", request_class.max_tokens},
          {"ttft_ns", objectives.time_to_first_token.count()},
          {"tpot_ns", objectives.time_per_output_token.count()},
          {"e2e_ns", objectives.end_to_end.count()}};
}

json to_json(const PlannedTurn& turn) {
  json object = {{"prompt_tokens", turn.prompt_tokens}, {"output_tokens", turn.output_tokens}};
  if (turn.think_time.count() != 0) object["think_ns"] = turn.think_time.count();
  if (!turn.text.empty()) object["text"] = turn.text;
  if (!turn.answer.empty()) object["answer"] = turn.answer;
  return object;
}

nanoseconds duration_in(const json& object, const char* key) {
  constexpr std::uint64_t kMax = INT64_MAX;
  if (!object.contains(key)) return nanoseconds(0);
  const auto value = id_in(object, key);
  if (value > kMax) throw JsonFieldError(std::string("'") + key + "': expected nanoseconds below 2^63");
  return nanoseconds(static_cast<std::int64_t>(value));
}

std::string optional_text_in(const json& object, const char* key) {
  return object.contains(key) ? text_in(object, key) : "";
}

RequestClass to_class(const json& object) {
  RequestClass result;
  if (!object.is_object()) throw JsonFieldError("'classes': expected objects");
  result.name = text_in(object, "name");
  if (object.contains("max_tokens")) result.max_tokens = count_in(object, "max_tokens");
  if (const auto found = object.find("ignore_eos"); found != object.end()) {
    if (!found->is_boolean()) throw JsonFieldError("'ignore_eos': expected true or false");
    result.ignore_eos = found->get<bool>();
  }
  result.objectives = {.time_to_first_token = duration_in(object, "ttft_ns"),
                       .time_per_output_token = duration_in(object, "tpot_ns"),
                       .end_to_end = duration_in(object, "e2e_ns")};
  return result;
}

std::vector<RequestClass> read_head(TraceInput& input) {
  std::string line;
  if (!input.next_line(line)) input.fail("expected a plan, got an empty file");
  try {
    const auto head = parse_object(line);
    if (const auto version = id_in(head, "troupe_plan"); version != kVersion)
      throw JsonFieldError("'troupe_plan': expected version 1, got " + std::to_string(version));
    std::vector<RequestClass> classes;
    for (const auto& object : list_in(head, "classes")) classes.push_back(to_class(object));
    if (classes.empty()) throw JsonFieldError("'classes': expected at least one");
    return classes;
  } catch (const JsonFieldError& error) {
    input.fail(error.what());
  }
}

PrefixBlock to_block(const json& pair) {
  if (!pair.is_array() || pair.size() != 2) throw JsonFieldError("'prefix': expected pairs of id and tokens");
  const auto num_tokens = id_of(pair[1], "prefix");
  if (num_tokens > UINT32_MAX) throw JsonFieldError("'prefix': expected fewer than 2^32 tokens");
  return {.id = id_of(pair[0], "prefix"), .num_tokens = static_cast<std::uint32_t>(num_tokens)};
}

PlannedTurn to_turn(const json& object) {
  if (!object.is_object()) throw JsonFieldError("'turns': expected objects");
  return {.think_time = duration_in(object, "think_ns"),
          .prompt_tokens = count_in(object, "prompt_tokens"),
          .output_tokens = count_in(object, "output_tokens"),
          .text = optional_text_in(object, "text"),
          .answer = optional_text_in(object, "answer")};
}

class PlanFile final : public ConversationSource {
 public:
  explicit PlanFile(TraceInput input) : input_(std::move(input)), num_classes_(read_head(input_).size()) {}

  bool next(PlannedConversation& conversation) override {
    if (!input_.next_line(line_)) return false;
    try {
      read_line(conversation);
    } catch (const JsonFieldError& error) {
      input_.fail(error.what());
    }
    return true;
  }

 private:
  void read_line(PlannedConversation& conversation) {
    const auto object = parse_object(line_);
    conversation.request_class = object.contains("class") ? count_in(object, "class") : 0;
    if (conversation.request_class >= num_classes_)
      throw JsonFieldError("'class': expected one of the " + std::to_string(num_classes_) + " classes from 0, got " +
                           std::to_string(conversation.request_class));
    // Not counted from the first one: a plan's clock is the run's already.
    conversation.start = duration_in(object, "start_ns");
    clock_.since_begin(conversation.start, input_);
    conversation.system_text = optional_text_in(object, "system");
    conversation.prefix.clear();
    if (object.contains("prefix"))
      for (const auto& pair : list_in(object, "prefix")) conversation.prefix.push_back(to_block(pair));
    conversation.turns.clear();
    for (const auto& turn : list_in(object, "turns")) conversation.turns.push_back(to_turn(turn));
    if (conversation.turns.empty()) throw JsonFieldError("'turns': expected at least one");
  }

  TraceInput input_;
  std::size_t num_classes_;
  TraceClock clock_;
  std::string line_;
};

void write_line(std::ostream& out, const json& object) {
  out << object.dump(-1, ' ', false, json::error_handler_t::replace) << '\n';
}

}  // namespace

PlanWriter::PlanWriter(std::ostream& out, const std::vector<RequestClass>& classes) : out_(out) {
  json list = json::array();
  for (const auto& request_class : classes) list.push_back(to_json(request_class));
  write_line(out_, {{"troupe_plan", kVersion}, {"classes", list}});
}

void PlanWriter::write(const PlannedConversation& conversation) {
  json object = {{"class", conversation.request_class}, {"start_ns", conversation.start.count()}};
  if (!conversation.system_text.empty()) object["system"] = conversation.system_text;
  for (const auto& block : conversation.prefix) object["prefix"].push_back({block.id, block.num_tokens});
  for (const auto& turn : conversation.turns) object["turns"].push_back(to_json(turn));
  write_line(out_, object);
}

std::unique_ptr<ConversationSource> read_plan_file(TraceInput input) {
  return std::make_unique<PlanFile>(std::move(input));
}

std::vector<RequestClass> read_plan_classes(TraceInput input) { return read_head(input); }

}  // namespace troupe::loadgen
