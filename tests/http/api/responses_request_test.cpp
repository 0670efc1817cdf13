// SPDX-License-Identifier: Apache-2.0
#include "http/api/requests/openai_api.hpp"

#include <string>

#include <doctest/doctest.h>

#include "tests/http/running_server.hpp"

using namespace troupe;

namespace {

std::variant<ApiRequest, ApiError> parse(const std::string& fields) {
  return parse_responses_request("{" + fields + "}", test::demo_models(), {});
}
ApiRequest accepted(const std::string& fields) {
  const auto parsed = parse(fields);
  const auto* error = std::get_if<ApiError>(&parsed);
  INFO(fields, " -> ", error == nullptr ? "" : error->message);
  REQUIRE(error == nullptr);
  return std::get<ApiRequest>(parsed);
}
std::string wrong_field(const std::string& fields) {
  const auto parsed = parse(fields);
  CAPTURE(fields);
  REQUIRE(std::holds_alternative<ApiError>(parsed));
  return std::get<ApiError>(parsed).field.value_or("");
}
std::vector<ChatMessage> messages_of(const ApiRequest& request) {
  return std::get<ChatPrompt>(request.generation.prompt).messages;
}
// A request whose input is right, and something else.
std::string with(const std::string& field) { return R"("input":"hi",)" + field; }

}  // namespace

TEST_CASE("responses request: the input is a text or a list of messages with text") {
  const auto text = messages_of(accepted(R"("input":"hi")"));
  REQUIRE(text.size() == 1);
  CHECK(text[0].role == "user");
  CHECK(text[0].content == "hi");
  const auto items = messages_of(
      accepted(R"("input":[{"role":"developer","content":"a"},{"type":"message","role":"user","content":)"
               R"([{"type":"input_text","text":"b"},{"type":"input_text","text":"c"}]},)"
               R"({"id":"msg_1","type":"message","status":"completed","role":"assistant","content":)"
               R"([{"type":"output_text","text":"d","annotations":[],"logprobs":[]}]}])"));
  REQUIRE(items.size() == 3);
  CHECK(items[0].role == "developer");
  CHECK(items[1].content == "b\nc");
  CHECK(items[2].role == "assistant");
  CHECK(items[2].content == "d");
}

TEST_CASE("responses request: what is wrong with the input is named") {
  CHECK(wrong_field(R"("model":"demo")") == "input");
  CHECK(wrong_field(R"("input":[])") == "input");
  CHECK(wrong_field(R"("input":7)") == "input");
  CHECK(wrong_field(R"("input":["x"])") == "input[0]");
  CHECK(wrong_field(R"("input":[{"role":"user"}])") == "input[0].content");
  CHECK(wrong_field(R"("input":[{"content":"x"}])") == "input[0].role");
  CHECK(wrong_field(R"("input":[{"role":"tool","content":"x"}])") == "input[0].role");
  CHECK(wrong_field(R"("input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])") ==
        "input[0].content[0].type");
  CHECK(wrong_field(R"("input":[{"role":"user","content":[{"type":"input_text"}]}])") ==
        "input[0].content[0].text");
  CHECK(wrong_field(R"("input":[{"type":"item_reference","id":"x"}])") == "input[0].type");
  CHECK(wrong_field(R"("input":[{"type":"reasoning","summary":[]}])") == "input");
}

TEST_CASE("responses request: a turn is stored unless it says otherwise, and insists only if it says so") {
  const auto by_default = accepted(R"("input":"hi")").generation.turn;
  CHECK(by_default->is_stored);
  CHECK_FALSE(by_default->must_be_stored);
  CHECK(accepted(with(R"("store":true)")).generation.turn->must_be_stored);
  CHECK_FALSE(accepted(with(R"("store":false)")).generation.turn->is_stored);
  const auto turn =
      accepted(with(R"("previous_response_id":"resp_1","instructions":"Be kind.")")).generation.turn;
  CHECK(turn->previous == "resp_1");
  CHECK(turn->instructions == "Be kind.");
}

