// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/http/answer_content.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace troupe::loadgen;

namespace {

struct Read {
  ChunkKind kind;
  AnswerContent content;
};

Read read(std::string_view chunk) {
  Read result{.kind = ChunkKind::kMalformed, .content = {}};
  result.kind = ChunkReader().add(result.content, chunk);
  return result;
}

std::string chat_chunk(const std::string& delta, const std::string& rest = "") {
  return R"({"id":"x","choices":[{"index":0,"delta":)" + delta + R"(,"finish_reason":null}])" + rest + "}";
}

}  // namespace

TEST_CASE("answer content: text of chats and completions, compact or with blanks, escaped or not") {
  CHECK(read(chat_chunk(R"({"content":"plain"})")).content.text == "plain");
  CHECK(read(R"({"choices":[{"index":0,"text":"plain","finish_reason":null}]})").content.text == "plain");
  CHECK(read(R"({"choices": [{"index": 0, "delta": {"content": "plain"}}]})").content.text == "plain");
  CHECK(read(chat_chunk(R"({"content":"a\"b\\c\nd\te\/f"})")).content.text == "a\"b\\c\nd\te/f");
  CHECK(read(chat_chunk(R"({"content":"\u00e9\ud83d\ude00\b"})")).content.text == "\u00e9\U0001F600\b");
  CHECK(
      read(chat_chunk(R"({"content":"\"content\":\"trap\" and \"finish_reason\":\"stop\""})")).content.text ==
      R"("content":"trap" and "finish_reason":"stop")");
}

TEST_CASE("answer content: chunks add up, and a chunk without text is no output") {
  AnswerContent content;
  ChunkReader reader;
  CHECK(reader.add(content, chat_chunk(R"({"role":"assistant","content":""})")) == ChunkKind::kOther);
  CHECK(reader.add(content, chat_chunk(R"({"content":"a"})")) == ChunkKind::kText);
  CHECK(reader.add(content, chat_chunk(R"({"content":"b"})", R"(,"usage":null)")) == ChunkKind::kText);
  CHECK(reader.add(content, chat_chunk(R"({"content":""})", R"(,"usage":null)")) == ChunkKind::kOther);
  CHECK(reader.add(content, chat_chunk("{}")) == ChunkKind::kOther);
  CHECK(content.text == "ab");
  CHECK(content.finish_reason.empty());
}

TEST_CASE("answer content: a chunk reads the same after another one as alone") {
  const std::vector<std::string> chunks = {
      chat_chunk(R"({"content":"a"})"),
      chat_chunk(R"({"content":"a \"quoted\" \\ line\n"})"),
      chat_chunk(R"({"content":"\u00e9"})"),
      chat_chunk(R"({"content":""})"),
      chat_chunk(R"({"content":"a","reasoning_content":"hm"})"),
      chat_chunk(R"({"content":"b"})", R"(,"usage":{"completion_tokens":3})"),
      chat_chunk(R"({"content":"\",\"content\":\"c"})"),
      R"({"choices":[{"delta":{"content":"d"},"finish_reason":"stop"}]})",
      R"({"choices":[{"delta":{"content":"d"}}],"timings":{"queue_ms":1}})",
      R"({"choices":[{"text":"e"}]})",
      R"({"error":{"message":"content"}})",
      chat_chunk(R"({"content":"cut)"),
      chat_chunk(R"({"content":"a"})").substr(0, 50),
  };
  for (const auto& first : chunks) {
    for (const auto& second : chunks) {
      ChunkReader reader;
      AnswerContent ignored;
      reader.add(ignored, first);
      Read after{.kind = ChunkKind::kMalformed, .content = {}};
      after.kind = reader.add(after.content, second);
      const auto alone = read(second);
      CAPTURE(first);
      CAPTURE(second);
      CHECK(after.kind == alone.kind);
      CHECK(after.content.text == alone.content.text);
      CHECK(after.content.finish_reason == alone.content.finish_reason);
      CHECK(after.content.usage.has_value() == alone.content.usage.has_value());
      CHECK(after.content.queue_ms == alone.content.queue_ms);
      CHECK(after.content.error == alone.content.error);
    }
  }
}

