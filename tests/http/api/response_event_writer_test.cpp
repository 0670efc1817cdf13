// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/response_event_writer.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <boost/json/parse.hpp>

#include "tests/http/test_client.hpp"

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

TEST_CASE("response events: log-probabilities come with their text, and once more in the response") {
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
  CHECK(tokens_of(events[6].at("logprobs")).empty());
  CHECK(tokens_of(events[7].at("part").at("logprobs")).empty());
  CHECK(tokens_of(events[8].at("item").at("content").at(0).at("logprobs")).empty());
  CHECK(tokens_of(events[9].at("response").at("output").at(0).at("content").at(0).at("logprobs")) == "ab");
}

namespace {

std::shared_ptr<const ConversationTurn> turn_with_tools() {
  ConversationTurn turn;
  turn.settings = R"("tool_choice":"auto","parallel_tool_calls":true,"metadata":{})";
  turn.tool_names = {{.shown = "s__f", .name_space = "s", .name = "f"},
                     {.shown = "patch", .name = "patch", .is_custom = true}};
  return std::make_shared<const ConversationTurn>(turn);
}

TextDelta calls(std::vector<CallDelta> calls) {
  return {.text = "", .usage = kUsage, .calls = std::move(calls)};
}

// Each with its item's index and what it adds.
std::string story_of(const std::vector<json::object>& events) {
  std::string story;
  for (const auto& event : events) {
    if (!event.contains("output_index")) continue;
    story += std::string(event.at("type").as_string().c_str()).substr(std::string("response.").size()) + " " +
             std::to_string(event.at("output_index").as_int64());
    for (const char* member : {"delta", "text", "arguments", "input"})
      if (event.contains(member)) story += " " + std::string(event.at(member).as_string().c_str());
    story += "\n";
  }
  return story;
}

}  // namespace

TEST_CASE("response events: reasoning, texts and calls are items, each closed before the next begins") {
  ResponseEventWriter writer(kIdentity, turn_with_tools(), EventFraming::kPlain);
  std::string out;
  writer.begin(out, {});
  writer.delta(out, {.text = "", .usage = kUsage, .reasoning = "hm"});
  writer.delta(out, {.text = "Wait.", .usage = kUsage});
  writer.delta(out, calls({{.index = 0, .id = "call_0", .name = "clock", .arguments = "{\"a\":"}}));
  writer.delta(out, calls({{.index = 0, .arguments = "1}"},
                           {.index = 1, .id = "call_1", .name = "s__f"},
                           {.index = 2, .id = "call_2", .name = "patch", .arguments = "{\"input\":"}}));
  writer.delta(out, calls({{.index = 2, .arguments = "\"a\\nb\"}"}}));
  writer.finish(out, {.reason = FinishReason::kStop, .stop_string = {}, .stop_token = {}, .usage = kUsage});
  const auto events = events_of(out);
  CHECK(story_of(events) ==
        "output_item.added 0\nreasoning_text.delta 0 hm\nreasoning_text.done 0 hm\noutput_item.done 0\n"
        "output_item.added 1\ncontent_part.added 1\noutput_text.delta 1 Wait.\noutput_text.done 1 Wait.\n"
        "content_part.done 1\noutput_item.done 1\n"
        "output_item.added 2\nfunction_call_arguments.delta 2 {\"a\":\nfunction_call_arguments.delta 2 1}\n"
        "function_call_arguments.done 2 {\"a\":1}\noutput_item.done 2\n"
        "output_item.added 3\nfunction_call_arguments.done 3 {}\noutput_item.done 3\n"
        "output_item.added 4\ncustom_tool_call_input.delta 4 a\nb\ncustom_tool_call_input.done 4 a\nb\n"
        "output_item.done 4\n");
  std::vector<json::value> added, done;
  for (const auto& event : events) {
    if (event.at("type") == "response.output_item.added") added.push_back(event.at("item"));
    if (event.at("type") == "response.output_item.done") done.push_back(event.at("item"));
  }
  CHECK(added[2] == json::parse(R"({"id":"fc_1_o2","type":"function_call","status":"in_progress",)"
                                R"("call_id":"call_0","name":"clock","arguments":""})"));
  CHECK(done[0] == json::parse(R"({"id":"rs_1","type":"reasoning","status":"completed","summary":[],)"
                               R"("content":[{"type":"reasoning_text","text":"hm"}]})"));
  CHECK(done[3] == json::parse(R"({"id":"fc_1_o3","type":"function_call","status":"completed",)"
                               R"("call_id":"call_1","name":"f","namespace":"s","arguments":"{}"})"));
  CHECK(done[4] == json::parse(R"({"id":"ctc_1_o4","type":"custom_tool_call","status":"completed",)"
                               R"("call_id":"call_2","name":"patch","input":"a\nb"})"));
  const auto& response = events.back().at("response").as_object();
  CHECK(response.at("output") == json::value(json::array(done.begin(), done.end())));
  CHECK(response.at("tool_choice").as_string() == "auto");
  CHECK(response.at("parallel_tool_calls").as_bool());
}

TEST_CASE("response events: a call that was cut off is incomplete, what came before it is complete") {
  ResponseEventWriter writer(kIdentity, turn_with_tools(), EventFraming::kPlain);
  std::string out;
  writer.begin(out, {});
  writer.delta(out, {.text = "Wait.",
                     .usage = kUsage,
                     .calls = {{.index = 0, .id = "call_0", .name = "clock", .arguments = "{\"a"}}});
  writer.finish(out, {.reason = FinishReason::kLength, .stop_string = {}, .stop_token = {}, .usage = kUsage});
  const auto events = events_of(out);
  const auto& output = events.back().at("response").at("output").as_array();
  CHECK(output.at(0).at("status").as_string() == "completed");
  CHECK(output.at(1).at("status").as_string() == "incomplete");
  CHECK(output.at(1).at("arguments").as_string() == "{\"a");
}

TEST_CASE("response events: a long item that is closed in mid-stream is written as it was") {
  ResponseEventWriter writer(kIdentity, turn_with_tools(), EventFraming::kPlain);
  std::string out;
  const std::string text(40'000, 'x');
  writer.begin(out, {});
  writer.delta(out, {.text = text, .usage = kUsage});
  auto long_text = writer.take_long_event();
  REQUIRE(long_text);
  writer.delta(out,
               calls({{.index = 0, .id = "call_0", .name = "clock", .arguments = std::string(40'000, 'y')}}));
  auto long_call = writer.take_long_event();
  REQUIRE(long_call);
  writer.delta(out, {.text = "more", .usage = kUsage});
  std::string late;
  for (auto* event : {&*long_text, &*long_call})
    while (event->answer.append_some(late, 1000)) {
    }
  const auto events = test::sse_data(late);
  const auto has = [&](const std::string& type, const std::string& member, const std::string& value) {
    for (const auto& data : events) {
      const auto event = json::parse(data).as_object();
      if (event.at("type").as_string() == type) return event.at(member).as_string() == value;
    }
    return false;
  };
  CHECK(has("response.output_text.delta", "delta", text));
  CHECK(has("response.output_text.done", "text", text));
  CHECK(has("response.function_call_arguments.delta", "delta", std::string(40'000, 'y')));
}
