// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/request_line.hpp"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "loadgen/json_fields.hpp"
#include "telemetry/json_depth.hpp"

namespace troupe::loadgen {
namespace {

using nlohmann::json;
using Time = RequestRecord::Time;

void append_number(std::string& out, std::int64_t number) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

void append_field(std::string& out, const char* key, std::int64_t number) {
  out.append(",\"").append(key).append("\":");
  append_number(out, number);
}

void append_gaps(std::string& out, const std::vector<std::uint32_t>& gaps_us) {
  out += ",\"gaps_us\":[";
  for (std::size_t i = 0; i < gaps_us.size(); ++i) {
    if (i > 0) out += ',';
    append_number(out, gaps_us[i]);
  }
  out += ']';
}

Time time_of(const JsonFields& fields, const char* key) {
  return Time(static_cast<std::int64_t>(fields.number(key, INT64_MAX)));
}

std::uint32_t count_of(const JsonFields& fields, const char* key) {
  return static_cast<std::uint32_t>(fields.number(key, UINT32_MAX));
}

std::vector<std::uint32_t> gaps_of(const JsonFields& fields) {
  std::vector<std::uint32_t> gaps_us;
  for (const auto& gap : fields.array("gaps_us")) {
    if (!gap.is_number_unsigned() || gap.get<std::uint64_t>() > UINT32_MAX)
      throw std::runtime_error(fields.where() +
                               ": 'gaps_us': expected microseconds from 0 to 4294967295, got " + gap.dump());
    gaps_us.push_back(gap.get<std::uint32_t>());
  }
  return gaps_us;
}

Outcome outcome_of(const JsonFields& fields) {
  const auto name = fields.text("outcome");
  if (const auto outcome = outcome_from_name(name)) return *outcome;
  std::string expected;
  for (std::size_t i = 0; i < kNumOutcomes; ++i)
    expected += (i > 0 ? ", " : "") + std::string(outcome_name(static_cast<Outcome>(i)));
  throw std::runtime_error(fields.where() + ": 'outcome': expected one of " + expected + ", got '" +
                           name.substr(0, 40) + "'");
}

}  // namespace

void append_request_line(std::string& out, const RequestRecord& record) {
  out += "{\"conversation\":";
  append_number(out, static_cast<std::int64_t>(record.conversation));
  append_field(out, "turn", record.turn);
  append_field(out, "class", record.request_class);
  append_field(out, "intended_ns", record.intended.count());
  append_field(out, "sent_ns", record.sent.count());
  append_field(out, "first_token_ns", record.first_token.count());
  append_field(out, "last_token_ns", record.last_token.count());
  append_field(out, "finished_ns", record.finished.count());
  append_gaps(out, record.gaps_us);
  append_field(out, "prompt_tokens", record.prompt_tokens);
  append_field(out, "cached_tokens", record.cached_tokens);
  append_field(out, "output_tokens", record.output_tokens);
  if (record.server_queue) append_field(out, "server_queue_ns", record.server_queue->count());
  out.append(",\"outcome\":\"").append(outcome_name(record.outcome)).append("\"");
  append_field(out, "status", record.status);
  if (!record.error.empty())
    out += ",\"error\":" + json(record.error).dump(-1, ' ', false, json::error_handler_t::replace);
  if (record.is_correct) out.append(",\"is_correct\":").append(*record.is_correct ? "true" : "false");
  out += "}\n";
}

RequestRecord parse_request_line(std::string_view line, const std::string& where) {
  const auto parsed =
      is_nested_deeper(line) ? json(json::value_t::discarded) : json::parse(line, nullptr, false);
  if (parsed.is_discarded()) throw std::runtime_error(where + ": this is no JSON");
  const JsonFields fields(parsed, where);
  RequestRecord record;
  record.conversation = fields.number("conversation", INT64_MAX);
  record.turn = count_of(fields, "turn");
  record.request_class = count_of(fields, "class");
  record.intended = time_of(fields, "intended_ns");
  record.sent = time_of(fields, "sent_ns");
  record.first_token = time_of(fields, "first_token_ns");
  record.last_token = time_of(fields, "last_token_ns");
  record.finished = time_of(fields, "finished_ns");
  record.gaps_us = gaps_of(fields);
  record.prompt_tokens = count_of(fields, "prompt_tokens");
  record.cached_tokens = count_of(fields, "cached_tokens");
  record.output_tokens = count_of(fields, "output_tokens");
  if (fields.has("server_queue_ns")) record.server_queue = time_of(fields, "server_queue_ns");
  record.outcome = outcome_of(fields);
  record.status = static_cast<std::uint16_t>(fields.number("status", UINT16_MAX));
  if (fields.has("error")) record.error = fields.text("error");
  if (fields.has("is_correct")) record.is_correct = fields.boolean("is_correct");
  return record;
}

}  // namespace troupe::loadgen