TEST_CASE("answer content: finish, usage and queue time, alone or with text") {
  const auto all = read(
      R"({"choices":[{"delta":{"content":"x"},"finish_reason":"length"}],"usage":{"prompt_tokens":5,)"
      R"("completion_tokens":9,"prompt_tokens_details":{"cached_tokens":4}},"timings":{"queue_ms":2.5}})");
  CHECK(all.kind == ChunkKind::kText);
  CHECK(all.content.text == "x");
  CHECK(all.content.finish_reason == "length");
  REQUIRE(all.content.usage);
  CHECK(all.content.usage->prompt_tokens == 5);
  CHECK(all.content.usage->output_tokens == 9);
  CHECK(all.content.usage->cached_tokens == 4);
  CHECK(all.content.queue_ms == 2.5);

  const auto no_details = read(R"({"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":-9}})");
  CHECK(no_details.kind == ChunkKind::kOther);
  CHECK(no_details.content.usage->output_tokens == 0);
}

TEST_CASE("answer content: thoughts and tool calls are output, but not the answer's text") {
  const auto thought = read(chat_chunk(R"({"reasoning_content":"hm","content":""})"));
  CHECK(thought.kind == ChunkKind::kText);
  CHECK(thought.content.text.empty());
  CHECK(read(chat_chunk(R"({"tool_calls":[{"index":0}]})")).kind == ChunkKind::kText);
  CHECK(read(chat_chunk(R"({"content":"a","reasoning_content":null,"tool_calls":[]})")).kind ==
        ChunkKind::kText);
}

TEST_CASE("answer content: errors in mid-stream carry their message, null is no error") {
  const auto failed =
      read(R"({"error":{"message":"worker\nlost","type":"server_error","param":null,"code":null}})");
  CHECK(failed.kind == ChunkKind::kError);
  CHECK(failed.content.error == "worker lost");
  CHECK(read(R"({"error":"plain words"})").content.error == "plain words");
  CHECK(read(chat_chunk(R"({"content":"a"})", R"(,"error":null)")).kind == ChunkKind::kText);
}

TEST_CASE("answer content: what is no chunk is malformed") {
  for (const char* wrong :
       {"", "{", "nonsense", "[]", "null", "{}", R"({"choices":1})", R"({"choices":[1]})",
        R"({"choices":[{"delta":{"content":"a"})", R"({"choices":[{"delta":{"content":"a)"})
    CHECK_MESSAGE(read(wrong).kind == ChunkKind::kMalformed, wrong);
}

TEST_CASE("answer content: whole answers") {
  AnswerContent content;
  CHECK(add_whole_answer(content,
                         R"({"choices":[{"message":{"role":"assistant","content":"hi"},)"
                         R"("finish_reason":"stop"}],"usage":{"completion_tokens":1}})") == ChunkKind::kText);
  CHECK(content.text == "hi");
  CHECK(content.finish_reason == "stop");
  CHECK(content.usage->output_tokens == 1);
  AnswerContent completion;
  CHECK(add_whole_answer(completion, R"({"choices":[{"text":"hi","finish_reason":"stop"}]})") ==
        ChunkKind::kText);
  CHECK(completion.text == "hi");
}

TEST_CASE("answer content: error bodies of all kinds become one line of valid UTF-8") {
  CHECK(error_text(R"({"error":{"message":"too long"}})") == "too long");
  CHECK(error_text(R"({"error":"busy"})") == "busy");
  CHECK(error_text(R"({"detail":"Not Found"})") == "Not Found");
  CHECK(error_text(R"({"object":"error","message":"old vLLM"})") == "old vLLM");
  CHECK(error_text("<html>\r\n  <h1>502\tBad</h1>\n</html>") == "<html> <h1>502 Bad</h1> </html>");
  CHECK(error_text("caf\xE9") == "caf?");
  CHECK(error_text("") == "");
  CHECK(error_text(std::string(5000, 'x')).size() == 203);
  const auto cut = error_text(R"({"error":")" + std::string(199, 'x') + "\u00e9\"}");
  CHECK(cut == std::string(199, 'x') + "...");
}

