// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/otlp_answer.hpp"

#include <doctest/doctest.h>

#include <string>

#include "telemetry/protobuf_writer.hpp"

namespace troupe {
namespace {

std::string protobuf_answer(std::uint64_t rejected, const std::string& why) {
  ProtobufWriter partial_success;
  partial_success.add_uint64(1, rejected);
  partial_success.add_string(2, why);
  ProtobufWriter response;
  response.add_message(1, partial_success);
  return response.bytes();
}

TEST_CASE("otlp answer: spans not kept are counted, in protobuf and in JSON") {
  CHECK(count_rejected_spans(protobuf_answer(300, "too old")) == 300);
  CHECK(count_rejected_spans(protobuf_answer(0, "all is well")) == 0);
  CHECK(count_rejected_spans(R"({"partialSuccess":{"rejectedSpans":"300"}})") == 300);
  CHECK(count_rejected_spans(R"({"partialSuccess":{"rejectedSpans":7}})") == 7);
}

TEST_CASE("otlp answer: fields of later versions are passed over") {
  ProtobufWriter later;
  later.add_uint64(9, 1);
  later.add_fixed32(10, 2);
  later.add_double(11, 3);
  later.add_string(12, "text");
  const std::string answer = later.bytes() + protobuf_answer(5, "");
  CHECK(count_rejected_spans(answer) == 5);
}

TEST_CASE("otlp answer: whatever else comes, nothing was rejected") {
  const std::string whole = protobuf_answer(300, "too old");
  for (std::size_t size = 0; size < 4; ++size) {
    CAPTURE(size);
    CHECK(count_rejected_spans(whole.substr(0, size)) == 0);
  }
  for (const std::string& body :
       {std::string("{}"), std::string("{"), std::string(R"({"partialSuccess":{"rejectedSpans":"x"}})"),
        std::string(R"({"partialSuccess":{"rejectedSpans":-1}})"), std::string("<html>"),
        std::string(200, '\xFF'), std::string("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"),
        std::string(100, '\0')}) {
    CAPTURE(body);
    CHECK(count_rejected_spans(body) == 0);
  }
}

}  // namespace
}  // namespace troupe