TEST_CASE("responses request: tools are repeated up to 64 KiB, since each turn stores them") {
  const auto repeats_tools = [](std::size_t num_bytes) {
    const std::string begin = R"([{"type":"function","name":"f","description":")";
    const std::string end = R"("}])";
    const std::string tools = begin + std::string(num_bytes - begin.size() - end.size(), 'd') + end;
    const auto turn = accepted(with(R"("tools":)" + tools)).generation.turn;
    CHECK((turn->settings.find(R"("tools":[],)") == std::string::npos) ==
          (turn->settings.find(tools) != std::string::npos));
    return turn->settings.find(tools) != std::string::npos;
  };
  CHECK(repeats_tools(65'536));
  CHECK_FALSE(repeats_tools(65'537));
}

TEST_CASE("responses request: the answer's length and settings have this API's names") {
  const auto request = accepted(with(
      R"("max_output_tokens":7,"temperature":0.5,"top_p":0.9,"metadata":{"a":"b"},"user":"u","stream":true)"));
  CHECK(request.shape == ResponseShape::kResponse);
  CHECK(request.stream);
  CHECK(request.generation.max_tokens == 7);
  CHECK(request.generation.sampling.temperature == 0.5F);
  CHECK(
      request.generation.turn->settings ==
      R"("tool_choice":"none","parallel_tool_calls":true,"tools":[],"max_output_tokens":7,"metadata":{"a":"b"},"temperature":0.500,"top_logprobs":0,"top_p":0.900,"user":"u")");
  CHECK(wrong_field(with(R"("max_tokens":7)")) == "max_tokens");
  CHECK(wrong_field(with(R"("max_output_tokens":0)")) == "max_output_tokens");
}

TEST_CASE("responses request: metadata keeps to OpenAI's limits") {
  std::string pairs;
  for (int i = 0; i < 17; ++i) pairs += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":\"x\"";
  CHECK(wrong_field(with("\"metadata\":{" + pairs + "}")) == "metadata");
  CHECK(wrong_field(with(R"("metadata":{"a":1})")) == "metadata");
  CHECK(wrong_field(with(R"("metadata":["a"])")) == "metadata");
  CHECK(wrong_field(with("\"metadata\":{\"" + std::string(65, 'k') + "\":\"x\"}")) == "metadata");
  CHECK(wrong_field(with("\"metadata\":{\"k\":\"" + std::string(513, 'v') + "\"}")) == "metadata");
  accepted(with("\"metadata\":{\"" + std::string(64, 'k') + "\":\"" + std::string(512, 'v') + "\"}"));
}

TEST_CASE("responses request: include asks for log-probabilities, top_logprobs says how many more") {
  const auto plain = accepted(with(R"("include":[],"top_logprobs":3)"));
  CHECK(!plain.wants_logprobs);
  const auto request = accepted(with(R"("include":["message.output_text.logprobs"],"top_logprobs":3)"));
  CHECK(request.wants_logprobs);
  CHECK(request.generation.sampling.top_logprobs == 3);
  CHECK(request.generation.turn->settings.find("\"top_logprobs\":3,") != std::string::npos);
  CHECK(accepted(with(R"("include":["message.output_text.logprobs"])")).generation.sampling.top_logprobs ==
        0);
  const auto both =
      accepted(with(R"("include":["reasoning.encrypted_content","message.output_text.logprobs"])"));
  CHECK(both.wants_logprobs);
  CHECK(!accepted(with(R"("include":["reasoning.encrypted_content"])")).wants_logprobs);
}

TEST_CASE("responses request: text.format says which form the answer has") {
  CHECK_FALSE(accepted(with(R"("text":{"verbosity":"low"})")).generation.form);
  CHECK(accepted(with(R"("text":{"format":{"type":"json_object"}})")).generation.form->kind ==
        OutputForm::Kind::kJsonObject);
  const auto form =
      accepted(with(R"("text":{"format":{"type":"json_schema","name":"n","schema":{"type":"null"}}})"))
          .generation.form;
  CHECK(form->kind == OutputForm::Kind::kJsonSchema);
  CHECK(form->text == R"({"type":"null"})");
  CHECK(form->field == "text.format.schema");
  CHECK(wrong_field(with(R"("text":{"format":{"type":"yaml"}})")) == "text.format.type");
}

TEST_CASE("responses request: what would change the meaning is refused by name, what would not is taken") {
  for (const auto& [field, value] : {std::pair{"truncation", R"("auto")"},
                                     {"background", R"(true,"store":false)"},
                                     {"conversation", R"("conv_1")"},
                                     {"max_tool_calls", "1"},
                                     {"include", R"(["file_search_call.results"])"},
                                     {"include", "7"},
                                     {"top_logprobs", "21"},
                                     {"prompt", R"({"id":"p"})"},
                                     {"text", "7"},
                                     {"stop", R"(["x"])"}}) {
    CHECK(wrong_field(with("\"" + std::string(field) + "\":" + value)) == field);
  }
  accepted(with(
      R"("truncation":"disabled","background":false,"tools":[],"tool_choice":"auto","include":[],)"
      R"("reasoning":{"effort":"high","summary":"auto"},"text":{"format":{"type":"text"},"verbosity":"low"},)"
      R"("parallel_tool_calls":true,"service_tier":"auto","prompt_cache_key":"k","unknown":1)"));
}
