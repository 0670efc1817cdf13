// SPDX-License-Identifier: Apache-2.0
#include "http/server.hpp"

#include <doctest/doctest.h>

#include "running_server.hpp"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("streaming: a chat answer arrives as role, deltas, finish and [DONE]") {
  RunningServer server;
  TestClient client(server.port());
  client.send(post_request("/v1/chat/completions",
                           R"({"model":"demo","stream":true,"messages":[{"role":"user","content":"hi"}]})"));
  server.script().answer(server.script().wait_for_request(1), {"Hel", "lo"});
  const TestResponse response = client.read_response();
  CHECK(response.status == 200);
  CHECK(response.field("Content-Type") == "text/event-stream; charset=utf-8");
  CHECK(response.field("Cache-Control") == "no-store");
  CHECK(response.field("X-Accel-Buffering") == "no");
  CHECK(!response.field("X-Request-Id").empty());
  const auto data = sse_data(response.body);
  REQUIRE(data.size() == 5);
  CHECK(data[0].find(R"("delta":{"role":"assistant","content":""})") != std::string::npos);
  CHECK(data[1].find(R"("delta":{"content":"Hel"})") != std::string::npos);
  CHECK(data[2].find(R"("delta":{"content":"lo"})") != std::string::npos);
  CHECK(data[3].find(R"("delta":{},"logprobs":null,"finish_reason":"stop")") != std::string::npos);
  CHECK(data[4] == "[DONE]");
}
