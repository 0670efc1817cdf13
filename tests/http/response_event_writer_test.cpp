// SPDX-License-Identifier: Apache-2.0
#include "http/response_event_writer.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <boost/json/parse.hpp>

#include "test_client.hpp"

using namespace troupe;
namespace json = boost::json;

namespace {

const ResponseIdentity kIdentity{
    .id = "resp_1", .created = 12, .model = "demo", .shape = ResponseShape::kResponse};
const Usage kUsage{.prompt_tokens = 40, .completion_tokens = 2, .cached_tokens = 32};

std::shared_ptr<const ConversationTurn> turn() {
  ConversationTurn turn;
  turn.previous = "resp_0";
  turn.settings = R"("metadata":{})";
  return std::make_shared<const ConversationTurn>(turn);
}

// The events of a stream; checks that each is named by its type and numbered.
std::vector<json::object> events_of(const std::string& stream) {
  std::vector<json::object> events;
  for (const auto& data : test::sse_data(stream)) {
    events.push_back(json::parse(data).as_object());
    const auto& event = events.back();
    CHECK(event.at("sequence_number").as_int64() == static_cast<std::int64_t>(events.size()) - 1);
    CHECK(stream.find("event: " + std::string(event.at("type").as_string().c_str()) + "\ndata: ") !=
          std::string::npos);
  }
  return events;
}

std::string types_of(const std::vector<json::object>& events) {
  std::string types;
  for (const auto& event : events) types += std::string(event.at("type").as_string().c_str()) + " ";
  return types;
}

}  // namespace

TEST_CASE("response events: they come in OpenAI's order, numbered, and the last has it all") {
  ResponseEventWriter writer(kIdentity, turn(), EventFraming::kPlain);
  std::string out;
  writer.begin(out, {});
  writer.delta(out, {.text = "Hel\"", .usage = kUsage});
  writer.heartbeat(out);
  writer.delta(out, {.text = "lo", .usage = kUsage});
  writer.finish(out, {.reason = FinishReason::kStop,
                      .stop_string = {},
                      .stop_token = {},
                      .usage = kUsage,
                      .is_stored = true});
  const auto events = events_of(out);
  CHECK(types_of(events) ==
        "response.created response.in_progress response.output_item.added response.content_part.added "
        "response.output_text.delta response.output_text.delta response.output_text.done "
        "response.content_part.done response.output_item.done response.completed ");
  CHECK(events[0].at("response").at("status").as_string() == "in_progress");
  CHECK(events[0].at("response").at("output").as_array().empty());
  CHECK(events[2].at("item").at("content").as_array().empty());
  for (const std::size_t i : {3, 4, 5, 6, 7}) {
    CHECK(events[i].at("item_id").as_string() == "msg_1");
    CHECK(events[i].at("content_index").as_int64() == 0);
  }
  CHECK(events[4].at("delta").as_string() == "Hel\"");
  CHECK(events[6].at("text").as_string() == "Hel\"lo");
  CHECK(events[7].at("part").at("text").as_string() == "Hel\"lo");
  CHECK(events[8].at("item").at("status").as_string() == "completed");
  const auto& response = events[9].at("response").as_object();
  CHECK(response.at("status").as_string() == "completed");
  CHECK(response.at("store").as_bool());
  CHECK(response.at("previous_response_id").as_string() == "resp_0");
  CHECK(response.at("output").at(0).at("content").at(0).at("text").as_string() == "Hel\"lo");
  CHECK(response.at("usage").at("input_tokens_details").at("cached_tokens").as_int64() == 32);
  CHECK(response.at("usage").at("total_tokens").as_int64() == 42);
  CHECK(out.find("[DONE]") == std::string::npos);
}

TEST_CASE("response events: an answer that met its limit is incomplete and says why") {
  ResponseEventWriter writer(kIdentity, turn(), EventFraming::kPlain);
  std::string out;
  writer.begin(out, {});
  writer.finish(out, {.reason = FinishReason::kLength, .stop_string = {}, .stop_token = {}, .usage = kUsage});
  const auto last = events_of(out).back();
  CHECK(last.at("type").as_string() == "response.incomplete");
  CHECK(last.at("response").at("incomplete_details").at("reason").as_string() == "max_output_tokens");
  CHECK_FALSE(last.at("response").at("store").as_bool());
}

TEST_CASE("response events: an error fails the response, with what there is of its text") {
  ResponseEventWriter writer(kIdentity, turn(), EventFraming::kChunked);
  std::string out;
  writer.begin(out, {});
  writer.delta(out, {.text = "Hel", .usage = kUsage});
  writer.error(out, http_error(503, "the server is shutting down"));
  CHECK(out.ends_with("\r\n0\r\n\r\n"));
  const auto last = json::parse(test::sse_data(out).back()).as_object();
  CHECK(last.at("type").as_string() == "response.failed");
  CHECK(last.at("response").at("status").as_string() == "failed");
  CHECK(last.at("response").at("error").at("code").as_string() == "server_error");
  CHECK(last.at("response").at("error").at("message").as_string() == "the server is shutting down");
  CHECK(last.at("response").at("output").at(0).at("status").as_string() == "incomplete");
}

TEST_CASE("response events: log-probabilities come with their text, and all of them at the end") {
  ResponseEventWriter writer(kIdentity, turn(), EventFraming::kPlain);
  std::string out;
  writer.begin(out, {});
  for (const std::string text : {"a", "b"}) {
    writer.delta(out, {.text = text,
                       .usage = kUsage,
                       .tokens = {{.token = {.text = text, .bytes = text, .logprob = -1.0F},
                                   .top = {{.text = "z", .bytes = "z", .logprob = -2.0F}}}}});
  }
  writer.finish(out, {.reason = FinishReason::kStop, .stop_string = {}, .stop_token = {}, .usage = kUsage});
  const auto events = events_of(out);
  const auto tokens_of = [](const json::value& logprobs) {
    std::string tokens;
    for (const auto& entry : logprobs.as_array()) {
      tokens += entry.at("token").as_string().c_str();
      CHECK(entry.at("top_logprobs").at(0).at("token").as_string() == "z");
    }
    return tokens;
  };
  CHECK(tokens_of(events[4].at("logprobs")) == "a");
  CHECK(tokens_of(events[5].at("logprobs")) == "b");
  CHECK(tokens_of(events[6].at("logprobs")) == "ab");
  CHECK(tokens_of(events[7].at("part").at("logprobs")) == "ab");
  CHECK(tokens_of(events[8].at("item").at("content").at(0).at("logprobs")) == "ab");
  CHECK(tokens_of(events[9].at("response").at("output").at(0).at("content").at(0).at("logprobs")) == "ab");
}
