// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/sse_writer.hpp"

#include <doctest/doctest.h>

#include "tests/http/test_client.hpp"

using namespace troupe;

namespace {

const ResponseIdentity kChat{
    .id = "chatcmpl-1", .created = 12, .model = "de\"mo", .shape = ResponseShape::kChat};
const ResponseIdentity kText{
    .id = "cmpl-1", .created = 12, .model = "demo", .shape = ResponseShape::kCompletion};
const Usage kUsage{.prompt_tokens = 3, .completion_tokens = 2, .cached_tokens = 1, .reasoning_tokens = 1};
const Finished kStop{.reason = FinishReason::kStop, .stop_string = {}, .stop_token = {}, .usage = kUsage};

constexpr std::string_view kChatHead =
    R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":12,"model":"de\"mo","choices":[)";
constexpr std::string_view kUsageJson =
    R"({"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1},)"
    R"("completion_tokens_details":{"reasoning_tokens":1}})";

}  // namespace

TEST_CASE("sse: the bytes of a whole chat stream") {
  SseWriter writer(kChat, EventFraming::kPlain, {});
  std::string out;
  writer.begin(out, {});
  writer.delta(out, {.text = "a\"\n", .usage = kUsage});
  writer.heartbeat(out);
  writer.finish(out, kStop);
  const std::string head(kChatHead);
  CHECK(out ==
        head +
            R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})"
            "\n\n" +
            head +
            R"({"index":0,"delta":{"content":"a\"\n"},"logprobs":null,"finish_reason":null}]})"
            "\n\n" +
            ": ping\n\n" + head +
            R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null}]})"
            "\n\n" +
            "data: [DONE]\n\n");
}

TEST_CASE("sse: reasoning, text and calls of one delta are chunks of their own, in this order") {
  SseWriter writer(kChat, EventFraming::kPlain, {});
  std::string out;
  writer.delta(out, {.text = "t",
                     .usage = kUsage,
                     .reasoning = "r",
                     .calls = {{.index = 0, .id = "call_1", .name = "f", .arguments = "{\"a"},
                               {.index = 1, .id = "call_2", .name = "g"}}});
  writer.delta(out, {.text = "", .usage = kUsage, .calls = {{.index = 1, .arguments = "{}"}}});
  const auto data = test::sse_data(out);
  const std::string expected[] = {
      R"({"reasoning_content":"r"})", R"({"content":"t"})",
      R"({"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a"}}]})",
      R"({"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"g","arguments":""}}]})",
      R"({"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]})"};
  REQUIRE(data.size() == std::size(expected));
  for (std::size_t i = 0; i < data.size(); ++i)
    CHECK("data: " + data[i] == std::string(kChatHead) + R"({"index":0,"delta":)" + expected[i] +
                                    R"(,"logprobs":null,"finish_reason":null}]})");
}

