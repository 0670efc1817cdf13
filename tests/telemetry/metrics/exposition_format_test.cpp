// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics/exposition_format.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace troupe;

namespace {

const std::string kProtobuf =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

bool is_protobuf(const std::string& accept) {
  return choose_exposition(accept) == ExpositionFormat::kProtobuf;
}

}  // namespace

TEST_CASE(
    "exposition format: what Prometheus 2.42 sends with native histograms gets protobuf, without them text") {
  CHECK(is_protobuf(
      kProtobuf +
      ",application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;"
      "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
  CHECK(!is_protobuf(
      "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
      "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
}

TEST_CASE("exposition format: text for browsers, for curl, and for who says nothing") {
  CHECK(!is_protobuf(""));
  CHECK(!is_protobuf("*/*"));
  CHECK(!is_protobuf("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"));
  CHECK(!is_protobuf("image/png"));
  CHECK(!is_protobuf("application/*"));
}

TEST_CASE("exposition format: the better quality wins, the exact type over the wildcard") {
  CHECK(is_protobuf(kProtobuf + ";q=0.5,text/plain;q=0.4"));
  CHECK(is_protobuf(kProtobuf + ";q=0.5,text/plain;q=0.5"));
  CHECK(!is_protobuf(kProtobuf + ";q=0.5,text/plain;q=0.6"));
  CHECK(is_protobuf("*/*;q=0.9,text/plain;q=0.1," + kProtobuf + ";q=0.2"));
  CHECK(!is_protobuf("text/plain," + kProtobuf + ";q=0"));
}

TEST_CASE("exposition format: other messages and encodings of protobuf are not ours") {
  CHECK(!is_protobuf("application/vnd.google.protobuf"));
  CHECK(!is_protobuf("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily"));
  CHECK(
      !is_protobuf("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text"));
  CHECK(!is_protobuf("application/vnd.google.protobuf;proto=somebody.Else;encoding=delimited"));
}

TEST_CASE("exposition format: spaces and case don't matter, nonsense is passed over") {
  CHECK(
      is_protobuf(" Application/VND.google.protobuf ; Proto=io.prometheus.client.MetricFamily ;\t"
                  "encoding = delimited ; Q=1.0 "));
  CHECK(!is_protobuf(kProtobuf + ";q=many"));
  CHECK(!is_protobuf(kProtobuf + ";q=nan"));
  CHECK(!is_protobuf(kProtobuf + ";q=2"));
  CHECK(!is_protobuf(kProtobuf + ";q="));
  CHECK(!is_protobuf(",,;;=;q,=,"));
  CHECK(is_protobuf(",,;;=;q," + kProtobuf + ",;="));
}