TEST_CASE("answer content: an answer that is nested without end is malformed") {
  const auto nested = [](const std::string& with) {
    std::string json = R"({"error":)";
    for (int i = 0; i < 100'000; ++i) json += with;
    return json;
  };
  for (const std::string with : {"[", R"({"error":)"}) {
    std::string json = nested(with);
    CHECK(error_text(json).starts_with(json.substr(0, 190)));
    for (int i = 0; i < 100'000; ++i) json += with == "[" ? "]" : "}";
    AnswerContent content;
    CHECK(ChunkReader().add(content, json + "}") == ChunkKind::kMalformed);
  }
}

TEST_CASE("answer content: the events of a response give its text, name, end and usage") {
  AnswerContent content;
  ChunkReader reader;
  const auto add = [&](const char* json) { return reader.add(content, json); };
  CHECK(add(R"({"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response",)"
            R"("status":"in_progress","error":null,"usage":null,"output":[]}})") == ChunkKind::kOther);
  CHECK(content.response_id == "resp_1");
  CHECK(content.finish_reason.empty());
  CHECK(add(R"({"type":"response.output_text.delta","delta":"Hel"})") == ChunkKind::kText);
  CHECK(add(R"({"type":"response.reasoning_summary_text.delta","delta":"hm"})") == ChunkKind::kText);
  CHECK(add(R"({"type":"response.output_text.delta","delta":"lo"})") == ChunkKind::kText);
  CHECK(add(R"({"type":"response.output_text.done","text":"Hello"})") == ChunkKind::kOther);
  CHECK(add(R"({"type":"response.incomplete","response":{"id":"resp_1","status":"incomplete","usage":)"
            R"({"input_tokens":9,"output_tokens":2,"input_tokens_details":{"cached_tokens":4}}}})") ==
        ChunkKind::kOther);
  CHECK(content.text == "Hello");
  CHECK(content.finish_reason == "length");
  REQUIRE(content.usage);
  CHECK(content.usage->prompt_tokens == 9);
  CHECK(content.usage->output_tokens == 2);
  CHECK(content.usage->cached_tokens == 4);
  CHECK(add(R"({"type":"response.failed","response":{"id":"resp_1","status":"failed",)"
            R"("error":{"message":"no pages"}}})") == ChunkKind::kError);
  CHECK(content.error == "no pages");
  CHECK(add(R"({"type":"response.completed","response":7})") == ChunkKind::kMalformed);
}

TEST_CASE("answer content: whole responses and embeddings are read") {
  AnswerContent response;
  CHECK(add_whole_answer(response, R"({"object":"response","id":"resp_2","status":"completed","output":[)"
                                   R"({"type":"message","content":[{"type":"output_text","text":"Hi"}]}],)"
                                   R"("usage":{"input_tokens":3,"output_tokens":1}})") == ChunkKind::kText);
  CHECK(response.text == "Hi");
  CHECK(response.finish_reason == "stop");
  CHECK(response.response_id == "resp_2");
  AnswerContent embedding;
  CHECK(add_whole_answer(embedding, R"({"object":"list","data":[{"embedding":"AAAA"}],)"
                                    R"("usage":{"prompt_tokens":5,"total_tokens":5}})") == ChunkKind::kText);
  CHECK(embedding.finish_reason == "stop");
  CHECK(embedding.usage->prompt_tokens == 5);
  AnswerContent empty;
  CHECK(add_whole_answer(empty, R"({"object":"list","data":[]})") == ChunkKind::kMalformed);
}
