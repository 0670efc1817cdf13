// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/vectors/embedding_json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <boost/json/parse.hpp>

#include "http/api/answers/response_json.hpp"
#include "http/wire/outgoing_bytes.hpp"

using namespace troupe;

namespace {

std::string element(const std::vector<float>& vector, EmbeddingFormat format, std::uint32_t dimensions = 0) {
  std::string out;
  const auto size = static_cast<std::uint32_t>(vector.size());
  append_embedding(
      out,
      {.vectors = vector, .size = size, .dimensions = dimensions == 0 ? size : dimensions, .format = format},
      0);
  return out;
}

std::vector<float> many(std::size_t number) {
  std::vector<float> vectors(number);
  for (std::size_t i = 0; i < number; ++i) vectors[i] = std::sin(static_cast<float>(i));
  return vectors;
}

std::string list(AnswerJson::Long when, const EmbeddingView& view, std::size_t piece_bytes = 0) {
  std::string out;
  AnswerJson json(out, when);
  append_embedding_list(json, "m", view, 9);
  if (!json.has_gaps()) return out;
  CHECK(out.size() < 1000);
  LongAnswer rest = json.take(nullptr);
  while (rest.append_some(out, piece_bytes)) {
  }
  return out;
}

}  // namespace

TEST_CASE("embedding json: numbers are the shortest that mean the same float") {
  CHECK(element({0.5F, -0.25F, 0.1F, 3.0F}, EmbeddingFormat::kFloat) ==
        R"({"object":"embedding","index":0,"embedding":[0.5,-0.25,0.1,3]})");
  constexpr float kMost = std::numeric_limits<float>::max();
  const std::vector<float> odd = {1.0F / 3, 1e-30F, -1e-38F, 1e-45F, 16777216.0F, 0.0F, -0.0F, kMost};
  const auto parsed = boost::json::parse(element(odd, EmbeddingFormat::kFloat));
  const auto& numbers = parsed.at("embedding").as_array();
  REQUIRE(numbers.size() == odd.size());
  for (std::size_t i = 0; i < odd.size(); ++i) {
    CAPTURE(odd[i]);
    CHECK(numbers[i].to_number<double>() == doctest::Approx(odd[i]).epsilon(1e-7));
  }
  std::string out;
  for (const float x : many(1000)) {
    out = element({x}, EmbeddingFormat::kFloat);
    CHECK(std::strtof(out.c_str() + out.find('[') + 1, nullptr) == x);
  }
}

TEST_CASE("embedding json: base64 is of the floats' bytes, little end first") {
  CHECK(element({0.5F, -0.25F, 0.1F, 3.0F}, EmbeddingFormat::kBase64) ==
        R"({"object":"embedding","index":0,"embedding":"AAAAPwAAgL7NzMw9AABAQA=="})");
  CHECK(element({0.5F, -0.25F, 0.1F}, EmbeddingFormat::kBase64) ==
        R"({"object":"embedding","index":0,"embedding":"AAAAPwAAgL7NzMw9"})");
}

TEST_CASE("embedding json: fewer dimensions are the first ones, of length 1 again, in both formats") {
  CHECK(element({0.3F, 0.4F, 0.5F, 0.7F}, EmbeddingFormat::kFloat, 2) ==
        R"({"object":"embedding","index":0,"embedding":[0.6,0.8]})");
  CHECK(element({0.3F, 0.4F, 0.5F, 0.7F}, EmbeddingFormat::kBase64, 2) ==
        R"({"object":"embedding","index":0,"embedding":"mpkZP83MTD8="})");
  CHECK(element({0.0F, 0.0F, 1.0F}, EmbeddingFormat::kFloat, 2) ==
        R"({"object":"embedding","index":0,"embedding":[0,0]})");
  // All of them: as the model made them, of whatever length.
  CHECK(element({3.0F, 4.0F}, EmbeddingFormat::kFloat, 2) ==
        R"({"object":"embedding","index":0,"embedding":[3,4]})");
}

TEST_CASE("embedding json: the whole answer, byte for byte") {
  const std::vector<float> vectors = {1, 2, 3, 4};
  CHECK(
      list(AnswerJson::Long::kLater, {.vectors = vectors, .size = 2, .dimensions = 2}) ==
      R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,2]},)"
      R"({"object":"embedding","index":1,"embedding":[3,4]}],"model":"m","usage":{"prompt_tokens":9,"total_tokens":9}})");
}

TEST_CASE("embedding json: a long answer in pieces of any size is the same bytes as at once") {
  const auto vectors = many(300 * 64);
  for (const auto format : {EmbeddingFormat::kFloat, EmbeddingFormat::kBase64}) {
    for (const std::uint32_t dimensions : {64U, 10U}) {
      const EmbeddingView view{.vectors = vectors, .size = 64, .dimensions = dimensions, .format = format};
      const std::string whole = list(AnswerJson::Long::kAtOnce, view);
      CHECK(boost::json::parse(whole).at("data").as_array().size() == 300);
      for (const std::size_t size : {1, 7, 1000, 65536, 1 << 24})
        CHECK(list(AnswerJson::Long::kLater, view, size) == whole);
    }
  }
}

TEST_CASE("embedding json: of 2,048 vectors of 384 numbers a piece is in memory, no more") {
  const auto vectors = many(2048 * 384);
  std::string bytes;
  AnswerJson json(bytes);
  append_embedding_list(json, "m", {.vectors = vectors, .size = 384, .dimensions = 384}, 9);
  REQUIRE(json.has_gaps());
  OutgoingBytes out;
  out.add({.answer = json.take(nullptr), .framing = EventFraming::kChunked, .is_last = true});
  std::size_t most = 0, total = 0;
  for (std::string_view next = out.next(); !next.empty(); next = out.next()) {
    most = std::max(most, out.num_bytes());
    total += next.size();
    out.sent(next.size());
  }
  CHECK(most < 128 * 1024);
  CHECK(total > 5'000'000);
}
