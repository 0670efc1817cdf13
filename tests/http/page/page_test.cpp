// SPDX-License-Identifier: Apache-2.0
#include "http/page/page_reply.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "http/page/page_files.hpp"
#include "tests/http/running_server.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

TestResponse ask(RunningServer& server, std::string_view bytes) {
  TestClient client(server.port());
  client.send(bytes);
  return client.read_response();
}

std::string request(std::string_view method, std::string_view target) {
  return std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}

// Addresses that a file refers to: what stands between one of the beginnings and a quotation mark.
std::vector<std::string> references(std::string_view text) {
  std::vector<std::string> found;
  for (const std::string_view begin : {"src=\"", "href=\"/", "from \"./"}) {
    for (std::size_t at = text.find(begin); at != text.npos; at = text.find(begin, at + 1)) {
      const std::size_t from = text.find_last_of("/\"", text.find('"', at + begin.size()) - 1) + 1;
      found.emplace_back(text.substr(from, text.find('"', from) - from));
    }
  }
  return found;
}

}  // namespace

TEST_CASE("page: it is at /, and its files are below /page/, each with its type") {
  RunningServer server;
  const TestResponse page = ask(server, get_request("/"));
  CHECK(page.status == 200);
  CHECK(page.field("Content-Type") == "text/html; charset=utf-8");
  CHECK(page.body.starts_with("<!DOCTYPE html>"));
  CHECK(ask(server, get_request("/?x=1")).body == page.body);
  CHECK(ask(server, get_request("/page/style.css")).field("Content-Type") == "text/css; charset=utf-8");
  CHECK(ask(server, get_request("/page/main.js")).field("Content-Type") == "text/javascript; charset=utf-8");
  CHECK(ask(server, get_request("/page/icon.svg")).field("Content-Type") == "image/svg+xml");
}

TEST_CASE("page: all that its files refer to is among them, and each file is referred to") {
  std::string all;
  for (const WebFile& file : page_files()) all += file.text;
  for (const std::string& name : references(all)) {
    CAPTURE(name);
    CHECK(page_reply(name, ""));
  }
  CHECK(references(all).size() >= page_files().size());
  for (const WebFile& file : page_files()) {
    CAPTURE(std::string(file.name));
    CHECK(!file.text.empty());
    const bool is_index = file.name == "index.html";
    CHECK((is_index || all.find("/" + std::string(file.name) + "\"") != std::string::npos));
  }
}

TEST_CASE("page: its files neither run inline scripts nor turn text into HTML nor name other hosts") {
  for (const WebFile& file : page_files()) {
    CAPTURE(std::string(file.name));
    for (const std::string_view word :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "onclick=\"", "style=\"",
          "<script>", "src=\"http", "href=\"http", "url(http", "from \"http"})
      CHECK(file.text.find(word) == std::string_view::npos);
  }
}

TEST_CASE("page: browsers are told to run nothing but its files, and to guess no types") {
  RunningServer server;
  for (const std::string_view target : {"/", "/page/main.js"}) {
    const TestResponse answer = ask(server, get_request(target));
    const std::string policy = answer.field("Content-Security-Policy");
    CHECK(policy.starts_with("default-src 'none'; script-src 'self';"));
    CHECK(policy.find("unsafe") == std::string::npos);
    CHECK(policy.find("frame-ancestors 'none'") != std::string::npos);
    CHECK(policy.find("require-trusted-types-for 'script'") != std::string::npos);
    CHECK(answer.field("X-Content-Type-Options") == "nosniff");
    CHECK(answer.field("Referrer-Policy") == "no-referrer");
    CHECK(answer.field("Cache-Control") == "no-cache");
  }
  CHECK(ask(server, get_request("/health")).field("Content-Security-Policy").empty());
}

TEST_CASE("page: a file that the browser has is not sent again") {
  RunningServer server;
  const TestResponse first = ask(server, get_request("/page/main.js"));
  const std::string etag = first.field("ETag");
  REQUIRE(etag.size() > 2);
  CHECK(etag != ask(server, get_request("/")).field("ETag"));
  TestClient client(server.port());
  client.send(get_request("/page/main.js", "If-None-Match: W/\"x\", " + etag + "\r\n"));
  const std::string head = client.read_until("\r\n\r\n");
  CHECK(head.starts_with("HTTP/1.1 304 Not Modified\r\n"));
  CHECK(head.find("ETag: " + etag) != std::string::npos);
  CHECK(head.find("Content-Length") == std::string::npos);
  client.send(get_request("/page/main.js", "If-None-Match: \"other\"\r\n"));  // the connection goes on
  CHECK(client.read_response().body == first.body);
}

TEST_CASE("page: HEAD has the fields of GET and no body, other methods are refused") {
  RunningServer server;
  const std::string size = ask(server, get_request("/")).field("Content-Length");
  TestClient client(server.port());
  client.send(request("HEAD", "/"));
  const std::string head = client.read_until("\r\n\r\n");
  CHECK(head.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(head.ends_with("Content-Length: " + size + "\r\n\r\n"));
  CHECK(head.find("ETag: \"") != std::string::npos);
  const TestResponse posted = ask(server, post_request("/", "{}"));
  CHECK(posted.status == 405);
  CHECK(posted.field("Allow") == "GET, HEAD, OPTIONS");
  CHECK(ask(server, request("DELETE", "/page/main.js")).status == 405);
  CHECK(ask(server, request("OPTIONS", "/")).status == 204);
}

TEST_CASE("page: what is not among its files is not found, however it is spelled") {
  RunningServer server;
  for (const std::string_view target :
       {"/page/", "/page", "/page/nothing.js", "/page/../main.js", "/page//main.js", "/page/MAIN.JS",
        "/page/main%2ejs", "/index.html", "/page/page_reply.cpp"}) {
    CAPTURE(std::string(target));
    CHECK(ask(server, get_request(target)).status == 404);
  }
}

TEST_CASE("page: it needs no key, and what it asks for does") {
  RunningServer server([](ServerOptions& options) { options.api_keys = {{"default", "secret"}}; });
  CHECK(ask(server, get_request("/")).status == 200);
  CHECK(ask(server, get_request("/page/main.js")).status == 200);
  CHECK(ask(server, get_request("/page/nothing.js")).status == 404);
  CHECK(ask(server, get_request("/v1/models")).status == 401);
  CHECK(ask(server, get_request("/metrics")).status == 401);
  CHECK(ask(server, get_request("/metrics", "Authorization: Bearer secret\r\n")).status == 200);
}

TEST_CASE("page: without a key it is shown under names of this machine only") {
  RunningServer server;
  CHECK(ask(server, "GET / HTTP/1.1\r\nHost: rebound.example\r\n\r\n").status == 421);
}

TEST_CASE("page: the port for metrics does not have it") {
  RunningServer server([](ServerOptions& options) { options.metrics_port = 0; });
  TestClient client(server.server().metrics_port());
  client.send(get_request("/"));
  CHECK(client.read_response().status == 404);
}

TEST_CASE("page: switched off it is not there, and nothing tells strangers of it") {
  RunningServer open([](ServerOptions& options) { options.has_page = false; });
  CHECK(ask(open, get_request("/")).status == 404);
  CHECK(ask(open, get_request("/page/main.js")).status == 404);
  CHECK(ask(open, post_request("/", "{}")).status == 404);
  RunningServer locked([](ServerOptions& options) {
    options.has_page = false;
    options.api_keys = {{"default", "secret"}};
  });
  CHECK(ask(locked, get_request("/")).status == 401);
}