TEST_CASE("sse: long arguments are written as the client takes them") {
  SseWriter writer(kChat, EventFraming::kPlain, {});
  std::string out;
  writer.delta(out,
               {.text = "",
                .usage = {},
                .calls = {{.index = 0, .id = "c", .name = "f", .arguments = std::string(100'000, 'a')}}});
  CHECK(out.empty());
  auto event = writer.take_long_event();
  REQUIRE(event);
  CHECK(event->answer.num_left() > 100'000);
}

TEST_CASE("sse: an answer that ended with calls says so, unless it was cut off") {
  for (const bool is_cut : {false, true}) {
    SseWriter writer(kChat, EventFraming::kPlain, {});
    std::string out;
    Finished finished = kStop;
    if (is_cut) finished.reason = FinishReason::kLength;
    finished.called_tools = true;
    writer.finish(out, finished);
    const std::string reason = is_cut ? "length" : "tool_calls";
    CHECK(out.find("\"finish_reason\":\"" + reason + "\"") != std::string::npos);
  }
}

TEST_CASE("sse: the bytes of a whole completion stream") {
  SseWriter writer(kText, EventFraming::kPlain, {});
  std::string out;
  writer.begin(out, {});
  writer.delta(out, {.text = "x", .usage = kUsage});
  writer.finish(out, {.reason = FinishReason::kLength, .stop_string = {}, .stop_token = {}, .usage = kUsage});
  const std::string head =
      R"(data: {"id":"cmpl-1","object":"text_completion","created":12,"model":"demo","choices":[)";
  CHECK(out == head +
                   R"({"index":0,"text":"x","logprobs":null,"finish_reason":null}]})"
                   "\n\n" +
                   head +
                   R"({"index":0,"text":"","logprobs":null,"finish_reason":"length","stop_reason":null}]})"
                   "\n\n" +
                   "data: [DONE]\n\n");
}

TEST_CASE("sse: with include_usage every chunk has usage null and the last one has no choices") {
  SseWriter writer(kChat, EventFraming::kPlain, {.include_usage = true});
  std::string out;
  writer.begin(out, {});
  writer.delta(out, {.text = "x", .usage = kUsage});
  writer.finish(out, kStop);
  const auto data = test::sse_data(out);
  REQUIRE(data.size() == 5);
  for (int i = 0; i < 3; ++i) CHECK(data[static_cast<std::size_t>(i)].ends_with(R"(],"usage":null})"));
  CHECK("data: " + data[3] == std::string(kChatHead) + "],\"usage\":" + std::string(kUsageJson) + "}");
  CHECK(data[4] == "[DONE]");
}

TEST_CASE("sse: continuous usage statistics are in every chunk") {
  SseWriter writer(kChat, EventFraming::kPlain, {.include_usage = true, .continuous_usage_stats = true});
  std::string out;
  writer.begin(out, {.prompt_tokens = 3});
  writer.delta(out, {.text = "x", .usage = kUsage});
  writer.finish(out, kStop);
  const auto data = test::sse_data(out);
  REQUIRE(data.size() == 5);
  CHECK(data[0].find(R"("usage":{"prompt_tokens":3,"completion_tokens":0,"total_tokens":3,)") !=
        std::string::npos);
  CHECK(data[1].ends_with("\"usage\":" + std::string(kUsageJson) + "}"));
  CHECK(data[2].ends_with("\"usage\":" + std::string(kUsageJson) + "}"));
}

TEST_CASE("sse: what stopped the answer is told") {
  SseWriter writer(kChat, EventFraming::kPlain, {});
  std::string by_string, by_token;
  writer.finish(by_string,
                {.reason = FinishReason::kStop, .stop_string = "\n", .stop_token = {}, .usage = {}});
  writer.finish(by_token, {.reason = FinishReason::kStop, .stop_string = {}, .stop_token = 7, .usage = {}});
  CHECK(by_string.find(R"("finish_reason":"stop","stop_reason":"\n")") != std::string::npos);
  CHECK(by_token.find(R"("finish_reason":"stop","stop_reason":7)") != std::string::npos);
}

TEST_CASE("sse: an error is one event with OpenAI's error object and no [DONE]") {
  SseWriter writer(kChat, EventFraming::kPlain, {.include_usage = true});
  std::string out;
  writer.error(out, http_error(500, "broken\n"));
  CHECK(out == R"(data: {"error":{"message":"broken\n","type":"server_error","param":null,"code":null}})"
               "\n\n");
}

TEST_CASE("sse: each event is one HTTP chunk whose length is right") {
  SseWriter plain(kChat, EventFraming::kPlain, {.include_usage = true});
  SseWriter chunked(kChat, EventFraming::kChunked, {.include_usage = true});
  const auto write = [](SseWriter& writer) {
    std::string out;
    writer.begin(out, {});
    writer.delta(out, {.text = std::string(10'000, '\n'), .usage = kUsage});
    writer.heartbeat(out);
    writer.finish(out, kStop);
    return out;
  };
  std::string rest = write(chunked);
  std::string joined;
  int num_chunks = 0;
  for (std::size_t size = 1; size != 0; ++num_chunks) {
    const std::size_t line = rest.find("\r\n");
    REQUIRE(line != std::string::npos);
    size = std::stoul(rest.substr(0, line), nullptr, 16);
    joined += rest.substr(line + 2, size);
    CHECK(rest.substr(line + 2 + size, 2) == "\r\n");
    rest.erase(0, line + 2 + size + 2);
  }
  CHECK(rest.empty());
  CHECK(num_chunks == 5);
  CHECK(joined == write(plain));
}

TEST_CASE("sse: the length of a chunk is right beyond 16 MB") {
  const EventFramer framer(EventFraming::kChunked);
  for (const std::size_t size :
       {std::size_t{1}, (std::size_t{1} << 24) - 1, std::size_t{1} << 24, std::size_t{40'000'000}}) {
    std::string out = "head ";
    const std::size_t start = framer.begin(out);
    out.append(size, 'x');
    framer.end(out, start);
    const std::size_t line = out.find("\r\n");
    CHECK(std::stoul(out.substr(5, line - 5), nullptr, 16) == size);
    CHECK(out.size() == line + 2 + size + 2);
  }
}

TEST_CASE("sse: timings are in the last chunk, be it the finish or the usage") {
  Finished finished = kStop;
  finished.timings.total = std::chrono::milliseconds(5);
  for (const bool include_usage : {false, true}) {
    SseWriter writer(kChat, EventFraming::kPlain, {.include_usage = include_usage});
    std::string out;
    writer.finish(out, finished);
    const auto data = test::sse_data(out);
    REQUIRE(data.size() == (include_usage ? 3 : 2));
    CHECK(data[data.size() - 2].find(R"("timings":{"queue_ms":0.000,)") != std::string::npos);
    if (include_usage) CHECK(data[0].find("timings") == std::string::npos);
  }
}

TEST_CASE("sse: log-probabilities are in the chunk with their text") {
  const std::vector<AnswerToken> tokens = {{.token = {.text = "a", .bytes = "a", .logprob = -0.5F}}};
  std::string chat, text;
  SseWriter(kChat, EventFraming::kPlain, {}).delta(chat, {.text = "a", .usage = kUsage, .tokens = tokens});
  CHECK(chat ==
        std::string(kChatHead) +
            R"({"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a","logprob":-0.5,)"
            R"("bytes":[97],"top_logprobs":[]}],"refusal":null},"finish_reason":null}]})"
            "\n\n");
  SseWriter(kText, EventFraming::kPlain, {}).delta(text, {.text = "a", .usage = kUsage, .tokens = tokens});
  CHECK(text.find(R"("text":"a","logprobs":{"text_offset":[0],"token_logprobs":[-0.5],"tokens":["a"],)"
                  R"("top_logprobs":[{"a":-0.5}]},"finish_reason":null}]})") != std::string::npos);
}
