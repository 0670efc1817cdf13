// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/formats/plan_file.hpp"

#include <stdexcept>
#include <utility>

#include "loadgen/workload/traces/json_values.hpp"

namespace troupe::loadgen {
namespace {

using nlohmann::json;
using std::chrono::nanoseconds;

constexpr std::uint64_t kVersion = 1;

json to_json(const RequestClass& request_class) {
  const auto& objectives = request_class.objectives;
  return {{"name", request_class.name},
          {"ignore_eos", request_class.ignore_eos},
          {"max_tokens", request_class.max_tokens},
          {"asked_tokens", request_class.asked_tokens},
          {"trees", name_of(request_class.trees)},
          {"ttft_ns", objectives.time_to_first_token.count()},
          {"tpot_ns", objectives.time_per_output_token.count()},
          {"e2e_ns", objectives.end_to_end.count()}};
}

json to_json(const PlannedTurn& turn) {
  json object = {{"prompt_tokens", turn.prompt_tokens}, {"output_tokens", turn.output_tokens}};
  if (turn.think_time.count() != 0) object["think_ns"] = turn.think_time.count();
  if (!turn.text.empty()) object["text"] = turn.text;
  if (!turn.answer.empty()) object["answer"] = turn.answer;
  if (turn.answer_tokens > 0) object["answer_tokens"] = turn.answer_tokens;
  if (turn.cancelled_after) object["cancelled_after_ns"] = turn.cancelled_after->count();
  if (turn.stops_reading_after) object["stops_reading_after_ns"] = turn.stops_reading_after->count();
  return object;
}

nanoseconds duration_in(const JsonFields& fields, const char* key) {
  return nanoseconds(fields.has(key) ? static_cast<std::int64_t>(fields.number(key, INT64_MAX)) : 0);
}

TreeShape trees_in(const JsonFields& fields) {
  const std::string name = fields.text("trees");
  if (const auto shape = tree_shape_from_name(name)) return *shape;
  throw std::runtime_error(fields.where() + ": 'trees': expected none, parsed or complete, got '" + name +
                           "'");
}

RequestClass to_class(const JsonFields& fields) {
  RequestClass result;
  result.name = fields.text("name");
  if (fields.has("max_tokens")) result.max_tokens = count_in(fields, "max_tokens");
  if (fields.has("asked_tokens")) result.asked_tokens = count_in(fields, "asked_tokens");
  if (fields.has("trees")) result.trees = trees_in(fields);
  if (fields.has("ignore_eos")) result.ignore_eos = fields.boolean("ignore_eos");
  result.objectives = {.time_to_first_token = duration_in(fields, "ttft_ns"),
                       .time_per_output_token = duration_in(fields, "tpot_ns"),
                       .end_to_end = duration_in(fields, "e2e_ns")};
  return result;
}

std::vector<RequestClass> read_head(TraceInput& input) {
  std::string line;
  if (!input.next_line(line)) input.fail("expected a plan, got an empty file");
  const auto place = input.place();
  const auto parsed = parse_json(line, place);
  const JsonFields head(parsed, place);
  if (const auto version = head.number("troupe_plan", UINT32_MAX); version != kVersion)
    input.fail("'troupe_plan': expected version 1, got " + std::to_string(version));
  const auto classes_place = place + ": 'classes'";
  std::vector<RequestClass> classes;
  for (const auto& element : head.array("classes"))
    classes.push_back(to_class(JsonFields(element, classes_place)));
  if (classes.empty()) input.fail("'classes': expected at least one");
  return classes;
}

PrefixBlock to_block(const json& pair, const std::string& place) {
  if (!pair.is_array() || pair.size() != 2)
    throw std::runtime_error(place + ": expected pairs of id and tokens");
  const auto num_tokens = whole_number(pair[1], place);
  if (num_tokens > UINT32_MAX) throw std::runtime_error(place + ": expected fewer than 2^32 tokens");
  return {.id = whole_number(pair[0], place), .num_tokens = static_cast<std::uint32_t>(num_tokens)};
}

std::optional<nanoseconds> time_in(const JsonFields& fields, const char* key) {
  return fields.has(key) ? std::optional(duration_in(fields, key)) : std::nullopt;
}

PlannedTurn to_turn(const JsonFields& fields) {
  return {.think_time = duration_in(fields, "think_ns"),
          .prompt_tokens = count_in(fields, "prompt_tokens"),
          .output_tokens = count_in(fields, "output_tokens"),
          .text = text_or_empty(fields, "text"),
          .answer = text_or_empty(fields, "answer"),
          .answer_tokens = fields.has("answer_tokens") ? count_in(fields, "answer_tokens") : 0,
          .cancelled_after = time_in(fields, "cancelled_after_ns"),
          .stops_reading_after = time_in(fields, "stops_reading_after_ns")};
}

class PlanFile final : public ConversationSource {
 public:
  explicit PlanFile(TraceInput input) : input_(std::move(input)), num_classes_(read_head(input_).size()) {}

  bool next(PlannedConversation& conversation) override {
    if (!input_.next_line(line_)) return false;
    read_line(conversation);
    return true;
  }

 private:
  void read_line(PlannedConversation& conversation) {
    const auto place = input_.place();
    const auto parsed = parse_json(line_, place);
    const JsonFields fields(parsed, place);
    conversation.request_class = fields.has("class") ? count_in(fields, "class") : 0;
    if (conversation.request_class >= num_classes_)
      input_.fail("'class': expected one of the " + std::to_string(num_classes_) + " classes from 0, got " +
                  std::to_string(conversation.request_class));
    // Not counted from the first one: a plan's clock is the run's already.
    conversation.start = duration_in(fields, "start_ns");
    clock_.since_begin(conversation.start, input_);
    conversation.system_text = text_or_empty(fields, "system");
    conversation.prefix.clear();
    const auto prefix_place = place + ": 'prefix'";
    if (fields.has("prefix"))
      for (const auto& pair : fields.array("prefix"))
        conversation.prefix.push_back(to_block(pair, prefix_place));
    conversation.turns.clear();
    const auto turns_place = place + ": 'turns'";
    for (const auto& turn : fields.array("turns"))
      conversation.turns.push_back(to_turn(JsonFields(turn, turns_place)));
    if (conversation.turns.empty()) input_.fail("'turns': expected at least one");
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
