// SPDX-License-Identifier: Apache-2.0
#include "actors/prompt_encoding.hpp"

#include <doctest/doctest.h>

#include "tests/actors/byte_model.hpp"

namespace troupe {
namespace {

TEST_CASE("prompt encoding: texts are tokenized, tokens taken as they are") {
  GenerationRequest request;
  request.prompt = TextPrompt{"ab"};
  CHECK(std::get<0>(encode_prompt(byte_model(), request)).tokens == std::vector<std::int32_t>{97, 98});
  request.prompt = TokenPrompt{{5, 6}};
  CHECK(std::get<0>(encode_prompt(byte_model(), request)).tokens == std::vector<std::int32_t>{5, 6});
}

TEST_CASE("prompt encoding: messages need a chat template") {
  GenerationRequest request;
  request.prompt = ChatPrompt{.messages = {{"user", "hello"}}};
  const auto error = std::get<ApiError>(encode_prompt(byte_model(), request));
  CHECK(error.kind == ApiErrorKind::kInvalidRequest);
  CHECK(error.field == "messages");
}

TEST_CASE("prompt encoding: the work is measured in bytes of text") {
  GenerationRequest request;
  request.prompt = TextPrompt{"abc"};
  CHECK(prompt_text_bytes(request) == 3);
  request.prompt = ChatPrompt{.messages = {{"user", "hello"}, {"user", "you"}}};
  CHECK(prompt_text_bytes(request) == 16);
  request.prompt = TokenPrompt{{1, 2, 3}};
  CHECK(prompt_text_bytes(request) == 0);
}

}  // namespace
}  // namespace troupe
