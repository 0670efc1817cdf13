// SPDX-License-Identifier: Apache-2.0
#include "telemetry/protobuf_writer.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "tests/support/observability/protobuf_reader.hpp"

using namespace troupe;
using namespace troupe::test;
using namespace std::string_literals;

TEST_CASE("protobuf: the examples of the format's description come out byte by byte") {
  ProtobufWriter number;
  number.add_uint64(1, 150);
  CHECK(number.bytes() == "\x08\x96\x01"s);
  ProtobufWriter text;
  text.add_string(2, "testing");
  CHECK(text.bytes() == "\x12\x07testing"s);
  ProtobufWriter nested;
  nested.add_message(3, number);
  CHECK(nested.bytes() == "\x1a\x03\x08\x96\x01"s);
  ProtobufWriter real;
  real.add_double(1, 1.0);
  CHECK(real.bytes() == "\x09\0\0\0\0\0\0\xf0\x3f"s);
}

TEST_CASE("protobuf: signed numbers are zigzagged, enumerations are not") {
  ProtobufWriter message;
  message.add_sint32(1, -1);
  message.add_int32(2, -1);
  CHECK(message.bytes() == "\x08\x01\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s);
  const std::vector<std::int64_t> values = {0,
                                            1,
                                            -1,
                                            63,
                                            -64,
                                            64,
                                            std::numeric_limits<std::int64_t>::min(),
                                            std::numeric_limits<std::int64_t>::max()};
  ProtobufWriter packed;
  packed.add_packed_sint64(13, values);
  CHECK(ProtobufMessage(packed.bytes()).packed_sint64(13) == values);
}

TEST_CASE("protobuf: defaults cost nothing, an empty message is there all the same") {
  ProtobufWriter message;
  message.add_uint64(1, 0);
  message.add_double(2, 0);
  message.add_string(3, "");
  message.add_packed_sint64(4, {});
  CHECK(message.bytes().empty());
  ProtobufWriter around;
  around.add_message(2, message);
  CHECK(around.bytes() == "\x12\0"s);
}

TEST_CASE("protobuf: fixed numbers have their bytes from the least on") {
  ProtobufWriter message;
  message.add_fixed32(16, 1);
  message.add_fixed64(7, 0x0102030405060708);
  CHECK(message.bytes() == "\x85\x01\x01\0\0\0\x39\x08\x07\x06\x05\x04\x03\x02\x01"s);
}

TEST_CASE("protobuf: the member of a oneof is there though it has its default") {
  ProtobufWriter message;
  message.add_choice(1, std::string());
  message.add_choice(2, false);
  message.add_choice(3, std::int64_t{0});
  message.add_choice(4, 0.0);
  CHECK(message.bytes() == "\x0a\0\x10\0\x18\0\x21\0\0\0\0\0\0\0\0"s);
}

TEST_CASE("protobuf: messages in a stream have their length in front") {
  ProtobufWriter message;
  message.add_string(1, std::string(200, 'x'));
  std::string stream;
  message.append_delimited_to(stream);
  ProtobufWriter().append_delimited_to(stream);
  const auto messages = delimited_messages(stream);
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].text(1) == std::string(200, 'x'));
  CHECK(messages[1].text(1).empty());
}
